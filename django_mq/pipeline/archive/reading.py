"""The archive as a DataFrame: what the manifests name, nothing else that lies about, and whether it is there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from django_mq.errors import ArchiveDamaged, PipelineError
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from django_mq.models import ArchiveBatch

#: What a batch signs whose manifest does not say it: an older version wrote it.
FIRST_SIGNED = ("id", "message_id", "queue", "finished_at", "outcome", "attempts")


def archived(
    spark: SparkSession, alias: str, *, since: date | None = None, until: date | None = None
) -> DataFrame:
    """Return what was finished on the days from ``since`` to ``until``, both included, in UTC.

    The columns are those of the history with headers and body. Raises PipelineError when the
    archive holds nothing of these days, or a directory is gone.
    """
    wanted = [
        path
        for batch in manifest.readable(alias)
        for path, day in zip(files.day_directories(batch), sorted(batch.days), strict=True)
        if (since is None or day >= since.isoformat()) and (until is None or day <= until.isoformat())
    ]
    if not wanted:
        raise PipelineError(f"The archive holds nothing from {since or 'its beginning'} to {until or 'its end'}.")
    missing = [path for path in wanted if not files.exists(path)]
    if missing:
        raise PipelineError(f"The archive's directory {missing[0]} is gone; run mq_spark verify.")
    return _parquet(spark, *wanted)


def _parquet(spark: SparkSession, *paths: str) -> DataFrame:
    """Return the rows below directories, without what the directories' names say."""
    return spark.read.option("recursiveFileLookup", "true").parquet(*paths)


def days(alias: str) -> dict[str, int]:
    """Return the days that the archive holds with their rows."""
    found: Counter[str] = Counter()
    for batch in manifest.readable(alias):
        found.update({day: int(rows) for day, (rows, _) in batch.days.items()})
    return dict(sorted(found.items()))


def checked(spark: SparkSession, batch: ArchiveBatch) -> DataFrame:
    """Return the batch's rows as they are in the archive, if they are all there. Raises ArchiveDamaged."""
    found = faults(spark, batch)
    if found:
        raise ArchiveDamaged(f"{found[0]} Nothing was deleted.")
    return _parquet(spark, *files.day_directories(batch))


def verify(spark: SparkSession, alias: str) -> Iterator[tuple[ArchiveBatch, list[str]]]:
    """Yield every manifest with a sentence for each day that is not as it says."""
    for batch in manifest.readable(alias):
        yield batch, faults(spark, batch)


def faults(spark: SparkSession, batch: ArchiveBatch) -> list[str]:
    """Return what is wrong with a batch's files: none is gone, none is damaged, each row is there once."""
    missing = [path for path in [batch.path, *files.day_directories(batch)] if not files.exists(path)]
    if missing:
        return [f"Batch {batch.pk}: the directory {missing[0]} is gone."]
    try:
        with explaining():
            found = fingerprints(spark, batch.signed, *files.day_directories(batch))
    except (ArchiveDamaged, PipelineError) as error:
        return [f"Batch {batch.pk} in {batch.path} cannot be read: {error}"]
    return [
        f"Batch {batch.pk}: {day} has {found.get(day, ['0'])[0]} rows or other ones, its manifest says {said[0]}."
        for day, said in sorted(batch.days.items())
        if found.get(day) != said
    ]


def fingerprints(spark: SparkSession, signed: Sequence[str] | None, *paths: str) -> dict[str, list[str]]:
    """Read directories back: each day's rows and the sum of their signatures, over the columns that were signed.

    Raises ArchiveDamaged when a row is there twice.
    """
    from pyspark.sql import functions as f

    rows = _parquet(spark, *paths)
    day = f.date_format("finished_at", "yyyy-MM-dd").alias("day")
    found = rows.groupBy(day).agg(*totals(signed), f.countDistinct("id").alias("ids")).collect()
    if any(row["ids"] != row["rows"] for row in found):
        raise ArchiveDamaged(f"{paths[0]} holds a row twice; nothing was deleted.")
    return {row["day"]: [str(row["rows"]), str(int(row["signature"] or 0))] for row in found}


def totals(signed: Sequence[str] | None) -> list[Column]:
    from pyspark.sql import functions as f

    # A null leaves no trace in Spark's hash: without the word for it, a value might change its column.
    told = [part for name in signed for part in (f.col(name), f.isnull(name))] if signed else FIRST_SIGNED
    signature = f.xxhash64(*told).cast("decimal(20,0)")
    return [f.count("*").alias("rows"), f.sum(signature).alias("signature")]


def total(days: dict[str, list[str]]) -> tuple[int, int]:
    """Return rows and signature of all days together."""
    return manifest.count(days), sum(int(signature) for _, signature in days.values())
