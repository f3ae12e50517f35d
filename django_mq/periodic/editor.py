"""What operators do with periodic messages. The admin and ``mq_periodic`` call it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Max

from django_mq.delivery.operator.verbs import cancel
from django_mq.engine.decisions.periodic import AHEAD_SECONDS
from django_mq.periodic.duty import delivered_at, prune, rows, tried, written
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.periodic.publisher import publish_tick
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from uuid import UUID


def save(row: PeriodicMessage, *, using: str) -> None:
    """Write a row that is new or changed: ticks of the old values that are published ahead are cancelled.

    Raises WrongSchedule and ConfigurationError, before anything is written.
    """
    row.check_values()
    now = database_now(using)
    with transaction.atomic(using=using):
        if row.is_new:
            row.created_at = now
        row.save(using=using)
        plan(row, now)
    publish_soon(row)


def pause(row: PeriodicMessage, reason: str = "") -> None:
    """Publish no tick until ``resume``; ticks that are published ahead are cancelled."""
    with transaction.atomic(using=row.alias):
        row.is_paused, row.paused_reason = True, reason[:255]
        row.save(update_fields=["is_paused", "paused_reason"])
        plan(row, database_now(row.alias))


def resume(row: PeriodicMessage) -> None:
    """Publish ticks from now on: those of the pause are not missed. Raises WrongSchedule."""
    with transaction.atomic(using=row.alias):
        row.is_paused, row.is_gone, row.paused_reason = False, False, ""
        row.save(update_fields=["is_paused", "is_gone", "paused_reason"])
        plan(row, database_now(row.alias))
    publish_soon(row)


def run_now(row: PeriodicMessage) -> UUID | None:
    """Publish the message at once, beside its ticks, also while it is paused; return its id.

    None means that a limit of the queue, or a unique key, has discarded it. Raises TargetGone, and what
    ``publish`` raises.
    """
    using = row.alias
    with transaction.atomic(using=using):
        now = database_now(using)
        published = publish_tick(row, None, using=using)
        run = PeriodicRun(periodic=row, due_at=now, by_hand=True, **written(published, now))
        run.save(using=using)
    return published.message_id


def drop(name: str, task: str, *, using: str) -> bool:
    """Note that celery beat has published an entry, too, if a row has its name and its task; return whether."""
    row = PeriodicMessage.objects.using(using).filter(name=name, kind="celery", target=task).first()
    if row is None:
        return False
    now, dropped = database_now(using), PeriodicRun.TickOutcome.DROPPED
    with transaction.atomic(using=using):
        PeriodicMessage.objects.using(using).filter(pk=row.pk).update(dropped_at=now)
        PeriodicRun.objects.using(using).create(
            periodic=row, due_at=now, by_hand=True, outcome=dropped, ended_at=now
        )
        prune(row)  # a paused row has no ticks that do it
    return True


def delete(row: PeriodicMessage) -> None:
    """Delete a row and its runs; ticks that are published ahead are cancelled."""
    with transaction.atomic(using=row.alias):
        _take_back(row, database_now(row.alias), of_past_ticks=True)
        row.delete()


def plan(row: PeriodicMessage, now: datetime) -> None:
    """Begin anew from now on, in the transaction that is open."""
    _take_back(row, now, of_past_ticks=row.is_paused)
    ticks = PeriodicRun.objects.using(row.alias).filter(periodic=row, by_hand=False, due_at__gt=now)
    # A tick to come has begun if it was delivered before its time, or if the clock was set back: it comes once.
    last = ticks.aggregate(last=Max("due_at"))["last"]
    row.next_at = None if row.is_paused else row.schedule.next(last or now)
    row.look_at = None if row.next_at is None else row.next_at - timedelta(seconds=AHEAD_SECONDS)
    row.save(update_fields=["next_at", "look_at"])


def next_ticks(row: PeriodicMessage, number: int = 5) -> list[datetime]:
    """Return the next ticks by the clock of this process, none while it is paused. Raises WrongSchedule."""
    if row.is_paused:
        return []
    found: list[datetime] = []
    moment = clock.now()
    while len(found) < number and (tick := row.schedule.next(moment)) is not None:
        found.append(moment := tick)
    return found


def publish_soon(row: PeriodicMessage) -> None:
    """Publish the ticks that are due before the next look of a leader."""
    found = rows(row.alias).filter(pk=row.pk, is_paused=False, next_at__isnull=False).first()
    if found is not None:
        tried(found)
        row.refresh_from_db(using=row.alias)


def _take_back(row: PeriodicMessage, now: datetime, *, of_past_ticks: bool) -> None:
    """Cancel the messages of ticks to come, and perhaps those that wait for the jitter of their tick."""
    begin = now - timedelta(seconds=row.jitter_seconds) if of_past_ticks else now
    runs = PeriodicRun.objects.using(row.alias)
    ahead = runs.filter(periodic=row, due_at__gt=begin, outcome=PeriodicRun.TickOutcome.PENDING, by_hand=False)
    published = {
        run.message_id: run
        for run in ahead
        if run.message_id is not None and (run.due_at > now or delivered_at(row, run.due_at) > now)
    }
    if published:
        answers = cancel(list(published), using=row.alias)
        gone = [published[each.message_id].pk for each in answers if each.done]
        runs.filter(pk__in=gone).delete()


def database_now(using: str) -> datetime:
    """Return the time of the database."""
    return datetime.now(UTC) + timedelta(seconds=shared_store(using).database.now_skew_seconds())
