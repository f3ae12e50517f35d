"""Is everything still there that the manifests name?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.errors import ArchiveDamaged, PipelineError
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.archive.writing import fingerprints
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from django_mq.models import ArchiveBatch


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
