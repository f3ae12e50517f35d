"""The events of a message, in order."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext as _

from django_mq.admin.columns import second_text
from django_mq.admin.language import LOCAL
from django_mq.admin.messages.failures import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.models import Attempt, History, Message


#: Shorter times between events are not shown.
SHORTEST = timedelta(milliseconds=1)


class Event(NamedTuple):
    """An event. ``after`` is the time since the event before."""

    time: datetime
    words: str
    bad: bool = False
    after: str = ""

    @property
    def shown(self) -> str:
        return second_text(self.time)


def of_message(message: Message, attempts: Sequence[Attempt], *, origin: str = "") -> list[Event]:
    """Return the events of a message; ``origin`` is the other queue in which a dead letter died."""
    died_at = message.dead_at
    if died_at is not None:
        # The last attempt is written just after the death, in the same transaction.
        died_at = max([died_at, *(attempt.failed_at for attempt in attempts[:1])])
    last = attempts[0] if attempts else None
    reason = reason_of(message, last.error, last.detail) if last else message.dead_reason
    events = [
        *_failures(attempts),
        _death(message, origin, reason) if origin else _arrival(message, attempts),
        *_known(message.deliver_at, _("due")),
        *_known(message.claimed_at, _("claimed")),
        *_known(died_at, _("dead: %(reason)s") % {"reason": reason}, bad=True),
        *_known(message.expires_at, _("expires")),
    ]
    return _in_order(events)


def of_finished(row: History, attempts: Sequence[Attempt]) -> list[Event]:
    events = [
        *_failures(attempts),
        _arrival(row, attempts),
        *([Event(row.ready_at, _("ready"))] if row.ready_at != row.published_at else []),
        *_known(row.claimed_at, _("claimed")),
        Event(row.finished_at, str(row.get_outcome_display())),
    ]
    return _in_order(events)


def _death(message: Message, origin: str, reason: str) -> Event:
    """Return how a dead letter came into its dead-letter queue."""
    words = _("dead letter from “%(queue)s”") % {"queue": origin}
    if reason:
        words = f"{words}: {reason}"
    return Event(message.published_at, words, bad=True)


def _arrival(row: Message | History, attempts: Sequence[Attempt]) -> Event:
    """Return how the message came into its queue: a Celery task that is retried is published again."""
    is_again = any(attempt.failed_at < row.published_at for attempt in attempts)
    return Event(row.published_at, _("published again") if is_again else _("published"))


def _known(time: datetime | None, words: str, *, bad: bool = False) -> list[Event]:
    return [] if time is None else [Event(time, words, bad)]


def _failures(attempts: Sequence[Attempt]) -> list[Event]:
    """Return the failed attempts, which are given newest first, in their order."""
    words = _("attempt %(number)s failed: %(error)s")
    return [
        Event(attempt.failed_at, words % {"number": attempt.number, "error": attempt.error}, bad=True)
        for attempt in reversed(attempts)
    ]


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Sort events by time; those of the same time keep their order."""
    ordered = sorted(events, key=lambda event: event.time)
    told = [ordered[0]]
    for before, event in pairwise(ordered):
        passed = event.time - before.time
        told.append(event._replace(after=LOCAL.precise(passed.total_seconds()) if passed >= SHORTEST else ""))
    return told
