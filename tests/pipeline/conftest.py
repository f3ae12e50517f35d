"""One Spark session for all tests, and histories to read."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.db import connections

from django_mq.errors import SparkUnavailable
from django_mq.models import History
from django_mq.pipeline import preflight
from tests.conftest import skip_or_fail
from tests.services.server import UnavailableError
from tests.settings.databases import to_url
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

#: The JVMs of the tests end soon: to compile code once more, and better, would take longer than it saves.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: The first instant of the histories.
MORNING = datetime(2026, 3, 2, 8, tzinfo=UTC)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as long what needs Spark itself: a JVM that starts, and seconds for the smallest job."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.once)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Let no task of a job that has failed outlive its test: it would write into the next one's tables."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        tracker = context._jsc.sc().statusTracker()
        wait_until(
            lambda: not any(info.numRunningTasks() for info in tracker.getExecutorInfos()), "idle executors"
        )


@pytest.fixture(scope="session")
def spark_environment(django_db_setup: None) -> dict[str, str]:
    """What processes that Spark starts are told: which settings, and where the test databases are."""
    urls = {alias: to_url(connections[alias].settings_dict) for alias in connections}
    return {
        "DJANGO_SETTINGS_MODULE": "tests.pipeline.executor_settings",
        "PIPELINE_DATABASES": json.dumps(urls),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": JVM,
    }


@pytest.fixture(scope="session")
def spark(spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; a test that needs it is skipped where there is no Java, and fails in CI."""
    try:
        preflight.check()
    except SparkUnavailable as missing:
        skip_or_fail(UnavailableError(str(missing)))
    from django_mq.pipeline.session import open_session

    scratch = tmp_path_factory.mktemp("spark")
    options = {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.memory": "1g",
        **{f"spark.executorEnv.{name}": value for name, value in spark_environment.items()},
    }
    before = dict(os.environ)
    os.environ.update(spark_environment)
    try:
        session = open_session("tests", master="local[2,4]", options=options)
    finally:
        os.environ.clear()
        os.environ.update(before)
    yield session
    session.stop()


def finished(number: int, **fields: Any) -> History:
    """A finished message: published a second after the one before, taken 2 s later, done 1 s after that."""
    published = fields.pop("published_at", MORNING + timedelta(seconds=number))
    return History(
        **{
            "message_id": UUID(int=number),
            "queue_name": "orders",
            "priority": 4,
            "outcome": History.Outcome.ACCEPTED,
            "attempts": 0,
            "published_at": published,
            "ready_at": published,
            "claimed_at": published + timedelta(seconds=2),
            "finished_at": published + timedelta(seconds=3),
            "session_id": 1,
            "headers": {"number": number},
            **fields,
        }
    )


@pytest.fixture
def past(committed_database: str) -> Callable[..., list[History]]:
    """Write a history into the test's database."""

    def write(count: int, **fields: Any) -> list[History]:
        rows = [finished(number, **fields) for number in range(1, count + 1)]
        return History.objects.using(committed_database).bulk_create(rows, batch_size=1000)

    return write
