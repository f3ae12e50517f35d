"""Publish a DataFrame, once: from files, from the archive, from anything Spark reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django_mq.errors import WrongColumns
from django_mq.pipeline import executors, ledger
from django_mq.pipeline.letters import check_columns, signed
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Rows of one transaction, about.
PART_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Published:
    """How many messages were published now, and how many rows the load has."""

    now: int
    rows: int


def publish_frame(frame: DataFrame, key: str, alias: str, *, part_rows: int = PART_ROWS) -> Published:
    """Publish the frame's rows, each once, however often this is called with the same key and the same rows.

    Rows are divided by their content, not by how the frame happens to be divided, so that a
    new attempt divides them alike. Consumers see each part when it is committed. Raises
    WrongColumns and PipelineError.
    """
    check_columns(frame.dtypes)
    with explaining():
        rows, lost = frame.selectExpr("count(*)", "count_if(queue is null or queue = '')").collect()[0]
        if lost:
            raise WrongColumns("A row has no queue; nothing was published.")
        job = ledger.job(key, alias)
        if not job.parts:
            job.parts = max(1, -(-rows // part_rows))
            job.save(using=alias, update_fields=["parts"])
        divided = signed(frame.repartition(job.parts, *frame.columns))
        now = executors.counted(divided, publish_task, alias, job.pk)
    job.finished_at = datetime.now(UTC)
    job.save(using=alias, update_fields=["finished_at"])
    return Published(now, rows)


def publish_task(batches: Iterator[pa.RecordBatch], alias: str, job_id: int, batch: int = 0) -> int:
    """Publish the part that this task is; on an executor."""
    return ledger.publish_part(batches, job_id, batch, executors.part_of_task(), alias)


def publish_for_sink(batches: Iterator[pa.RecordBatch], alias: str, key: str, batch: int, query_id: str) -> int:
    """The same for a writer of the data source, which knows the job by its key."""
    return publish_task(batches, alias, ledger.job(key, alias, query_id=query_id).pk, batch)
