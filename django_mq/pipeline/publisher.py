"""Publish a DataFrame once: from files, from the archive, from any source of Spark.

Each part's messages and its BulkPart row are one transaction. If Spark or another run tries a part again, it
finds the row and publishes nothing. The row has the part's rows and checksum: if the rows
are divided differently this time, that raises an error instead of publishing messages twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction

from django_mq.errors import PipelineError, WrongColumns
from django_mq.models import BulkJob, BulkPart
from django_mq.pipeline import executors, outgoing
from django_mq.pipeline.outgoing import WORD, check_columns, signature, signed
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Rows of one transaction, approximately.
PART_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Published:
    """How many messages were published now, and how many rows the job has."""

    now: int
    rows: int


def publish_frame(frame: DataFrame, key: str, alias: str, *, part_rows: int = PART_ROWS) -> Published:
    """Publish the frame's rows, each once, however often this is called with the same key and the same rows.

    Rows are divided by their content, not by the partitions of the frame, so that a
    new attempt divides them in the same way. Consumers see each part when it is committed. Raises
    WrongColumns and PipelineError.
    """
    check_columns(frame.dtypes)
    with explaining():
        rows, lost = frame.selectExpr("count(*)", "count_if(queue is null or queue = '')").collect()[0]
        if lost:
            raise WrongColumns("A row has no queue; nothing was published.")
        load = job(key, alias)
        if not load.parts:
            load.parts = max(1, -(-rows // part_rows))
            load.save(using=alias, update_fields=["parts"])
        divided = signed(frame.repartition(load.parts, *frame.columns))
        now = executors.counted(divided, publish_task, alias, load.pk)
    load.finished_at = datetime.now(UTC)
    load.save(using=alias, update_fields=["finished_at"])
    return Published(now, rows)


def publish_task(batches: Iterator[pa.RecordBatch], alias: str, job_id: int, batch: int = 0) -> int:
    """Publish the rows of this task as a part of the job; on an executor."""
    return publish_part(batches, job_id, batch, executors.part_of_task(), alias)


def publish_for_sink(batches: Iterator[pa.RecordBatch], alias: str, key: str, batch: int, query_id: str) -> int:
    """As ``publish_task``, with the job's key, for a writer of the data source."""
    return publish_task(batches, alias, job(key, alias, query_id=query_id).pk, batch)


def job(key: str, alias: str, *, query_id: str = "") -> BulkJob:
    """Return the job of this key, creating it if needed. Raises PipelineError if another stream has the key."""
    if not key or len(key) > 200:
        raise PipelineError("A job needs a key of 1 to 200 characters, the same at every attempt.")
    rows = BulkJob.objects.using(alias)
    found, _ = rows.get_or_create(key=key, defaults={"started_at": datetime.now(UTC), "query_id": query_id})
    if found.query_id != query_id:
        raise PipelineError(
            f"The job key {key!r} belongs to another stream, or to a job that is no stream: a stream with a new "
            "checkpoint needs a new key, or its messages would be published again."
        )
    return found


def publish_part(batches: Iterable[pa.RecordBatch], job_id: int, batch: int, part: int, alias: str) -> int:
    """Publish all rows of a part, or none; return how many were published now.

    Raises PipelineError if the part was published before with other rows.
    """
    given = iter(batches)
    first = next((each for each in given if each.num_rows), None)
    if first is None:
        return 0
    try:
        with transaction.atomic(using=alias):
            line = BulkPart.objects.using(alias).create(
                job_id=job_id, batch=batch, part=part, rows=0, checksum="", committed_at=datetime.now(UTC)
            )
            line.rows, line.checksum = _passed(chain([first], given), alias)
            line.save(using=alias, update_fields=["rows", "checksum"])
    except IntegrityError:
        known = BulkPart.objects.using(alias).filter(job_id=job_id, batch=batch, part=part).first()
        if known is None:
            raise  # of another constraint
        if (known.rows, known.checksum) != _passed(chain([first], given)):
            raise PipelineError(
                f"Part {part} of the job {known.job.key!r} was published before with {known.rows} other rows: "
                "the DataFrame has changed, or is divided differently. Other rows need a new job key."
            ) from None
        return 0
    return line.rows


def _passed(batches: Iterator[pa.RecordBatch], publish_to: str | None = None) -> tuple[int, str]:
    """Return the number of rows and their checksum; publish the rows if a database is named."""
    rows, checksum = 0, 0
    for batch in batches:
        signed, messages = signature(batch)
        if publish_to is not None:
            outgoing.publish(messages, publish_to)
        rows, checksum = rows + batch.num_rows, checksum + signed
    return rows, str(checksum % WORD)
