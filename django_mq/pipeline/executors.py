"""Django's work inside Spark's tasks: batch after batch on one connection, closed at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.pipeline.django_setup import set_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


def counted(rows: DataFrame, act: Callable[[pa.RecordBatch, str], int], alias: str) -> int:
    """Hand every batch of the frame to ``act``, with the database's alias, and return the sum of its answers.

    A task may be tried again, so ``act`` must bear being given a batch twice.
    """
    found = rows.mapInArrow(_worker(act, alias), "answer bigint").agg({"answer": "sum"}).first()
    return int(found[0] or 0) if found else 0


def _worker(
    act: Callable[[pa.RecordBatch, str], int], alias: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        import pyarrow as pa

        set_up()
        from django.db import connections

        try:
            for batch in batches:
                answer = pa.array([act(batch, alias)], pa.int64())
                yield pa.RecordBatch.from_arrays([answer], names=["answer"])
        finally:
            connections[alias].close()

    return work
