"""Lines about the tasks of a job that takes long, for the log of a run without a terminal.

On a terminal, Spark draws a bar.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

#: The time between two lines.
EVERY_SECONDS = 10.0


@contextmanager
def told(output: Any, job: str) -> Iterator[Callable[[SparkSession], None]]:
    """Write a line about the running tasks every few seconds in the block, unless the output is a terminal.

    Yields a function to call with the session when there is one.
    """
    over = threading.Event()
    threads: list[threading.Thread] = []

    def opened(spark: SparkSession) -> None:
        if not output.isatty():
            thread = threading.Thread(target=_tell, args=(spark, output, job, over), daemon=True)
            threads.append(thread)
            thread.start()

    try:
        yield opened
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _tell(spark: SparkSession, output: Any, job: str, over: threading.Event) -> None:
    with suppress(Exception):  # a client of Connect has no tracker, and a session that ends has none any more
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(EVERY_SECONDS):
            if line := running(tracker):
                output.write(f"{job}: {line}")
                output.flush()


def running(tracker: Any) -> str:
    """Return how far the running stages of Spark are; nothing if none is running."""
    found = [tracker.getStageInfo(number) for number in sorted(tracker.getActiveStageIds())]
    stages = [
        f"stage {info.stageId}, {PLAIN.number(info.numCompletedTasks)} of {PLAIN.number(info.numTasks)} tasks"
        for info in found
        if info is not None
    ]
    return "; ".join(stages)
