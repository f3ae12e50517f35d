"""The manifests: which directories the archive has, and which process is working on it.

A lease keeps two processes from one batch. It depends on the clocks of their machines, so
it is not safe alone. The attempt is: only the latest
one may mark the batch as written, delete its rows, or mark it as purged.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.models import F, Max, Min, Q

from django_mq.errors import ArchiveBusy, PipelineError
from django_mq.models import ArchiveBatch, History
from django_mq.pipeline.archive import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from django.db.models import QuerySet

#: How long a killed process blocks the others.
LEASE_SECONDS = 30.0


def under_way(alias: str) -> ArchiveBatch | None:
    """Return the batch that is not finished, if there is one."""
    batches = ArchiveBatch.objects.using(alias).exclude(state=ArchiveBatch.State.KEEPING)
    return batches.filter(active=True).first()


def plan(alias: str, root: str, cutoff: datetime) -> ArchiveBatch | None:
    """Save the next batch: all rows finished before the cutoff. None if there are none.

    Rows of transactions that commit late are in the next batch. Raises ArchiveBusy if another process was faster.
    """
    rows = History.objects.using(alias).filter(finished_at__lt=cutoff)
    found = rows.aggregate(first=Min("id"), last=Max("id"))
    if found["first"] is None:
        return None
    return _begin(alias, first_id=found["first"], last_id=found["last"], cutoff=cutoff, root=root)


def _begin(alias: str, **fields: object) -> ArchiveBatch:
    """Create the one row that may be under way. Raises ArchiveBusy."""
    rows = ArchiveBatch.objects.using(alias)
    dead = rows.filter(active=True, state=ArchiveBatch.State.KEEPING, lease_until__lt=datetime.now(UTC))
    for cut_off in dead:
        if cut_off.days and cut_off.days != fields.get("days"):
            day = min(cut_off.days)
            raise ArchiveBusy(
                f"The restore of {day} was interrupted; finish it with mq_spark restore --day {day} first, or its "
                "rows would be archived twice."
            )
    try:
        with transaction.atomic(using=alias):
            dead.delete()
            return rows.create(active=True, planned_at=datetime.now(UTC), **fields)
    except IntegrityError:
        raise ArchiveBusy(_who(rows.filter(active=True))) from None


@contextmanager
def held(batch: ArchiveBatch, alias: str, seconds: float = LEASE_SECONDS) -> Iterator[UUID]:
    """Hold the batch and yield the attempt. Raises ArchiveBusy while another process holds it."""
    attempt = uuid4()
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=datetime.now(UTC))
    rows = ArchiveBatch.objects.using(alias).filter(pk=batch.pk, active=True)
    if not rows.filter(free).update(attempt=attempt, holder=_me(), lease_until=_until(seconds)):
        raise ArchiveBusy(_who(rows))
    with _renewed(rows.filter(attempt=attempt), seconds, alias):
        yield attempt


@contextmanager
def alone(alias: str, seconds: float = LEASE_SECONDS, *, restoring: str = "") -> Iterator[Callable[[], None]]:
    """Lock the manifests against archives and other changes for the block. Raises ArchiveBusy.

    Yields a function that raises ArchiveBusy if another process has taken over the lock. After its call in a
    transaction, none can until the end. The row stores the day that is being restored: after an interrupted
    restore, nothing else may begin before the restore is finished.
    """
    begun = under_way(alias)
    if begun is not None and (begun.lease_until is None or begun.lease_until < datetime.now(UTC)):
        raise ArchiveBusy(f"Batch {begun.pk} was begun and is not finished; run mq_spark archive or purge first.")
    now, attempt = datetime.now(UTC), uuid4()
    told = {"state": ArchiveBatch.State.KEEPING, "first_id": 0, "last_id": 0, "cutoff": now, "root": ""}
    told["days"] = {restoring: ["0", "0"]} if restoring else {}
    row = _begin(alias, **told, attempt=attempt, holder=_me(), lease_until=_until(seconds))
    mine = ArchiveBatch.objects.using(alias).filter(pk=row.pk, attempt=attempt)

    def check() -> None:
        if not mine.update(holder=_me()):
            raise ArchiveBusy("This process lost its lease, and another one has taken over; start again.")

    with _renewed(mine, seconds, alias):
        try:
            yield check
        finally:
            mine.delete()


def _me() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _until(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@contextmanager
def _renewed(rows: QuerySet[ArchiveBatch], seconds: float, alias: str) -> Iterator[None]:
    over = threading.Event()
    renewal = threading.Thread(target=_renew, args=(rows, seconds, over, alias), daemon=True)
    renewal.start()
    try:
        yield
    finally:
        over.set()
        renewal.join()
        rows.update(lease_until=None)


def _renew(rows: QuerySet[ArchiveBatch], seconds: float, over: threading.Event, alias: str) -> None:
    try:
        while not over.wait(seconds / 3):
            with suppress(DatabaseError):  # another process takes over then, and this one notices
                rows.update(lease_until=_until(seconds))
    finally:
        connections[alias].close()  # the connection of this thread


def _who(rows: QuerySet[ArchiveBatch]) -> str:
    batch = rows.first()
    if batch is None or batch.lease_until is None:
        return "Another archive has just finished or begun a batch; start again."
    keeps = batch.state == ArchiveBatch.State.KEEPING
    what = "The archive is being maintained" if keeps else f"Batch {batch.pk} is being archived"
    return (
        f"{what} by {batch.holder}; wait until it is done. If that process is dead, "
        f"start again after {batch.lease_until:%H:%M:%S} UTC."
    )


def mark_written(  # noqa: PLR0917 - a row's columns
    batch: ArchiveBatch,
    alias: str,
    attempt: UUID,
    path: str = "",
    days: Mapping[str, list[str]] | None = None,
    signed: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Make the attempt's directory the one that counts. Raises ArchiveBusy if there is a later attempt.

    ``days`` are each day's rows and checksum, which covers the columns ``signed``. ``sizes`` are the files'.
    """
    rows = ArchiveBatch.objects.using(alias).filter(
        pk=batch.pk, state=ArchiveBatch.State.PLANNED, active=True, attempt=attempt
    )
    changed = rows.update(
        state=ArchiveBatch.State.WRITTEN,
        path=path,
        days=dict(days or {}),
        rows=count(days or {}),
        signed=[*signed],
        files=dict(sizes or {}),
        fault="",
        written_at=datetime.now(UTC),
    )
    if not changed:
        raise ArchiveBusy("Another process has taken this batch over; what was written here does not count.")
    batch.refresh_from_db(using=alias)


