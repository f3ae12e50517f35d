"""What an import brings along: nothing that its user does not use."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = {
    *("celery", "kombu", "redis", "pyspark", "pyarrow", "pandas", "psycopg", "MySQLdb"),
    *("opentelemetry", "prometheus_client", "textual", "rich"),
}


def imported_by(statements: str, environment: dict[str, str]) -> set[str]:
    """Return the top-level modules that a fresh interpreter has imported after these statements."""
    program = f"{statements}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture
def environment(process_environment: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """A project on SQLite that has no use for Celery or Redis."""
    return process_environment("default") | {"DATABASE_URL": "", "REDIS_URL": ""}


def test_the_package_imports_nothing(environment: dict[str, str]) -> None:
    assert imported_by("import django_mq", environment) & (HEAVY | {"django"}) == set()


def test_the_engine_is_pure_python(environment: dict[str, str]) -> None:
    assert imported_by("import django_mq.inprocess.queue", environment) & (HEAVY | {"django"}) == set()


def test_setting_up_a_site_imports_no_driver_and_no_broker(environment: dict[str, str]) -> None:
    assert imported_by("import django; django.setup()", environment) & HEAVY == set()


def test_publishing_imports_no_driver_and_no_broker(environment: dict[str, str]) -> None:
    statements = "import django; django.setup(); import django_mq.api; from django_mq.stores.registry import *"

    assert imported_by(statements, environment) & HEAVY == set()


def test_the_native_worker_needs_no_celery(environment: dict[str, str]) -> None:
    statements = "import django; django.setup(); import django_mq.management.commands.mq_worker"

    assert imported_by(statements, environment) & HEAVY == set()


def test_the_plain_watcher_needs_no_library_of_terminals(environment: dict[str, str]) -> None:
    statements = "import django; django.setup(); import django_mq.management.commands.mq_top"

    assert imported_by(statements, environment) & {"textual", "rich"} == set()


def test_the_transport_can_be_imported_before_django_is_set_up(environment: dict[str, str]) -> None:
    assert "kombu" in imported_by("import django_mq.integrations.celery.transport", environment)
