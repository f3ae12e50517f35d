"""The settings of the project that is measured; on Redis it does not have django_mq."""

from __future__ import annotations

import os

from tests.settings.postgresql import *  # noqa: F403 - settings modules are made to be completed
from tests.settings.postgresql import INSTALLED_APPS as ALL_APPS

if os.environ.get("BENCH_BROKER", "").startswith("redis"):
    INSTALLED_APPS = [app for app in ALL_APPS if app != "django_mq"]