def may_purge(batch_id: int, attempt: UUID, alias: str) -> QuerySet[ArchiveBatch]:
    """Return the batch if it is written and this is still its latest attempt, else nothing."""
    rows = ArchiveBatch.objects.using(alias).filter(state=ArchiveBatch.State.WRITTEN, active=True)
    return rows.filter(pk=batch_id, attempt=attempt)


def count_purged(batch_id: int, attempt: UUID, alias: str, deleted: int) -> bool:
    """Count deleted rows of a batch, and return whether this attempt may still delete them.

    In the transaction of the deletion: until its end, no other attempt can take over.
    """
    return bool(may_purge(batch_id, attempt, alias).update(purged_rows=F("purged_rows") + deleted))


def mark_purged(batch: ArchiveBatch, alias: str, attempt: UUID) -> None:
    """Mark the batch as purged: only the archive has its rows. Raises ArchiveBusy if there is a later attempt."""
    changed = may_purge(batch.pk, attempt, alias).update(
        state=ArchiveBatch.State.PURGED,
        active=None,
        purged_at=datetime.now(UTC),
    )
    if not changed:
        raise ArchiveBusy("Another process has taken this batch over, and deletes its rows in place of this one.")
    batch.refresh_from_db(using=alias)


def count(days: Mapping[str, list[str]]) -> int:
    return sum(int(rows) for rows, _ in days.values())


def readable(alias: str) -> list[ArchiveBatch]:
    """Return the manifests of the archive, oldest first."""
    states = [ArchiveBatch.State.WRITTEN, ArchiveBatch.State.PURGED]
    batches = ArchiveBatch.objects.using(alias).filter(state__in=states).order_by("id")
    return [batch for batch in batches if batch.days]


def note(batch: ArchiveBatch, alias: str, fault: str, sizes: Mapping[str, int]) -> None:
    """Save what was found in a batch's files: the fault, and, if there is none, the files' sizes.

    Nothing is saved if the manifest has changed meanwhile.
    """
    batch.fault, batch.files = fault, batch.files if fault else dict(sizes)
    with transaction.atomic(using=alias):
        rows = ArchiveBatch.objects.using(alias).select_for_update().filter(pk=batch.pk)
        there = rows.first()
        if there is not None and (there.path, there.days) == (batch.path, batch.days):
            rows.update(fault=batch.fault, files=batch.files)


def publish(batch: ArchiveBatch) -> None:
    """Write a copy of the manifest beside the files, for readers without the database: DuckDB, pandas.

    Only the row in the database counts.
    """
    names = ("path", "rows", "days", "signed", "files")
    said = {"batch": batch.pk} | {name: getattr(batch, name) for name in names}
    files.write_text(files.manifest_of(batch), json.dumps(said, indent=1))


def check_own(root: str, alias: str) -> None:
    """Return if all manifests below the root are this database's. Raises PipelineError.

    Otherwise another database's manifests would be overwritten, and its directories deleted as litter.
    """
    known = {
        (batch.pk, files.name_of(batch.path))
        for batch in ArchiveBatch.objects.using(alias).only("path").exclude(path="")
    }
    for name, text in files.read_texts(f"{root}/{files.MANIFESTS}").items():
        if _names(text) not in known:
            raise PipelineError(
                f"{root}/{files.MANIFESTS}/{name} is a batch that this database does not know: the root holds the "
                "archive of another one, or this one was restored from a backup. Give each database a root of "
                "its own; if you do not need that batch, move its manifest away."
            )


def _names(text: str) -> tuple[int, str] | None:
    try:
        told = json.loads(text)
        return int(told["batch"]), files.name_of(str(told["path"]))
    except (ValueError, KeyError, TypeError):
        return None
