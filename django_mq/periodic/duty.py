"""Publish the ticks that are due soon: once each, by any worker, in one transaction with the message.

A tick is published as a scheduled message before its time, so that it is delivered on time, even if no worker
looks then. A tick that must wait for the end of the run before is decided at its time. The lock of the row decides
which worker publishes a tick: of two workers, the second one finds another tick next.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final

from django.db import OperationalError, transaction
from django.db.models import Exists, Max, OuterRef, Q

from django_mq.delivery.operator.verbs import cancel
from django_mq.engine.decisions.periodic import (
    AHEAD_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    Missed,
    Overlap,
    PreviousRun,
    TickStep,
    caught_up,
    jitter_of,
    look_at_of,
    step_for,
)
from django_mq.errors import InvalidMessage, StoreError, TargetGone, UnknownQueue, WrongSchedule
from django_mq.models import BegunTask, Message
from django_mq.models.times import UTCNow
from django_mq.periodic.marks import LISTENING
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.periodic.publisher import may_have, publish_tick
from django_mq.periodic.releases import knows
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from django.db.models import QuerySet

    from django_mq.periodic.publisher import WrittenTick
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.periodic")

#: A look, and a row that could not be published, is tried again after so long.
RETRY_SECONDS: Final = 5.0
#: The most ticks of one row that one step publishes.
MOST_TICKS: Final = 200
#: How many runs of a row are kept that have ended.
RUNS_KEPT: Final = 100
MISSED = PeriodicRun.TickOutcome.MISSED
SKIPPED = PeriodicRun.TickOutcome.SKIPPED


def rows(alias: str) -> QuerySet[PeriodicMessage]:
    """Return the rows, each with the time of the database as ``asked_at``."""
    return PeriodicMessage.objects.using(alias).annotate(asked_at=UTCNow())


def now_of(row: PeriodicMessage) -> datetime:
    """Return the time of the database when the row was read."""
    asked_at: datetime = row.asked_at  # type: ignore[attr-defined]  # an annotation
    return asked_at + clock.offset


#: When this process looks again, on the monotonic clock, for each database.
_next_looks: dict[str, float] = {}


def is_time(store: Store) -> bool:
    """Whether a leader looks now. Reads no database."""
    return store.features.durable and time.monotonic() >= _next_looks.get(store.alias, 0.0)


def look(store: Store, limit: int) -> int:
    """Publish what is due soon; return how many rows were advanced."""
    if not store.features.durable:
        return 0
    begun = time.monotonic()
    _next_looks[store.alias] = begun + RETRY_SECONDS  # if this look fails
    soon = UTCNow() + (clock.offset + timedelta(seconds=LOOK_SECONDS))
    found = list(rows(store.alias).filter(is_paused=False, look_at__lte=soon).order_by("look_at", "id")[:limit])
    due = [row for row in found if seconds_until_look(row) <= 0]
    later = [seconds_until_look(row) for row in found[-1:] if len(found) == limit]
    later += [seconds_until_look(row) for row in found[len(due) :][:1]]
    advanced = 0
    for row in due:
        before = row.next_at
        tried(row)
        later.append(seconds_until_look(row))
        advanced += row.next_at != before
    _next_looks[store.alias] = begun + min([LOOK_SECONDS, *later])
    return advanced


def seconds_until_look(row: PeriodicMessage) -> float:
    """Return how long after the row was read it is to be looked at."""
    return math.inf if row.look_at is None else (row.look_at - now_of(row)).total_seconds()


def tried(row: PeriodicMessage) -> None:
    """Publish the ticks of a row that are due soon, and write into the row what is next.

    A row that can never be published is paused, with the reason. Raises StoreError and OperationalError.
    """
    try:
        advance(row)
    except (StoreError, OperationalError):
        raise
    except (TargetGone, UnknownQueue, InvalidMessage, WrongSchedule) as error:
        if knows(row) and may_have(row):
            pause_for(row, str(error))
        else:
            logger.warning("The periodic message %r is left to a process that has its code: %s", row.name, error)
            postpone(row)
    except Exception:
        # Celery, and the modules of a project, may raise anything: the other rows go on.
        logger.exception("The periodic message %r could not be published, and is tried again", row.name)
        postpone(row)


def postpone(row: PeriodicMessage) -> None:
    """Try a row again after a moment."""
    row.look_at = now_of(row) + timedelta(seconds=RETRY_SECONDS)
    PeriodicMessage.objects.using(row.alias).filter(pk=row.pk, next_at=row.next_at).update(look_at=row.look_at)


def pause_for(row: PeriodicMessage, reason: str) -> None:
    """Pause a row that can never be published."""
    logger.error("The periodic message %r is paused: %s", row.name, reason)
    mine = PeriodicMessage.objects.using(row.alias).filter(pk=row.pk, next_at=row.next_at)
    mine.update(is_paused=True, is_gone=True, paused_reason=reason[:255], look_at=None)
    row.look_at = None


@dataclass(slots=True)
class Decided:
    """What becomes of the next ticks of a row."""

    publish: list[datetime] = field(default_factory=list)
    skip: list[datetime] = field(default_factory=list)
    missed: datetime | None = None
    replace: PeriodicRun | None = None
    #: The first tick that is not decided.
    next_at: datetime | None = None
    #: Whether it is decided at its time.
    waits: bool = False


def advance(row: PeriodicMessage) -> None:
    """Decide on the next ticks of a row, and publish them, once; write into the row what is next."""
    alias = row.alias
    with transaction.atomic(using=alias):
        mine = rows(alias).select_for_update().filter(pk=row.pk, next_at=row.next_at, is_paused=False).first()
        if mine is None:
            row.look_at = None  # another worker was quicker, or an operator has changed it
            return
        now, before = now_of(mine), last_run(mine)
        decided = decide(mine, before, now)
        if decided.replace is not None:
            cancel(messages_of(decided.replace, alias), running=True, using=alias)
        made = [run_of(mine, tick, now) for tick in decided.publish]
        made += [PeriodicRun(periodic=mine, due_at=tick, outcome=SKIPPED) for tick in decided.skip]
        if decided.missed is not None:
            made.append(PeriodicRun(periodic=mine, due_at=decided.missed, outcome=MISSED))
        PeriodicRun.objects.using(alias).bulk_create(made)
        mine.next_at = decided.next_at
        mine.look_at = look_at_of(decided.next_at, now, waits=decided.waits)
        mine.succeeded_at = last_success(mine)
        mine.save(update_fields=["next_at", "look_at", "succeeded_at"])
        prune(mine)
    row.next_at, row.look_at, row.succeeded_at = mine.next_at, mine.look_at, mine.succeeded_at


def decide(row: PeriodicMessage, before: PeriodicRun | None, now: datetime) -> Decided:
    """Return what becomes of the ticks of a row that are due soon."""
    decided = Decided(next_at=row.next_at)
    for tick in _soon(row, now, decided):
        run = None if before is None else PreviousRun(before.ended_at)
        if decided.publish:
            run = PreviousRun(None)
        step = step_for(tick, run, Overlap(row.overlap), now)
        if step is TickStep.WAIT:
            decided.next_at, decided.waits = tick, True
            return decided
        if step is TickStep.REPLACE:
            decided.skip += decided.publish
            decided.publish = []
            decided.replace = before if before is not None and before.ended_at is None else None
        (decided.skip if step is TickStep.SKIP else decided.publish).append(tick)
        decided.next_at = row.schedule.next(tick)
    return decided


def _soon(row: PeriodicMessage, now: datetime, decided: Decided) -> Iterator[datetime]:
    """Yield the ticks to decide on: missed ones that are caught up, and those that are due soon."""
    if row.next_at is None:
        return
    found, late = row.schedule, now - timedelta(seconds=LATE_SECONDS)
    begin = row.next_at
    if begin < late:
        most = row.most_missed if row.missed == Missed.ALL else 1
        missed = found.last(begin, late, most)
        wanted = caught_up(missed, Missed(row.missed), most)
        if not wanted or wanted[0] > begin:
            decided.missed = begin
        yield from wanted
        following = found.next(late)
        if following is None:
            decided.next_at = None
            return
        begin = decided.next_at = following
    until = now + timedelta(seconds=AHEAD_SECONDS)
    ticks = found.after(begin - timedelta(microseconds=1))
    yield from islice(takewhile(lambda tick: tick <= until, ticks), MOST_TICKS)


def run_of(row: PeriodicMessage, tick: datetime, now: datetime) -> PeriodicRun:
    """Publish the message of a tick; return the row of its run, which is not saved."""
    deliver_at = delivered_at(row, tick)
    published = publish_tick(row, deliver_at if deliver_at > now else None, using=row.alias)
    return PeriodicRun(periodic=row, due_at=tick, **written(published, now))


def delivered_at(row: PeriodicMessage, tick: datetime) -> datetime:
    """Return when the message of a tick is due."""
    return tick + timedelta(seconds=jitter_of(row.name, tick, row.jitter_seconds))


def written(published: WrittenTick, now: datetime) -> dict[str, Any]:
    """Return what the run of a tick says of its message."""
    if published.message_id is None:
        return {"outcome": PeriodicRun.TickOutcome.DISCARDED, "ended_at": now}
    return {"message_id": published.message_id, "queue_name": published.queue}


def last_run(row: PeriodicMessage) -> PeriodicRun | None:
    """Return the run of the last tick that was published, and whose message is there, if it has not ended."""
    if row.overlap == Overlap.QUEUE:
        return None
    alias = row.alias
    ticks = PeriodicRun.objects.using(alias).filter(periodic=row, message_id__isnull=False)
    run = ticks.order_by("-due_at", "-id").first()
    if run is not None and run.ended_at is None and not is_there(run, alias):
        # It was cancelled, or has expired, or a worker of an earlier release has ended it.
        removed = PeriodicRun.TickOutcome.REMOVED
        ticks.filter(pk=run.pk, ended_at__isnull=True).update(outcome=removed, ended_at=now_of(row))
        run.refresh_from_db(using=alias)  # it may have ended meanwhile
    return run


def messages_of(run: PeriodicRun, alias: str) -> set[UUID]:
    """Return the ids of the messages of a run that are there: the first one, or that of a retry."""
    first, *others = (rows.values_list("message_id", flat=True) for rows in _messages(run, alias))
    return set(first.union(*others))


def is_there(run: PeriodicRun, alias: str) -> bool:
    """Whether a message of a run is in its queue, or runs.

    One statement: a task that begins, or is retried, goes from one place to another meanwhile.
    """
    begun, id_ = BegunTask.objects.using(alias), str(run.message_id)
    running = (begun.filter(message_id=id_), begun.filter(headers__id=id_, told_to__contains=LISTENING))
    first, *others = (rows.values_list("message_id") for rows in (*_messages(run, alias), *running))
    return first.union(*others, all=True).exists()


def _messages(run: PeriodicRun, alias: str) -> tuple[QuerySet[Message], QuerySet[Message]]:
    """Return the first message, and those of retries: apart, so that a database uses the index of each."""
    found, id_ = Message.objects.using(alias).order_by(), str(run.message_id)
    return found.filter(message_id=id_), found.filter(correlation_id=id_, told_to__contains=LISTENING)


def last_success(row: PeriodicMessage) -> datetime | None:
    """Return when the last run has succeeded."""
    done = PeriodicRun.objects.using(row.alias).filter(periodic=row, outcome=PeriodicRun.TickOutcome.SUCCEEDED)
    newest: datetime | None = done.aggregate(newest=Max("ended_at"))["newest"]
    return newest or row.succeeded_at


def prune(row: PeriodicMessage) -> None:
    """Delete the oldest runs of a row, but those whose messages are still there."""
    runs = PeriodicRun.objects.using(row.alias).filter(periodic=row)
    ended = ~Q(outcome=PeriodicRun.TickOutcome.PENDING)
    oldest = runs.filter(ended).order_by("-id").values_list("id", flat=True)[RUNS_KEPT : RUNS_KEPT + 1].first()
    if oldest is not None:
        messages = Message.objects.using(row.alias).filter(message_id=OuterRef("message_id"))
        runs.filter(ended | ~Exists(messages), id__lte=oldest).delete()
