"""On a real standalone cluster, a master and two workers: the same jobs, and executors that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from django.db import connections, transaction
from django.utils import timezone

from django_mq.errors import SparkUnavailable
from django_mq.models import ArchiveBatch, BulkJob, BulkPart, History, InsightHour, Message, Queue
from django_mq.pipeline import preflight
from tests.conftest import skip_or_fail
from tests.pipeline.conftest import finished
from tests.pipeline.test_kills import PATIENCE_SECONDS, Command
from tests.services.server import UnavailableError
from tests.services.spark import EXECUTOR_MEMORY_MIB, Cluster, home
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
ALIAS = "postgresql"
ROWS = 5_000
#: What a process on an executor has to import: the app, and a project's settings.
SHIPPED = ("django_mq", "tests/__init__.py", "tests/settings", "tests/pipeline/executor_settings.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The cluster of all tests here."""
    try:
        preflight.check()
    except SparkUnavailable as missing:
        skip_or_fail(UnavailableError(str(missing)))
    with Cluster() as started:
        yield started


@pytest.fixture
def options(cluster: Cluster, spark_environment: dict[str, str]) -> list[str]:
    """What Spark is told: the master, and what executors, which inherit nothing from us, have to know."""
    told = {name: spark_environment[name] for name in ("DJANGO_SETTINGS_MODULE", "PIPELINE_DATABASES")}
    settings = {
        "spark.executor.memory": f"{EXECUTOR_MEMORY_MIB}m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.executorEnv.{name}": value for name, value in told.items()},
    }
    return ["--master", cluster.master.url, *(x for pair in settings.items() for x in ("--conf", "=".join(pair)))]


@pytest.fixture
def start(options: list[str], spark_environment: dict[str, str]) -> Iterator[Callable[..., Command]]:
    """Start commands whose executors find the app where it is installed, and leave none behind."""
    started: list[Command] = []

    def run(job: str, *arguments: str) -> Command:
        path = ("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}", "--database", ALIAS)
        started.append(Command(spark_environment, *options, *path, job, *arguments))
        return started[-1]

    yield run
    for command in started:
        command.kill()


