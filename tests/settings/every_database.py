"""Pytest's settings: every kind of database under an alias of its own, in one process.

Where the databases are is known only when a test needs one: ``tests/conftest.py``
starts the servers and completes these entries just before the test databases are made.
"""

from __future__ import annotations

from typing import Any

from tests.services.mariadb import has_driver, is_expected
from tests.settings.base import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.databases import from_url, sqlite

DATABASES: dict[str, Any] = {
    "default": sqlite("set by tests/conftest.py"),
    # Django makes other databases wait for "default", which a run that needs only this one never makes.
    "postgresql": {**from_url("postgresql:///postgres"), "TEST": {"DEPENDENCIES": []}},
}
# A test's processes are killed, and never its machine.
DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
# Django looks at every alias there is, and this one cannot be looked at without its driver.
if has_driver() and is_expected():
    DATABASES["mariadb"] = {**from_url("mysql:///mysql"), "TEST": {"DEPENDENCIES": []}}
