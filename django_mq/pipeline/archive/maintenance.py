"""Maintenance of an archive: combine small files, delete old days, delete litter.

Each function locks the manifests, and checks its lock once more before it changes or deletes
anything: no archive, restore or second process changes them at the same time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from django.db import transaction

from django_mq.errors import ArchiveDamaged, PipelineError
from django_mq.models import ArchiveBatch, History
from django_mq.pipeline.archive import files, manifest, reader, writer
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def compact(spark: SparkSession, alias: str) -> ArchiveBatch | None:
    """Write all finished batches of one root into one directory; return its manifest, None for a single batch.

    The manifests are replaced in one transaction; the old directories stay until ``vacuum``.
    Raises ArchiveDamaged, having changed nothing, if a file differs from its manifest, and
    ArchiveBusy while an archive is under way.
    """
    with manifest.alone(alias) as check:
        purged = [batch for batch in manifest.readable(alias) if batch.state == ArchiveBatch.State.PURGED]
        old = [batch for batch in purged if batch.root == purged[-1].root]
        if len(old) < 2:
            return None
        new = _together(spark, old, alias)
        _replace(old, new, alias, check)
    return new


def _together(spark: SparkSession, old: list[ArchiveBatch], alias: str) -> ArchiveBatch:
    """Write the batches into one directory, read it back, and return its manifest, not saved yet."""
    frames = [reader.checked(spark, batch, alias) for batch in old]
    path = f"{old[-1].root}/batch=compact-{uuid4()}"
    with explaining():
        together = frames[0]
        for frame in frames[1:]:
            together = together.unionByName(frame)
        sent = writer.write_days(together, path)
        files.settle(path)
        days = reader.fingerprints(spark, together.columns, path)
    if reader.total(days) != sent or sent[0] != sum(batch.rows for batch in old):
        raise ArchiveDamaged(f"What was written to {path} does not read the same; the old files still count.")
    now = datetime.now(UTC)
    return ArchiveBatch(
        state=ArchiveBatch.State.PURGED,
        first_id=min(batch.first_id for batch in old),
        last_id=max(batch.last_id for batch in old),
        cutoff=max(batch.cutoff for batch in old),
        root=old[-1].root,
        path=path,
        days=days,
        signed=together.columns,
        files=files.sizes(path),
        rows=manifest.count(days),
        planned_at=now,
        written_at=now,
        purged_at=now,
    )


def _replace(old: list[ArchiveBatch], new: ArchiveBatch, alias: str, check: Callable[[], None]) -> None:
    rows = ArchiveBatch.objects.using(alias)
    with transaction.atomic(using=alias):
        check()
        known = rows.filter(pk__in=[batch.pk for batch in old])
        if [batch.days for batch in known.order_by("id")] != [batch.days for batch in old]:
            raise ArchiveDamaged("The manifests changed while they were compacted; start again.")
        known.update(state=ArchiveBatch.State.REPLACED)
        new.save(using=alias, force_insert=True)
    manifest.publish(new)
    # With the old copies, a reader would count these rows twice.
    for batch in old:
        files.delete(files.manifest_of(batch))


def forget_days(alias: str, keep_days: int) -> dict[str, int]:
    """Remove days older than ``keep_days`` from the manifests, then delete them; return them with their rows.

    Raises PipelineError for less than a day, and ArchiveBusy while an archive is under way.
    """
    today = datetime.now(UTC).date()
    if not 1 <= keep_days < today.toordinal():
        raise PipelineError(f"--days is {keep_days}; keep 1 day or more, and none from before the year 1.")
    oldest = (today - timedelta(days=keep_days)).isoformat()
    gone: dict[str, int] = {}
    with manifest.alone(alias) as check:
        for batch in manifest.readable(alias):
            over = [day for day in batch.days if day < oldest and batch.state == ArchiveBatch.State.PURGED]
            for day in over:
                gone[day] = gone.get(day, 0) + int(batch.days[day][0])
            drop_days(batch, alias, over, check)
    return gone


def drop_days(batch: ArchiveBatch, alias: str, over: list[str], check: Callable[[], None]) -> None:
    """Remove days from a manifest, and then delete their directories."""
    if not over:
        return
    batch.days = {day: said for day, said in batch.days.items() if day not in over}
    batch.rows = manifest.count(batch.days)
    if batch.files is not None:
        batch.files = {file: size for file, size in batch.files.items() if files.day_of(file) in batch.days}
    with transaction.atomic(using=alias):
        check()
        batch.save(using=alias, update_fields=["days", "rows", "files"])
    manifest.publish(batch)
    for day in over:
        files.delete(f"{batch.path}/day={day}")


def vacuum(alias: str, *, grace_hours: float = 24.0) -> list[str]:
    """Delete directories without a manifest, unless they changed within the grace time; return them.

    Names are compared, not addresses: one root may be written in several ways. Raises ArchiveBusy while
    an archive is under way, and PipelineError if a root has another database's manifests.
    """
    if not grace_hours >= 0:
        raise PipelineError(f"--grace-hours is {grace_hours}; use 0 or more.")
    with manifest.alone(alias) as check:
        roots = {batch.root for batch in ArchiveBatch.objects.using(alias).exclude(root="")}
        litter = [path for root in sorted(roots) for path in _litter(root, alias, grace_hours)]
        for path in litter:
            check()
            files.delete(path)
    return litter


def _litter(root: str, alias: str, grace_hours: float) -> list[str]:
    manifest.check_own(root, alias)
    named = {files.name_of(batch.path) for batch in manifest.readable(alias)}
    over = time.time() - grace_hours * 3600
    found = files.directories(root)
    return sorted(path for path, at in found.items() if files.name_of(path) not in named and at < over)


def abandon(spark: SparkSession, alias: str, number: int) -> tuple[int, int]:
    """Exclude a damaged batch from the archive; return its rows, and how many of its ids the history still has.

    Its directory is litter from now on. Raises PipelineError if there is no such batch or it is not damaged,
    and ArchiveBusy while another process works on it.
    """
    batch = {each.pk: each for each in manifest.readable(alias)}.get(number)
    if batch is None:
        raise PipelineError(f"The archive has no batch {number}; mq_spark verify names those that are damaged.")
    if not reader.faults(spark, batch, alias):
        raise PipelineError(f"Batch {number} is as its manifest says; it is not abandoned.")
    with manifest.held(batch, alias) if batch.active else manifest.alone(alias), transaction.atomic(using=alias):
        same = ArchiveBatch.objects.using(alias).filter(pk=number, state=batch.state, path=batch.path)
        if not same.update(state=ArchiveBatch.State.REPLACED, active=None):
            raise PipelineError(f"Batch {number} has changed meanwhile; look again with mq_spark verify.")
    files.delete(files.manifest_of(batch))
    rows = History.objects.using(alias).filter(id__gte=batch.first_id, id__lte=batch.last_id)
    return batch.rows, rows.filter(finished_at__lt=batch.cutoff).count()
