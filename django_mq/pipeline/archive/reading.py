"""The archive as a DataFrame: what the manifests name, and nothing else that lies about."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from django_mq.errors import PipelineError
from django_mq.pipeline.archive import files, manifest

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession


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
    reader = spark.read.option("recursiveFileLookup", "true")
    return reader.parquet(*wanted)


def days(alias: str) -> dict[str, int]:
    """Return the days that the archive holds with their rows."""

    def add(counted: dict[str, int], batch_days: dict[str, list[str]]) -> dict[str, int]:
        for day, (rows, _) in batch_days.items():
            counted[day] = counted.get(day, 0) + int(rows)
        return counted

    found: dict[str, int] = {}
    return dict(sorted(reduce(add, (batch.days for batch in manifest.readable(alias)), found).items()))
