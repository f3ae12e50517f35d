"""Write a batch as Parquet, read it back, and only then say that it is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django_mq.errors import ArchiveDamaged
from django_mq.models import History
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.session import explaining
from django_mq.pipeline.source import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from pyspark.sql import Column, DataFrame, SparkSession

    from django_mq.models import ArchiveBatch

#: What a batch signs whose manifest does not say it: an older version wrote it.
FIRST_SIGNED = ("id", "message_id", "queue", "finished_at", "outcome", "attempts")


def write(spark: SparkSession, batch: ArchiveBatch, alias: str, attempt: UUID) -> None:
    """Write the batch into a directory of this attempt's. Raises ArchiveDamaged if it does not read the same."""
    path = f"{batch.root}/batch={batch.pk}-{attempt}"
    if _is_empty(batch, alias):
        manifest.mark_written(batch, alias, attempt, manifest.Contents())
        return
    with explaining():
        rows = source(spark, batch, alias)
        sent = write_days(rows, path)
        files.settle(path)
        days = fingerprints(spark, rows.columns, path)
    if total(days) != sent:
        raise ArchiveDamaged(f"What was written to {path} does not read the same; the history is untouched.")
    manifest.mark_written(batch, alias, attempt, manifest.Contents(path, days, rows.columns))
    publish_manifest(batch)


def _is_empty(batch: ArchiveBatch, alias: str) -> bool:
    """Whether upkeep has deleted all of it since it was planned. Of nothing, Spark writes no file."""
    rows = History.objects.using(alias).filter(id__gte=batch.first_id, id__lte=batch.last_id)
    return not rows.filter(finished_at__lt=batch.cutoff).exists()


def source(spark: SparkSession, batch: ArchiveBatch, alias: str) -> DataFrame:
    """Return the rows of the batch: finished before its cutoff, of its range of ids."""
    first = max(batch.first_id, 1)
    rows: DataFrame = read(spark, using=alias, with_body=True, first_id=first, last_id=batch.last_id)
    return rows.where(rows["finished_at"] < batch.cutoff)


def write_days(rows: DataFrame, path: str) -> tuple[int, int]:
    """Write rows by day and queue; return how many were sent there, and the sum of their signatures.

    The queue stands in the files too: a directory's name cannot be an empty text.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    placed = (
        rows.observe(seen, *_totals(rows.columns))
        .withColumn("day", f.date_format("finished_at", "yyyy-MM-dd"))
        .withColumn("in_queue", f.col("queue"))
        .hint("rebalance", "day", "in_queue")
    )
    placed.write.partitionBy("day", "in_queue").option("compression", "zstd").parquet(path)
    return int(seen.get["rows"]), int(seen.get["signature"] or 0)


def fingerprints(spark: SparkSession, signed: Sequence[str] | None, *paths: str) -> dict[str, list[str]]:
    """Read directories back: each day's rows and the sum of their signatures, over the columns that were signed.

    Raises ArchiveDamaged when a row is there twice.
    """
    from pyspark.sql import functions as f

    rows = spark.read.option("recursiveFileLookup", "true").parquet(*paths)
    day = f.date_format("finished_at", "yyyy-MM-dd").alias("day")
    found = rows.groupBy(day).agg(*_totals(signed), f.countDistinct("id").alias("ids")).collect()
    if any(row["ids"] != row["rows"] for row in found):
        raise ArchiveDamaged(f"{paths[0]} holds a row twice; nothing was deleted.")
    return {row["day"]: [str(row["rows"]), str(int(row["signature"] or 0))] for row in found}


def _totals(signed: Sequence[str] | None) -> list[Column]:
    from pyspark.sql import functions as f

    # A null leaves no trace in Spark's hash: without the word for it, a value might change its column.
    told = [part for name in signed for part in (f.col(name), f.isnull(name))] if signed else FIRST_SIGNED
    signature = f.xxhash64(*told).cast("decimal(20,0)")
    return [f.count("*").alias("rows"), f.sum(signature).alias("signature")]


def total(days: dict[str, list[str]]) -> tuple[int, int]:
    """Return rows and signature of all days together."""
    return manifest.count(days), sum(int(signature) for _, signature in days.values())


def publish_manifest(batch: ArchiveBatch) -> None:
    """Write the manifest beside the files, for readers without the database: DuckDB, pandas.

    The row in the database is what counts.
    """
    said = {"batch": batch.pk, "path": batch.path, "rows": batch.rows, "days": batch.days, "signed": batch.signed}
    files.write_text(files.manifest_of(batch), json.dumps(said, indent=1))
