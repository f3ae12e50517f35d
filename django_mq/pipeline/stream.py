"""The history as a stream: every row exactly once.

Ids are assigned before transactions commit: a stream that continues after the last id it has read would miss
transactions that commit late. So a batch ends at a *sealed* id: the last id assigned, once
all transactions that may have got an id up to it have ended. Such a range never changes,
and a batch that is planned again after a crash has the same rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from django_mq.errors import PipelineError
from django_mq.pipeline.source import Ids, MessageReader, ReadOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from django_mq.stores.base import Store

#: The longest wait for writers; after it the batch is empty.
PATIENCE_SECONDS = 5.0
LOOK_SECONDS = 0.05


class HistoryStream(DataSourceStreamReader):
    """Reads the history as it grows. An offset is the last id that was read."""

    def __init__(self, options: ReadOptions) -> None:
        if options.dataset_name != "history":
            raise PipelineError("Only the history can be read as a stream: live messages come and go.")
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"id": (self.options.number("first_id", 1) or 1) - 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self.options.number("max_rows")
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        self.options.dataset()  # sets Django up
        from django_mq.stores.registry import private_store

        store = private_store(self.options.alias)
        try:
            end = sealed(store, start["id"])
        finally:
            store.close()
        most = getattr(limit, "max_rows", None)
        return {"id": self._nth(start["id"], end, most) if most is not None else end}

    def _nth(self, start: int, end: int, most: int) -> int:
        """Return the id of the last row of a batch of ``most`` rows."""
        rows = self.options.dataset().rows(self.options.alias).filter(self.options.condition())
        rows = rows.filter(id__gt=start, id__lte=end)
        last = rows.order_by("id").values_list("id", flat=True)[most - 1 : most].first()
        return end if last is None else int(last)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        from django_mq.pipeline.pages import enough_parts, id_ranges

        first, last = start["id"] + 1, end["id"]
        wanted = self.options.number("partitions") or enough_parts(first, last)
        return [Ids(begin, stop) for begin, stop in id_ranges(first, last, wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from MessageReader(self.options).read(partition)


def sealed(store: Store, start: int, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Return an id up to which the history is complete; ``start`` if the writers take too long."""
    last = max(store.browser.last_finished(), start)
    deadline = time.monotonic() + patience_seconds
    writers: Any = store.browser.finishing(None, after=start, last=last)
    while writers:
        if time.monotonic() > deadline:
            return start
        time.sleep(LOOK_SECONDS)
        writers = store.browser.finishing(writers, after=start, last=last)
    return last
