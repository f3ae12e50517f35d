"""A batch whose files are lost: what the history still has of it is archived anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from django_mq.errors import PipelineError
from django_mq.models import ArchiveBatch, History
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.archive.verifying import faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def abandon(spark: SparkSession, alias: str, number: int) -> tuple[int, int]:
    """Let a damaged batch no longer count; return its rows, and how many of its ids the history still has.

    Its directory is litter from now on. Raises PipelineError when there is no such batch or it is whole,
    and ArchiveBusy while somebody works on it.
    """
    batch = {each.pk: each for each in manifest.readable(alias)}.get(number)
    if batch is None:
        raise PipelineError(f"The archive has no batch {number}; mq_spark verify names those that are damaged.")
    if not faults(spark, batch):
        raise PipelineError(f"Batch {number} is as its manifest says; it is not abandoned.")
    with manifest.held(batch, alias) if batch.active else manifest.alone(alias), transaction.atomic(using=alias):
        same = ArchiveBatch.objects.using(alias).filter(pk=number, state=batch.state, path=batch.path)
        if not same.update(state=ArchiveBatch.State.REPLACED, active=None):
            raise PipelineError(f"Batch {number} has changed meanwhile; look again with mq_spark verify.")
    files.remove(files.manifest_of(batch))
    rows = History.objects.using(alias).filter(id__gte=batch.first_id, id__lte=batch.last_id)
    return batch.rows, rows.filter(finished_at__lt=batch.cutoff).count()
