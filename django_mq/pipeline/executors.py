"""Django in a process that Spark has started, an executor's Python or a planner's, and functions in tasks.

A function is sent by name and imported in the executor after Django is set up. Pickled,
it would be imported first, and models cannot be.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django_mq.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


def counted(rows: DataFrame, act: Callable[..., int], alias: str, *arguments: Any) -> int:
    """Call ``act`` in each task with its batches, the alias and the arguments; return the sum of the results.

    Spark may run a task again, so ``act`` must give the same result for the same batches twice.
    """
    worker = _worker(act.__module__, act.__name__, alias, arguments)
    found = rows.mapInArrow(worker, "answer bigint").agg({"answer": "sum"}).first()
    return int(found[0] or 0) if found else 0


def _worker(
    module: str, name: str, alias: str, arguments: tuple[Any, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        import pyarrow as pa

        answer = in_task(module, name, batches, alias, arguments)
        yield pa.RecordBatch.from_arrays([pa.array([answer], pa.int64())], names=["answer"])

    return work


def in_task(
    module: str, name: str, batches: Iterator[pa.RecordBatch], alias: str, arguments: tuple[Any, ...]
) -> int:
    """Set Django up, import the function and call it in this process."""
    set_up()
    from django.db import connections

    act: Callable[..., int] = getattr(import_module(module), name)
    try:
        return act(batches, alias, *arguments)
    finally:
        connections[alias].close()


def part_of_task() -> int:
    """Return the number of this task's partition; 0 outside Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def set_up() -> None:
    """Set Django up once per process. Raises PipelineError without DJANGO_SETTINGS_MODULE."""
    import django
    from django.apps import apps

    if apps.ready:
        return
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise PipelineError(
            "The executors do not know the Django project: set spark.executorEnv.DJANGO_SETTINGS_MODULE."
        )
    django.setup()


def check_alias(alias: str | None) -> str:
    """Return this database alias, or by default that of the queues. Raises PipelineError if it does not exist."""
    from django.db import connections

    from django_mq import conf

    chosen = alias or conf.load().DATABASE
    if chosen not in connections:
        raise PipelineError(f"There is no database {chosen!r}; DATABASES has {', '.join(connections)}.")
    return chosen
