"""Restore rows of the archive to the history, where the admin shows them.

Each row is in one place only: restored rows are read back and removed from the manifest,
and a later archive includes them again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.errors import PipelineError
from django_mq.pipeline import executors
from django_mq.pipeline.archive import maintenance, manifest, reader
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from django_mq.models import History

#: Rows of one statement, and the bytes of their headers and bodies; a larger row is alone. MariaDB takes 16 MiB.
CHUNK = 500
CHUNK_BYTES = 4 * 1024 * 1024


def restore(spark: SparkSession, alias: str, day: date) -> int:
    """Restore a day's rows under their old ids, and return how many there were. May be repeated.

    Raises PipelineError if the archive has no rows of that day, or the history has other rows under
    these ids, and ArchiveBusy while an archive is under way. The archive keeps rows that were not restored.
    """
    name = day.isoformat()
    restored = 0
    with manifest.alone(alias, restoring=name) as check:
        batches = [batch for batch in manifest.readable(alias) if name in batch.days]
        if not batches:
            raise PipelineError(f"The archive holds nothing of {name}.")
        for batch in batches:
            rows = reader.checked(spark, batch, alias).where(f"date_format(finished_at, 'yyyy-MM-dd') = '{name}'")
            with explaining():
                restored += executors.counted(rows, put_back, alias)
            maintenance.drop_days(batch, alias, [name], check)
    return restored


def put_back(batches: Iterable[pa.RecordBatch], alias: str) -> int:
    """Write rows of the archive into the history, and read them back; existing rows stay.

    Raises PipelineError if the history's row of that id is not the archive's.
    """
    from django.db import transaction

    from django_mq.models import History

    rows = 0
    for batch in batches:
        for chunk in _chunks(batch):
            made = [_history(row) for row in chunk.to_pylist()]
            with transaction.atomic(using=alias):
                History.objects.using(alias).bulk_create(made, ignore_conflicts=True)
                _compare(made, History.objects.using(alias).in_bulk([row.pk for row in made]))
            rows += len(made)
    return rows


def _chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    start, held = 0, 0
    sizes = zip(*(batch[name].to_pylist() for name in ("headers", "body")), strict=True)
    for number, values in enumerate(sizes):
        size = sum(len(value) for value in values if value is not None)
        if number > start and (number - start == CHUNK or held + size > CHUNK_BYTES):
            yield batch.slice(start, number - start)
            start, held = number, 0
        held += size
    yield batch.slice(start)


def _history(row: dict[str, Any]) -> History:
    from django_mq.models import History

    fields = {name: value for name, value in row.items() if name != "queue"}
    fields["queue_name"] = row["queue"]
    fields["message_id"] = UUID(row["message_id"])
    fields["outcome"] = History.Outcome[row["outcome"].upper()]
    fields["headers"] = None if row["headers"] is None else json.loads(row["headers"])
    return History(**fields)


def _compare(made: list[History], found: dict[int, History]) -> None:
    for row in made:
        there = found.get(row.pk)
        if there is None or _told(there) != _told(row):
            raise PipelineError(
                f"The history has another row under the id {row.pk}, or did not take the archive's as it is: this "
                "is not the history that was archived. The day stays in the archive."
            )


def _told(row: History) -> dict[str, Any]:
    """Return a row's values in a form that compares equal for every database."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    body = None if row.body is None else bytes(row.body)
    return {**values, "headers": json.dumps(row.headers, sort_keys=True), "body": body}
