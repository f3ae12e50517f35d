"""Each part of a load is published once: its messages and its line in the ledger are one transaction.

A part that is tried again, by Spark or by a whole new run, finds its line and publishes
nothing. The line has the part's rows and checksum: if the rows were divided otherwise
this time, that is an error and not a doubled message.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction

from django_mq.errors import PipelineError
from django_mq.models import BulkJob, BulkPart
from django_mq.pipeline import alike
from django_mq.pipeline.letters import WORD, signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa


def job(key: str, alias: str, *, query_id: str = "") -> BulkJob:
    """Return the job of this key, made if there is none. Raises PipelineError when another stream has it."""
    if not key or len(key) > 200:
        raise PipelineError("A load needs a job key of 1 to 200 characters, the same at every attempt.")
    rows = BulkJob.objects.using(alias)
    found, _ = rows.get_or_create(key=key, defaults={"started_at": datetime.now(UTC), "query_id": query_id})
    if found.query_id != query_id:
        raise PipelineError(
            f"The job key {key!r} belongs to another stream, or to a load that is none: a stream with a new "
            "checkpoint needs a new key, or what it sent before would be sent again."
        )
    return found


def publish_part(batches: Iterable[pa.RecordBatch], job_id: int, batch: int, part: int, alias: str) -> int:
    """Publish a part's rows, all or none; return how many were published now.

    Raises PipelineError when the part was published before with other rows.
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
            line.rows, line.checksum = _publish(_together(first, given), alias)
            line.save(using=alias, update_fields=["rows", "checksum"])
    except IntegrityError:
        known = BulkPart.objects.using(alias).filter(job_id=job_id, batch=batch, part=part).first()
        if known is None:
            raise  # something else was violated
        _compare(known, _together(first, given))
        return 0
    return line.rows


def _together(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _publish(batches: Iterator[pa.RecordBatch], alias: str) -> tuple[int, str]:
    rows, checksum = 0, 0
    for batch in batches:
        signed, messages = signature(batch)
        alike.publish(messages, alias)
        rows, checksum = rows + batch.num_rows, checksum + signed
    return rows, str(checksum % WORD)


def _compare(known: BulkPart, batches: Iterator[pa.RecordBatch]) -> None:
    rows, checksum = 0, 0
    for batch in batches:
        rows, checksum = rows + batch.num_rows, checksum + signature(batch)[0]
    if (known.rows, known.checksum) != (rows, str(checksum % WORD)):
        raise PipelineError(
            f"Part {known.part} of the job {known.job.key!r} was published before with {known.rows} other rows: "
            "the DataFrame has changed, or is divided otherwise. A new load needs a new job key."
        )
