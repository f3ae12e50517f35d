"""The events of a message, in order."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext as _

from django_mq.admin.columns import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from django_mq.models import Attempt, History, Message


class Event(NamedTuple):
    """An event. ``after`` is the time since the event before."""

    time: datetime
    words: str
    bad: bool = False
    after: str = ""


def of_message(message: Message, attempts: Iterable[Attempt]) -> list[Event]:
    events = [
        Event(message.published_at, _("published")),
        *_failures(attempts),
        *_known(message.deliver_at, _("due")),
        *_known(message.claimed_at, _("claimed")),
        *_known(message.dead_at, _("dead: %(reason)s") % {"reason": message.dead_reason}, bad=True),
        *_known(message.expires_at, _("expires")),
    ]
    return _in_order(events)


def of_finished(row: History, attempts: Iterable[Attempt]) -> list[Event]:
    events = [
        Event(row.published_at, _("published")),
        *([Event(row.ready_at, _("ready"))] if row.ready_at != row.published_at else []),
        *_failures(attempts),
        *_known(row.claimed_at, _("claimed")),
        Event(row.finished_at, str(row.get_outcome_display())),
    ]
    return _in_order(events)


def _known(time: datetime | None, words: str, *, bad: bool = False) -> list[Event]:
    return [] if time is None else [Event(time, words, bad)]


def _failures(attempts: Iterable[Attempt]) -> list[Event]:
    words = _("attempt %(number)s failed: %(error)s")
    return [
        Event(attempt.failed_at, words % {"number": attempt.number, "error": attempt.error}, bad=True)
        for attempt in attempts
    ]


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Sort events by time; those of the same time keep their order."""
    ordered = sorted(events, key=lambda event: event.time)
    told = [ordered[0]]
    for before, event in pairwise(ordered):
        passed = event.time - before.time
        told.append(event._replace(after=duration(passed.total_seconds()) if passed >= SECOND else ""))
    return told


#: Shorter times between events are not shown.
SECOND = timedelta(seconds=1)
