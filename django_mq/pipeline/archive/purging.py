"""Delete from the history exactly what was read back from the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.errors import ArchiveDamaged
from django_mq.pipeline import executors
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from django_mq.models import ArchiveBatch

#: Rows deleted by one transaction.
CHUNK = 2000


def purge(spark: SparkSession, batch: ArchiveBatch, alias: str) -> int:
    """Delete the batch's rows from the history; return how many were still there. May be repeated.

    Raises ArchiveDamaged, having deleted nothing, when the files are not what the manifest says.
    """
    deleted = 0
    if batch.days:
        rows = checked(spark, batch)
        with explaining():
            deleted = executors.counted(rows.select("id"), delete_ids, alias)
    manifest.mark_purged(batch, alias, deleted)
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


def delete_ids(batches: Iterable[pa.RecordBatch], alias: str) -> int:
    """Delete rows of the history by their ids, chunk by chunk; return how many there were."""
    from django_mq.models import History

    rows = History.objects.using(alias)
    deleted = 0
    for batch in batches:
        ids = batch.column(0).to_pylist()
        chunks = (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
        deleted += sum(rows.filter(id__in=chunk).delete()[0] for chunk in chunks)
    return deleted
