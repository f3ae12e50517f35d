"""The rows that say what the archive holds, and who is working on it.

A lease keeps two processes from one batch. It goes by the clocks of their machines, so
it is a courtesy; what makes a second process harmless is the attempt: only the latest
one may say that the batch is written.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from django.db import IntegrityError, connections, transaction
from django.db.models import Max, Min, Q
from django.utils import timezone

from django_mq.errors import ArchiveBusy
from django_mq.models import ArchiveBatch, History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from django.db.models import QuerySet

#: How long a killed process keeps the others away.
LEASE_SECONDS = 30.0


def under_way(alias: str) -> ArchiveBatch | None:
    """Return the batch that is not finished, if there is one."""
    return ArchiveBatch.objects.using(alias).filter(active=True).first()


def plan(alias: str, root: str, cutoff: datetime) -> ArchiveBatch | None:
    """Write down the next batch: all that was finished before the cutoff. None if there is nothing.

    Whoever commits late is in the next batch. Raises ArchiveBusy if another was quicker.
    """
    rows = History.objects.using(alias).filter(finished_at__lt=cutoff)
    found = rows.aggregate(first=Min("id"), last=Max("id"))
    if found["first"] is None:
        return None
    try:
        with transaction.atomic(using=alias):
            return ArchiveBatch.objects.using(alias).create(
                active=True,
                first_id=found["first"],
                last_id=found["last"],
                cutoff=cutoff,
                root=root,
                planned_at=timezone.now(),
            )
    except IntegrityError:
        raise ArchiveBusy from None


@contextmanager
def held(batch: ArchiveBatch, alias: str, seconds: float = LEASE_SECONDS) -> Iterator[UUID]:
    """Hold the batch and yield the attempt. Raises ArchiveBusy while somebody else does."""
    attempt, holder = uuid4(), f"{socket.gethostname()}:{os.getpid()}"
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=timezone.now())
    rows = ArchiveBatch.objects.using(alias).filter(pk=batch.pk, active=True)
    until = timezone.now() + timedelta(seconds=seconds)
    if not rows.filter(free).update(attempt=attempt, holder=holder, lease_until=until):
        raise ArchiveBusy(_who(rows))
    over = threading.Event()
    keeper = threading.Thread(
        target=_renew, args=(rows.filter(attempt=attempt), seconds, over, alias), daemon=True
    )
    keeper.start()
    try:
        yield attempt
    finally:
        over.set()
        keeper.join()
        rows.filter(attempt=attempt).update(lease_until=None)


def _renew(rows: QuerySet[ArchiveBatch], seconds: float, over: threading.Event, alias: str) -> None:
    try:
        while not over.wait(seconds / 3):
            rows.update(lease_until=timezone.now() + timedelta(seconds=seconds))
    finally:
        connections[alias].close()  # this thread's own


def _who(rows: QuerySet[ArchiveBatch]) -> str:
    batch = rows.first()
    if batch is None or batch.lease_until is None:
        return "Another archive has just finished this batch; start again."
    return (
        f"Batch {batch.pk} is being archived by {batch.holder}; wait until it is done. If that process is dead, "
        f"start again after {batch.lease_until:%H:%M:%S} UTC."
    )


def mark_written(batch: ArchiveBatch, alias: str, attempt: UUID, path: str, days: dict[str, list[str]]) -> None:
    """Make the attempt's directory the one that counts. Raises ArchiveBusy if there is a later attempt."""
    rows = ArchiveBatch.objects.using(alias).filter(
        pk=batch.pk, state=ArchiveBatch.State.PLANNED, active=True, attempt=attempt
    )
    changed = rows.update(
        state=ArchiveBatch.State.WRITTEN, path=path, days=days, rows=count(days), written_at=timezone.now()
    )
    if not changed:
        raise ArchiveBusy("Another process has taken this batch over; what was written here does not count.")
    batch.refresh_from_db(using=alias)


def mark_purged(batch: ArchiveBatch, alias: str, deleted: int) -> None:
    """The batch is done: its rows are in the archive alone."""
    batch.state, batch.active, batch.purged_at = ArchiveBatch.State.PURGED, None, timezone.now()
    batch.purged_rows += deleted
    batch.save(using=alias, update_fields=["state", "active", "purged_at", "purged_rows"])


def count(days: dict[str, list[str]]) -> int:
    """Return the rows of all days together."""
    return sum(int(rows) for rows, _ in days.values())


def readable(alias: str) -> list[ArchiveBatch]:
    """Return the manifests of what the archive holds, oldest first."""
    states = [ArchiveBatch.State.WRITTEN, ArchiveBatch.State.PURGED]
    batches = ArchiveBatch.objects.using(alias).filter(state__in=states).order_by("id")
    return [batch for batch in batches if batch.days]
