"""Delete from the history exactly what was read back from the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.errors import ArchiveDamaged
from django_mq.pipeline import executors
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from django_mq.models import ArchiveBatch

#: Rows deleted by one transaction.
CHUNK = 2000


def purge(spark: SparkSession, batch: ArchiveBatch, alias: str, attempt: UUID) -> int:
    """Delete the batch's rows from the history; return how many were still there. May be repeated.

    Raises ArchiveDamaged, having deleted nothing, when the files are not what the manifest says, and
    ArchiveBusy when another attempt has taken over: from then on this one deletes nothing.
    """
    deleted = 0
    if batch.days:
        rows = checked(spark, batch).select("id", "message_id")
        with explaining():
            deleted = executors.counted(rows, delete_rows, alias, batch.pk, attempt)
    manifest.mark_purged(batch, alias, attempt, deleted)
    return deleted


def checked(spark: SparkSession, batch: ArchiveBatch) -> DataFrame:
    """Return the batch's rows as they are in the archive, if they are all there. Raises ArchiveDamaged."""
    from django_mq.pipeline.archive.verifying import faults

    found = faults(spark, batch)
    if found:
        raise ArchiveDamaged(f"{found[0]} Nothing was deleted.")
    return rows_of(spark, batch)


def rows_of(spark: SparkSession, batch: ArchiveBatch) -> DataFrame:
    """Return the rows of the days that the batch's manifest names."""
    reader = spark.read.option("recursiveFileLookup", "true")
    return reader.parquet(*files.day_directories(batch))


def delete_rows(batches: Iterable[pa.RecordBatch], alias: str, batch_id: int, attempt: UUID) -> int:
    """Delete rows of the history by their ids and message ids, chunk by chunk; return how many there were.

    An id alone might be another row's by now, in a history that was emptied or brought back from a
    backup. And whoever was taken over deletes nothing, however late it wakes: its rows may have been
    purged by the other, restored since then, and be nowhere else.
    """
    from django.db.models import Exists

    from django_mq.models import History

    rows = History.objects.using(alias).filter(Exists(manifest.may_purge(batch_id, attempt, alias)))
    deleted = 0
    for batch in batches:
        for chunk in (batch.slice(start, CHUNK) for start in range(0, batch.num_rows, CHUNK)):
            ids, messages = (column.to_pylist() for column in chunk.columns)
            found = rows.filter(id__in=ids, message_id__in=messages)
            # One statement, whatever listens to deletions: the attempt is asked about in it.
            deleted += found._raw_delete(alias)  # noqa: SLF001 - delete() may read first and delete then
    return deleted
