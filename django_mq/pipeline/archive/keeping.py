"""What happens to an archive over the years: small files become large, old days go, litter goes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from django_mq.errors import ArchiveDamaged
from django_mq.models import ArchiveBatch
from django_mq.pipeline.archive import files, manifest, purging, writing
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, alias: str) -> ArchiveBatch | None:
    """Write all finished batches of one root into one directory; return its manifest, None if there is one only.

    The manifests change hands in one transaction; the old directories stay until ``vacuum``.
    Raises ArchiveDamaged, having changed nothing, when a file is not what its manifest says.
    """
    purged = [batch for batch in manifest.readable(alias) if batch.state == ArchiveBatch.State.PURGED]
    old = [batch for batch in purged if batch.root == purged[-1].root]
    if len(old) < 2:
        return None
    frames = [purging.checked(spark, batch) for batch in old]
    path = f"{old[-1].root}/batch=compact-{uuid4()}"
    with explaining():
        together = frames[0]
        for frame in frames[1:]:
            together = together.unionByName(frame)
        writing.write_days(together, path)
        days = writing.fingerprints(spark, path)
    if writing.total(days) != writing.total(_sum([batch.days for batch in old])):
        raise ArchiveDamaged(f"What was written to {path} does not read the same; the old files still count.")
    return _replace(old, path, days, alias)


def _sum(many: list[dict[str, list[str]]]) -> dict[str, list[str]]:
    return {f"{number} {day}": said for number, days in enumerate(many) for day, said in days.items()}


def _replace(old: list[ArchiveBatch], path: str, days: dict[str, list[str]], alias: str) -> ArchiveBatch:
    rows = ArchiveBatch.objects.using(alias)
    now = timezone.now()
    with transaction.atomic(using=alias):
        known = rows.select_for_update().filter(pk__in=[batch.pk for batch in old])
        if [batch.days for batch in known.order_by("id")] != [batch.days for batch in old]:
            raise ArchiveDamaged("The manifests changed while they were compacted; start again.")
        known.update(state=ArchiveBatch.State.REPLACED)
        new = rows.create(
            state=ArchiveBatch.State.PURGED,
            first_id=min(batch.first_id for batch in old),
            last_id=max(batch.last_id for batch in old),
            cutoff=max(batch.cutoff for batch in old),
            root=old[-1].root,
            path=path,
            days=days,
            rows=manifest.count(days),
            planned_at=now,
            written_at=now,
            purged_at=now,
        )
    writing.publish_manifest(new)
    return new


def forget_days(alias: str, keep_days: int) -> dict[str, int]:
    """Take days that are over from the manifests, then delete them; return them with their rows."""
    oldest = (timezone.now() - timedelta(days=keep_days)).date().isoformat()
    gone: dict[str, int] = {}
    for batch in manifest.readable(alias):
        over = [day for day in batch.days if day < oldest and batch.state == ArchiveBatch.State.PURGED]
        for day in over:
            gone[day] = gone.get(day, 0) + int(batch.days[day][0])
        drop_days(batch, alias, over)
    return gone


def drop_days(batch: ArchiveBatch, alias: str, over: list[str]) -> None:
    """Take days from a manifest, and then delete their directories."""
    if not over:
        return
    batch.days = {day: said for day, said in batch.days.items() if day not in over}
    batch.rows = manifest.count(batch.days)
    batch.save(using=alias, update_fields=["days", "rows"])
    writing.publish_manifest(batch)
    for day in over:
        files.delete(f"{batch.path}/day={day}")


def vacuum(alias: str, *, grace_hours: float = 24.0) -> list[str]:
    """Delete directories that no manifest names, unless they changed within the grace time; return them.

    An attempt that is still writing is protected by the grace time, and by its manifest's lease.
    """
    batches = list(ArchiveBatch.objects.using(alias).all())
    named = {batch.path for batch in manifest.readable(alias)}
    running = tuple(f"{batch.root}/batch={batch.pk}-{batch.attempt}" for batch in batches if batch.active)
    over = time.time() - grace_hours * 3600
    found = {
        path: at for root in {batch.root for batch in batches} for path, at in files.directories(root).items()
    }
    litter = sorted(path for path, at in found.items() if path not in named | set(running) and at < over)
    for path in litter:
        files.delete(path)
    return litter