@pytest.mark.once
@pytest.mark.timeout(1800)
@pytest.mark.django_db(databases=[ALIAS], transaction=True)
class TestOnACluster:
    """One cluster for all: its daemons take seconds to start, and a gigabyte."""

    @pytest.fixture(autouse=True)
    def queues_on_the_alias(self, settings: pytest.FixtureRequest) -> None:
        settings.DJANGO_MQ = {"DATABASE": ALIAS}  # type: ignore[attr-defined]
        settings.DATABASE_ROUTERS = ["django_mq.routers.MQRouter"]  # type: ignore[attr-defined]

    def test_a_submitted_program_sends_the_app_along(
        self, options: list[str], spark_environment: dict[str, str], tmp_path: Path
    ) -> None:
        past(2000)
        Queue.objects.create(name="replayed")
        program = [str(ROOT / "tests/pipeline/programs/whole_way.py"), ALIAS, str(tmp_path / "archive")]
        environment = os.environ | spark_environment | {"PYSPARK_PYTHON": str(python_without_the_app(tmp_path))}
        environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": str(home())}

        done = subprocess.run(
            [str(home() / "bin/spark-submit"), *options, *program, str(zipped(tmp_path))],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

        assert done.returncode == 0, done.stderr[-5000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said.pop("figures") == InsightHour.objects.count() > 0
        assert said == {
            "master": options[1],
            "without the app": (
                "The executors cannot import django_mq: install it, with Django and the database's driver, for "
                "the Python that PYSPARK_PYTHON names on every worker."
            ),
            "archived": [2000, 2000],
            "faults": [[]],
            "published": [2000, 0],
        }
        assert Message.objects.count() == 2000

    def test_executors_that_are_killed_lose_no_row_of_the_archive(
        self, cluster: Cluster, start: Callable[..., Command], tmp_path: Path
    ) -> None:
        past(ROWS)
        ids = [*History.objects.order_by("id").values_list("id", flat=True)]
        command = start("archive", "--root", str(tmp_path), "--older-than", "0", "--lease", "5")

        # While files are being written, if that is not over already; and in the middle of the deletion: a row
        # that we hold keeps one task from ending.
        with transaction.atomic(using=ALIAS):
            History.objects.select_for_update().get(pk=ids[ROWS // 2])
            wait_until(lambda: any(tmp_path.glob("batch=*/_temporary")) or is_purging(), seconds=PATIENCE_SECONDS)
            cluster.workers[0].kill_executors()
            wait_until(lambda: is_purging() and is_waited_for(), seconds=PATIENCE_SECONDS)
            assert sum(worker.kill_executors() for worker in cluster.workers) >= 1
        command.finish()

        assert History.objects.count() == 0
        rows = ids_of_parquet(tmp_path)
        assert (len(rows), len(set(rows)), sum(rows)) == (ROWS, ROWS, sum(ids))

    def test_executors_and_a_worker_that_are_killed_publish_nothing_twice(
        self, cluster: Cluster, start: Callable[..., Command], tmp_path: Path
    ) -> None:
        Queue.objects.create(name="orders")
        job = BulkJob.objects.create(key="load", parts=6, started_at=timezone.now())
        source = tmp_path / "in.json"
        source.write_text("".join(f'{{"body": "{number}"}}\n' for number in range(3 * ROWS)))
        command = start("publish", str(source), "--format", "json", "--queue", "orders", "--job", "load")

        # Two parts whose lines we hold, uncommitted: a task of each has written its messages up to there.
        lost = cluster.workers[1]
        with suppress(GaveUpError), transaction.atomic(using=ALIAS):
            for part in (0, 3):
                BulkPart.objects.create(job=job, part=part, rows=0, checksum="", committed_at=timezone.now())
            wait_until(is_waited_for, seconds=PATIENCE_SECONDS)
            assert sum(worker.kill_executors() for worker in cluster.workers) >= 1
            wait_until(lambda: others(job) or is_waited_for(), seconds=PATIENCE_SECONDS)
            lost.kill()
            raise GaveUpError
        command.finish()
        lost.start()

        numbers = [json.loads(bytes(body)) for body in Message.objects.values_list("body", flat=True)]
        assert (len(numbers), len(set(numbers)), sum(numbers)) == (3 * ROWS, 3 * ROWS, sum(range(3 * ROWS)))
        assert BulkPart.objects.count() == 6


class GaveUpError(Exception):
    """Rolls back what was held."""


def is_purging() -> bool:
    """Whether the archive is written; asked apart from the transaction of the test."""
    return bool(apart("SELECT count(*) FROM django_mq_archivebatch WHERE state = 1"))


def is_waited_for() -> bool:
    """Whether another transaction waits for the one of the test."""
    return bool(apart("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))


def others(job: BulkJob) -> bool:
    """Whether a part has been published."""
    return bool(apart(f"SELECT count(*) FROM django_mq_bulkpart WHERE job_id = {job.pk}"))


def apart(statement: str) -> int:
    """Return a count, read on a connection of its own."""
    with psycopg.connect(**connections[ALIAS].get_connection_params(), autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    return int(row[0]) if row else 0


def past(count: int) -> None:
    """Write a history."""
    History.objects.bulk_create([finished(number) for number in range(1, count + 1)], batch_size=2000)


def ids_of_parquet(root: Path) -> list[int]:
    """Return the ids in the one directory that the manifest names, read without Spark."""
    import pyarrow.dataset as ds

    path = ArchiveBatch.objects.get().path
    assert Path(path).parent == root
    found: list[int] = ds.dataset(path, format="parquet").to_table(columns=["id"]).column("id").to_pylist()
    return found


def python_without_the_app(folder: Path) -> Path:
    """Return a Python that has everything but this project: all that is installed, and no editable thing."""
    installed = folder / "installed"
    installed.mkdir()
    for kind in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(kind).iterdir():
            link = installed / entry.name
            if not entry.name.startswith(("django_mq", "__editable__", "_editable")) and not link.exists():
                link.symlink_to(entry)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{installed}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    program.chmod(0o755)
    return program


def zipped(folder: Path) -> Path:
    """Return the app and the settings in a zip, as a site would send them along."""
    package = folder / "site.zip"
    with zipfile.ZipFile(package, "w") as file:
        file.writestr("tests/pipeline/__init__.py", "")
        for name in SHIPPED:
            place = ROOT / name
            for path in [place] if place.is_file() else place.rglob("*"):
                if path.is_file() and path.suffix != ".pyc":
                    file.write(path, path.relative_to(ROOT))
    return package
