"""Write a batch as Parquet and read it back; then mark it as written, and delete it from the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from django_mq.errors import ArchiveDamaged
from django_mq.models import History
from django_mq.pipeline import executors
from django_mq.pipeline.archive import files, manifest, reader
from django_mq.pipeline.session import explaining
from django_mq.pipeline.source import read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from django_mq.models import ArchiveBatch

#: Rows deleted by one transaction.
CHUNK = 2000


def write(spark: SparkSession, batch: ArchiveBatch, alias: str, attempt: UUID) -> None:
    """Write the batch into this attempt's directory. Raises ArchiveDamaged if it does not read the same."""
    path = f"{batch.root}/batch={batch.pk}-{attempt}"
    if _is_empty(batch, alias):
        manifest.mark_written(batch, alias, attempt)
        return
    with explaining():
        rows = source(spark, batch, alias)
        sent = write_days(rows, path)
        files.settle(path)
        days = reader.fingerprints(spark, rows.columns, path)
    sizes = files.sizes(path)
    if reader.total(days) != sent:
        raise ArchiveDamaged(f"What was written to {path} does not read the same; the history is untouched.")
    manifest.mark_written(batch, alias, attempt, path, days, rows.columns, sizes)
    manifest.publish(batch)


def _is_empty(batch: ArchiveBatch, alias: str) -> bool:
    """Whether maintenance has deleted all rows since the plan. Spark writes no file without rows."""
    rows = History.objects.using(alias).filter(id__gte=batch.first_id, id__lte=batch.last_id)
    return not rows.filter(finished_at__lt=batch.cutoff).exists()


def source(spark: SparkSession, batch: ArchiveBatch, alias: str) -> DataFrame:
    """Return the rows of the batch: finished before its cutoff, of its range of ids."""
    first = max(batch.first_id, 1)
    ids: dict[str, Any] = {"first_id": first, "last_id": batch.last_id}
    rows: DataFrame = read(spark, using=alias, with_body=True, finished_before=batch.cutoff, **ids)
    return rows


def write_days(rows: DataFrame, path: str) -> tuple[int, int]:
    """Write rows by day and queue; return how many were written, and the sum of their signatures.

    The files have the queue, too, because a directory's name cannot be an empty text.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    placed = (
        rows.observe(seen, *reader.totals(rows.columns))
        .withColumn("day", f.date_format("finished_at", "yyyy-MM-dd"))
        .withColumn("in_queue", f.col("queue"))
        .hint("rebalance", "day", "in_queue")
    )
    placed.write.partitionBy("day", "in_queue").option("compression", "zstd").parquet(path)
    return int(seen.get["rows"]), int(seen.get["signature"] or 0)


def purge(spark: SparkSession, batch: ArchiveBatch, alias: str, attempt: UUID) -> int:
    """Delete the batch's rows from the history; return how many were still there. May be repeated.

    Raises ArchiveDamaged, having deleted nothing, if the files differ from the manifest, and
    ArchiveBusy if another attempt has taken over: from then on this one deletes nothing.
    """
    deleted = 0
    if batch.days:
        rows = reader.checked(spark, batch, alias).select("id", "message_id")
        with explaining():
            deleted = executors.counted(rows, delete_rows, alias, batch.pk, attempt)
    manifest.mark_purged(batch, alias, attempt)
    return deleted


def delete_rows(batches: Iterable[pa.RecordBatch], alias: str, batch_id: int, attempt: UUID) -> int:
    """Delete rows of the history by their ids and message ids, chunk by chunk; return how many there were.

    The id alone may be another row's by now, in a history that was emptied or restored from a
    backup. An attempt that was replaced by another one deletes nothing, however late it continues: the
    other may have purged these rows, and they may have been restored since then.
    """
    rows = History.objects.using(alias)
    deleted = 0
    for batch in batches:
        for chunk in (batch.slice(start, CHUNK) for start in range(0, batch.num_rows, CHUNK)):
            ids, messages = (column.to_pylist() for column in chunk.columns)
            with transaction.atomic(using=alias):
                # One statement, even with listeners to deletions.
                gone = rows.filter(id__in=ids, message_id__in=messages)._raw_delete(alias)  # noqa: SLF001
                if manifest.count_purged(batch_id, attempt, alias, gone):
                    deleted += gone
                else:
                    transaction.set_rollback(True, using=alias)
    return deleted
