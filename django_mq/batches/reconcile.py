"""End members that wait for messages that are gone, and go on with a cancel that has stopped halfway.

An end is told in the transaction that removes the message. A message that is deleted by hand, or that a restored
backup lacks, has no end: its batch would wait for ever. So the members that wait are compared with the queues,
rarely, and a bounded number at a time. A member ends when its message was missing twice, minutes apart: a Celery
task that was acknowledged when it began has no message while it runs.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import F, Q

from django_mq.batches.ends import settle
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.batches.steering import LIVE_STATES
from django_mq.delivery.operator import actions
from django_mq.engine.decisions.batches import MISSING_FOR, MemberState, has_vanished, vanished_as
from django_mq.engine.decisions.ends import End
from django_mq.engine.states import CLAIMED
from django_mq.models import History, Message, WorkerSession
from django_mq.models.times import UTCNow
from django_mq.seams.findings import notice
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.seams.findings import Finding

logger = logging.getLogger("django_mq.batches")

INTERVAL_SECONDS: Final = 60.0
#: Members looked for by one statement.
CHUNK: Final = 500
#: For how long the doctor says that members had vanished.
SAID_FOR: Final = timedelta(days=1)
#: What the history says, as the engine calls it.
END_OF: Final = {
    History.Outcome.ACCEPTED: End.ACCEPTED,
    History.Outcome.FORWARDED: End.ACCEPTED,
    History.Outcome.EXPIRED: End.EXPIRED,
    History.Outcome.CANCELLED: End.CANCELLED,
    History.Outcome.PURGED: End.PURGED,
    History.Outcome.REPLACED: End.REPLACED,
    History.Outcome.DEAD: End.DEAD,
}


class WaitingMember(NamedTuple):
    """A member that waits."""

    id: UUID
    message_id: UUID
    task_id: str
    missing_at: datetime | None


def reconcile(store: Any, limit: int) -> int:
    """Look for the messages of at most ``limit`` members that wait; return how many members were changed."""
    if not store.features.durable:
        return 0
    mine, now = shared_store(store.alias), clock.now()
    live = MessageBatch.objects.using(store.alias).filter(state__in=LIVE_STATES)
    due = live.filter(Q(checked_at=None) | Q(checked_at__lt=now - MISSING_FOR) | Q(checked_to__isnull=False))
    changed = 0
    for batch in due.order_by(F("checked_at").asc(nulls_first=True), "id")[:limit]:
        looked, of_batch = _reconciled(mine, batch, limit, now)
        changed += of_batch
        limit -= looked
        if limit <= 0:
            break
    return changed


def _reconciled(store: Any, batch: MessageBatch, limit: int, now: datetime) -> tuple[int, int]:
    """Compare members of a batch with the queues; return how many were looked for, and how many have changed."""
    members = BatchMember.objects.using(store.alias).filter(batch=batch.pk, state=MemberState.WAITING.value)
    if batch.checked_to is not None:
        members = members.filter(pk__gt=batch.checked_to)
    columns = ("pk", "message_id", "task_id", "missing_at")
    found = [WaitingMember(*row) for row in members.order_by("id").values_list(*columns)[:limit]]
    changed = 0
    for start in range(0, len(found), CHUNK):
        chunk = found[start : start + CHUNK]
        changed += _vanished(store, batch, chunk, now)
        if batch.cancelled_at is not None:
            changed += _cancelled(store, chunk)
    place = {"checked_to": found[-1].id} if len(found) == limit else {"checked_to": None, "checked_at": now}
    MessageBatch.objects.using(store.alias).filter(pk=batch.pk).update(**place)
    return len(found), changed


def _cancelled(store: Any, members: Sequence[WaitingMember]) -> int:
    """Remove what no worker has begun: the program that has cancelled the batch has not come so far."""
    messages = Message.objects.using(store.alias).filter(message_id__in=[each.message_id for each in members])
    rows = actions.rows_of(messages.exclude(state=CLAIMED.value))
    return len(actions.cancel(rows, using=store.alias)) if rows else 0


def _vanished(store: Any, batch: MessageBatch, members: Sequence[WaitingMember], now: datetime) -> int:
    """End the members whose messages are gone for long, and note which are missing; return how many have ended."""
    there = _there(store.alias, members)
    missing = [each for each in members if each.id not in there]
    rows = BatchMember.objects.using(store.alias).filter(state=MemberState.WAITING.value)
    if back := [each.id for each in members if each.id in there and each.missing_at is not None]:
        rows.filter(pk__in=back).update(missing_at=None)
    if new := [each.id for each in missing if each.missing_at is None]:
        rows.filter(pk__in=new).update(missing_at=now)
    old = [each for each in missing if each.missing_at is not None]
    if not old:
        return 0
    last, running = _ends(store.alias, old), _running(store.alias, old)
    by_state: dict[MemberState, list[UUID]] = defaultdict(list)
    for each in old:
        outcome, session = last.get(each.id, (None, None))
        # A worker of another broker may run it.
        may_run = bool(each.task_id) and (outcome is History.Outcome.FORWARDED or session in running)
        if has_vanished(each.missing_at, now, may_run=may_run):
            end = None if outcome is None else END_OF.get(outcome)
            by_state[vanished_as(end, is_task=bool(each.task_id))].append(each.id)
    return _end(store, batch, by_state) if by_state else 0


def _end(store: Any, batch: MessageBatch, by_state: dict[MemberState, list[UUID]]) -> int:
    rows = BatchMember.objects.using(store.alias).filter(state=MemberState.WAITING.value)
    with store.database.transaction():
        # A member that has ended meanwhile stays as it is.
        ended = sum(
            rows.filter(pk__in=ids).update(state=state.value, ended_at=UTCNow()) for state, ids in by_state.items()
        )
        mine = MessageBatch.objects.using(store.alias).filter(pk=batch.pk)
        vanished = (mine.values_list("vanished", flat=True).first() or 0) + ended
        mine.update(vanished=vanished, vanished_at=UTCNow())
        settle(store, batch.pk, count=True)
    logger.warning("%s members of the batch %s had no message any more, and have ended", ended, batch.pk)
    return ended


def _there(alias: str, members: Sequence[WaitingMember]) -> set[UUID]:
    """Return the members with a message in a queue; of a task, also its retries."""
    messages = Message.objects.using(alias).order_by()
    ids = set(
        messages.filter(message_id__in=[each.message_id for each in members]).values_list("message_id", flat=True)
    )
    tasks = [each.task_id for each in members if each.task_id and each.message_id not in ids]
    retried = messages.filter(correlation_id__in=tasks).values_list("correlation_id", flat=True) if tasks else ()
    names = set(retried)
    return {each.id for each in members if each.message_id in ids or (each.task_id and each.task_id in names)}


def _ends(alias: str, members: Sequence[WaitingMember]) -> dict[UUID, tuple[History.Outcome, int | None]]:
    """Return the last outcome of each member in the history, and the session of it."""
    history = History.objects.using(alias)
    columns = ("message_id", "correlation_id", "outcome", "session_id")
    rows = list(
        history.filter(message_id__in=[each.message_id for each in members]).order_by("id").values(*columns)
    )
    tasks = [each.task_id for each in members if each.task_id]
    if tasks:
        rows += history.filter(correlation_id__in=tasks).order_by("id").values(*columns)
    by_id = {row["message_id"]: row for row in rows}
    by_task = {row["correlation_id"]: row for row in rows if row["correlation_id"]}
    found = {}
    for each in members:
        row = by_task.get(each.task_id) if each.task_id else by_id.get(each.message_id)
        if row is not None:
            found[each.id] = (History.Outcome(row["outcome"]), row["session_id"])
    return found


def _running(alias: str, members: Collection[WaitingMember]) -> set[int | None]:
    """Return the sessions that may still run tasks whose messages are gone: those that live."""
    if not any(each.task_id for each in members):
        return set()
    alive = WorkerSession.objects.using(alias).filter(deadline__gte=UTCNow())
    return {*alive.values_list("pk", flat=True)}


def find(alias: str) -> Iterator[Finding]:
    """Yield the batches of which members had vanished lately."""
    since = clock.now() - SAID_FOR
    rows = MessageBatch.objects.using(alias).filter(vanished_at__gte=since).order_by("-vanished_at")
    for row in rows.only("name", "vanished")[:10]:
        yield notice(
            f"batch {row}",
            f"{row.vanished} members had no message any more, and count as ended.",
            "Find out what has deleted messages in the database: cancel and purge tell batches, DELETE does not.",
        )
