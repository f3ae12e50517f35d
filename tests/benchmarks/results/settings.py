"""The settings of the project that is measured: hints go through PostgreSQL."""

from __future__ import annotations

import os

from tests.benchmarks.celery.settings import *  # noqa: F403 - settings modules are made to be completed
from tests.benchmarks.celery.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS += ["django_celery_results"]
DJANGO_MQ = {"REDIS_URL": ""}
DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("BENCH_CONN_MAX_AGE", "0"))
