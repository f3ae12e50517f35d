"""Publish the ticks that are due soon: once each, by any worker, in one transaction with the message.

A tick is published as a scheduled message before its time, so that it is delivered on time, even if maintenance is
late. One UPDATE of the row, which names the tick that is next, decides which worker publishes it: of two workers,
one finds the row changed.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from django.db import DatabaseError, transaction
from django.db.models import Max

from django_mq.delivery.operator.verbs import cancel
from django_mq.engine.decisions.periodic import (
    AHEAD_SECONDS,
    LATE_SECONDS,
    Missed,
    Overlap,
    PreviousRun,
    TickStep,
    caught_up,
    jitter_of,
    step_for,
)
from django_mq.errors import InvalidMessage, StoreError, TargetGone, UnknownQueue, WrongSchedule
from django_mq.models import Message
from django_mq.models.times import UTCNow
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.periodic.publisher import publish_tick
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.periodic")

#: An idle leader asks so often.
LOOK_SECONDS: Final = 60.0
#: The most ticks of one row that one step publishes.
MOST_TICKS: Final = 200
#: How many runs of a row are kept.
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


def look(store: Store, limit: int) -> int:
    """Publish what is due soon, if it is time to look; return how many rows were advanced."""
    if not store.features.durable or time.monotonic() < _next_looks.get(store.alias, 0.0):
        return 0
    soon = UTCNow() + (clock.offset + timedelta(seconds=AHEAD_SECONDS))
    due = rows(store.alias).filter(is_paused=False, next_at__lte=soon)
    found = list(due.order_by("next_at", "id")[:limit])
    advanced = sum(map(tried, found))
    waiting = advanced < len(found)
    # What waits for the end of a run, or could not be published, is looked at in each round.
    pause = 0.0 if waiting or len(found) == limit else LOOK_SECONDS
    _next_looks[store.alias] = time.monotonic() + pause
    return advanced


def tried(row: PeriodicMessage) -> bool:
    """Publish the ticks of a row that are due soon; return whether any was decided.

    A row that can never be published is paused, with the reason. Raises StoreError and DatabaseError.
    """
    try:
        return advance(row)
    except (StoreError, DatabaseError):
        raise
    except (TargetGone, UnknownQueue, InvalidMessage, WrongSchedule) as error:
        pause_for(row, str(error))
    except Exception:
        # Celery, and the modules of a project, may raise anything: the other rows go on.
        logger.exception("The periodic message %r could not be published, and is tried again", row.name)
    return False


def pause_for(row: PeriodicMessage, reason: str) -> None:
    """Pause a row that can never be published."""
    logger.error("The periodic message %r is paused: %s", row.name, reason)
    mine = PeriodicMessage.objects.using(row.alias).filter(pk=row.pk)
    mine.update(is_paused=True, is_gone=True, paused_reason=reason[:255])


@dataclass(slots=True)
class Decided:
    """What becomes of the next ticks of a row."""

    publish: list[datetime] = field(default_factory=list)
    skip: list[datetime] = field(default_factory=list)
    missed: datetime | None = None
    replace: PeriodicRun | None = None
    #: The first tick that is not decided.
    next_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return not self.publish and not self.skip and self.missed is None


def advance(row: PeriodicMessage) -> bool:
    """Decide on the next ticks of a row, and publish them, once; return whether there were any."""
    alias = row.alias
    with transaction.atomic(using=alias):
        before = last_run(row)
        decided = decide(row, before, now_of(row))
        if decided.is_empty and decided.next_at == row.next_at:
            return False
        mine = PeriodicMessage.objects.using(alias).filter(pk=row.pk, next_at=row.next_at, is_paused=False)
        succeeded_at = last_success(row)
        if not mine.update(next_at=decided.next_at, succeeded_at=succeeded_at):
            return True  # another worker was quicker, or an operator has changed it
        if decided.replace is not None and decided.replace.message_id is not None:
            cancel([decided.replace.message_id], running=True, using=alias)
        made = [run_of(row, tick, now_of(row)) for tick in decided.publish]
        made += [PeriodicRun(periodic=row, due_at=tick, outcome=SKIPPED) for tick in decided.skip]
        if decided.missed is not None:
            made.append(PeriodicRun(periodic=row, due_at=decided.missed, outcome=MISSED))
        PeriodicRun.objects.using(alias).bulk_create(made)
        _prune(row)
    return True


def decide(row: PeriodicMessage, before: PeriodicRun | None, now: datetime) -> Decided:
    """Return what becomes of the ticks of a row that are due soon."""
    decided = Decided(next_at=row.next_at)
    for tick in _soon(row, now, decided):
        run = None if before is None else PreviousRun(before.ended_at)
        if decided.publish:
            run = PreviousRun(None)
        step = step_for(tick, run, Overlap(row.overlap), now)
        if step is TickStep.WAIT:
            decided.next_at = tick
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
    deliver_at = tick + timedelta(seconds=jitter_of(row.name, tick, row.jitter_seconds))
    published = publish_tick(row, deliver_at if deliver_at > now else None, using=row.alias)
    return PeriodicRun(
        periodic=row,
        due_at=tick,
        message_id=published.message_id,
        queue_name=published.queue,
    )


def last_run(row: PeriodicMessage) -> PeriodicRun | None:
    """Return the run of the last tick that was published, and whose message is there, if it has not ended."""
    if row.overlap == Overlap.QUEUE:
        return None
    alias = row.alias
    ticks = PeriodicRun.objects.using(alias).filter(periodic=row, message_id__isnull=False)
    run = ticks.order_by("-due_at", "-id").first()
    if run is None or run.message_id is None or run.ended_at is not None:
        return run
    if not Message.objects.using(alias).filter(message_id=run.message_id).exists():
        # It was cancelled, or has expired, or a worker of an earlier release has ended it.
        run.outcome, run.ended_at = PeriodicRun.TickOutcome.REMOVED, now_of(row)
        run.save(update_fields=["outcome", "ended_at"])
    return run


def last_success(row: PeriodicMessage) -> datetime | None:
    """Return when the last run has succeeded."""
    done = PeriodicRun.objects.using(row.alias).filter(periodic=row, outcome=PeriodicRun.TickOutcome.SUCCEEDED)
    newest: datetime | None = done.aggregate(newest=Max("ended_at"))["newest"]
    return newest or row.succeeded_at


def _prune(row: PeriodicMessage) -> None:
    runs = PeriodicRun.objects.using(row.alias).filter(periodic=row)
    oldest = runs.order_by("-id").values_list("id", flat=True)[RUNS_KEPT : RUNS_KEPT + 1].first()
    if oldest is not None:
        runs.filter(id__lte=oldest).exclude(outcome=PeriodicRun.TickOutcome.PENDING).delete()
