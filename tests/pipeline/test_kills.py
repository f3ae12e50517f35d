"""Killed without warning, driver and JVM together, and started again: every row once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from django.db.models import Count

from django_mq.models import ArchiveBatch, BulkJob, BulkPart, History, Message, Queue
from django_mq.pipeline.archive import maintenance
from django_mq.pipeline.archive.reader import archived
from tests.pipeline.conftest import finished
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.once,
    pytest.mark.timeout(1800),
    pytest.mark.django_db(databases=["default"], transaction=True),
]

ROWS = 6_000
#: A JVM starts, reads and writes: minutes, where everything else runs at once.
PATIENCE_SECONDS = 600


class Command:
    """``mq_spark``, or another module, in a process of its own, which can be killed with all it has started."""

    def __init__(
        self, environment: dict[str, str], *arguments: str, module: tuple[str, ...] = ("django", "mq_spark")
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *module, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def killed_when(self, condition: Callable[[], bool]) -> None:
        """Kill it as soon as that is so; it may have ended by then."""
        wait_until(lambda: condition() or self.process.poll() is not None, seconds=PATIENCE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill the whole group, unless its end was heard already."""
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def finish(self) -> str:
        """Wait for its end, and return what it said."""
        said, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0, said
        return said


@pytest.fixture
def start(spark_environment: dict[str, str]) -> Iterator[Callable[..., Command]]:
    """Start commands, and leave none behind."""
    started: list[Command] = []

    def run(*arguments: str) -> Command:
        started.append(Command(spark_environment, "--master", "local[2]", *arguments))
        return started[-1]

    yield run
    for command in started:
        command.kill()


def test_an_archive_that_is_killed_twice_has_every_row_once(
    spark: SparkSession, start: Callable[..., Command], tmp_path: Path
) -> None:
    History.objects.bulk_create([finished(number) for number in range(1, ROWS + 1)], batch_size=2000)
    before = set(History.objects.values_list("id", flat=True))
    arguments = ("archive", "--root", str(tmp_path), "--older-than", "0", "--lease", "1")

    def lease_is_over() -> bool:
        return not ArchiveBatch.objects.filter(lease_until__isnull=False, lease_until__gt=_now()).exists()

    # While files are being written; when the first rows are deleted. Later, and perhaps when all is over, where
    # this process looks late: what counts is that no row is lost whenever it is.
    start(*arguments).killed_when(lambda: any(tmp_path.glob("batch=*/_temporary")))
    wait_until(lease_is_over)
    start(*arguments).killed_when(lambda: History.objects.count() < ROWS)
    wait_until(lease_is_over)
    start(*arguments).finish()

    assert History.objects.count() == 0
    rows = [row["id"] for row in archived(spark, "default").select("id").collect()]
    assert len(rows) == ROWS
    assert set(rows) == before
    maintenance.vacuum("default", grace_hours=0)
    assert len([*tmp_path.glob("batch=*")]) == 1


def _now() -> datetime:
    return datetime.now(UTC)


def test_a_load_that_is_killed_has_every_message_once(start: Callable[..., Command], tmp_path: Path) -> None:
    Queue.objects.create(name="orders")
    BulkJob.objects.create(key="load", parts=2, started_at=_now())
    source = tmp_path / "in.json"
    source.write_text("".join(f'{{"body": "{number}"}}\n' for number in range(2 * ROWS)))
    arguments = ("publish", str(source), "--format", "json", "--queue", "orders", "--job", "load")

    start(*arguments).killed_when(BulkPart.objects.exists)
    said = start(*arguments).finish()

    assert BulkPart.objects.count() == 2
    assert Message.objects.count() == 2 * ROWS, said
    bodies = Message.objects.values("body").annotate(n=Count("id"))
    assert not bodies.filter(n__gt=1).exists()
    assert sum(json.loads(bytes(body)) for body in Message.objects.values_list("body", flat=True)) == sum(
        range(2 * ROWS)
    )


def test_a_stream_that_is_killed_twice_has_every_row_once(
    spark_environment: dict[str, str], tmp_path: Path
) -> None:
    Queue.objects.create(name="followed")
    History.objects.bulk_create([finished(number) for number in range(1, 6001)], batch_size=2000)
    ids = [*History.objects.values_list("id", flat=True)]
    checkpoint = tmp_path / "checkpoint"

    def start() -> Command:
        module = ("tests.pipeline.programs.following",)
        return Command(spark_environment, str(checkpoint), "followed", "1500", module=module)

    # When a batch is planned; when the messages of a later one are there.
    for reached in (
        lambda: any(checkpoint.glob("offsets/[0-9]*")),
        BulkPart.objects.filter(batch__gte=2).exists,
    ):
        command = start()
        command.killed_when(reached)
    command = start()
    said = command.finish()

    numbers = [json.loads(bytes(body))["id"] for body in Message.objects.values_list("body", flat=True)]
    assert (len(numbers), len(set(numbers)), sum(numbers)) == (6000, 6000, sum(ids)), said
