"""The progress of a job: a bar on a terminal, a line per stage elsewhere.

A thread polls Spark's tracker. A Connect server reports by itself.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    #: Called with the name of the step, the tasks done, and all tasks of the stage.
    Tell = Callable[[str, int, int], None]

LOOK_SECONDS = 0.5


@contextmanager
def watched(spark: SparkSession, name: str, tell: Tell | None) -> Iterator[None]:
    """Report how many tasks of the running stage are done, until the block ends."""
    if tell is None:
        yield
        return
    if _is_remote(spark):
        with _told_by_the_server(spark, name, tell):
            yield
        return
    over, tracker = threading.Event(), spark.sparkContext.statusTracker()
    watcher = threading.Thread(target=_watch, args=(tracker, name, tell, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@contextmanager
def _told_by_the_server(spark: Any, name: str, tell: Tell) -> Iterator[None]:
    def handler(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ARG001 - Spark's names
        tasks = sum(stage.num_tasks for stage in stages or ())
        if tasks:
            tell(name, sum(stage.num_completed_tasks for stage in stages), tasks)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


def _is_remote(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _watch(tracker: Any, name: str, tell: Tell, over: threading.Event) -> None:
    while not over.wait(LOOK_SECONDS):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                tell(name, info.numCompletedTasks, info.numTasks)


def line(name: str, done: int, tasks: int, width: int = 24) -> str:
    """Return a progress bar as text.

    >>> line("write", 3, 4, width=8)
    'write  ######..  3 of 4 tasks'
    """
    filled = width * done // max(tasks, 1)
    return f"{name}  {'#' * filled}{'.' * (width - filled)}  {done} of {tasks} tasks"
