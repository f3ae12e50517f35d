"""The archive as a DataFrame, from the directories of the manifests, and checks that these are complete."""

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

#: The signed columns of a manifest without ``signed``, which an older version wrote.
FIRST_SIGNED = ("id", "message_id", "queue", "finished_at", "outcome", "attempts")


def archived(
    spark: SparkSession, alias: str, *, since: date | None = None, until: date | None = None
) -> DataFrame:
    """Return the rows finished on the days from ``since`` to ``until``, both included, in UTC.

    The columns are those of the history with headers and body. Raises PipelineError if the
    archive has no rows of these days, or a directory is missing.
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
    """Return the rows below directories, without columns from the directories' names."""
    return spark.read.option("recursiveFileLookup", "true").parquet(*paths)


def days(alias: str) -> dict[str, int]:
    """Return the days in the archive, each with its number of rows."""
    found: Counter[str] = Counter()
    for batch in manifest.readable(alias):
        found.update({day: int(rows) for day, (rows, _) in batch.days.items()})
    return dict(sorted(found.items()))


def checked(spark: SparkSession, batch: ArchiveBatch) -> DataFrame:
    """Return the batch's rows in the archive. Raises ArchiveDamaged unless all are there."""
    found = faults(spark, batch)
    if found:
        raise ArchiveDamaged(f"{found[0]} Nothing was deleted.")
    return _parquet(spark, *files.day_directories(batch))


def verify(spark: SparkSession, alias: str) -> Iterator[tuple[ArchiveBatch, list[str]]]:
    """Yield every manifest, with a sentence for each day that differs from it."""
    for batch in manifest.readable(alias):
        yield batch, faults(spark, batch)


def faults(spark: SparkSession, batch: ArchiveBatch) -> list[str]:
    """Return what is wrong with a batch's files: missing or damaged ones, missing or double rows."""
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
    """Read directories; return each day's number of rows and sum of signatures over the ``signed`` columns.

    Raises ArchiveDamaged if a row is there twice.
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

    # Spark's hash ignores nulls: without isnull, a value could change its column unnoticed.
    told = [part for name in signed for part in (f.col(name), f.isnull(name))] if signed else FIRST_SIGNED
    signature = f.xxhash64(*told).cast("decimal(20,0)")
    return [f.count("*").alias("rows"), f.sum(signature).alias("signature")]


def total(days: dict[str, list[str]]) -> tuple[int, int]:
    """Return the number of rows and the signature of all days together."""
    return manifest.count(days), sum(int(signature) for _, signature in days.values())
