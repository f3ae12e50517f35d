"""The events of a message in all queues, in order."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext as _

from django_mq.admin.messages.failures import reason_of
from django_mq.diagnosis.language import LOCAL, second_text
from django_mq.durable.sleeps import is_of_handler
from django_mq.models import History, Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from django_mq.diagnosis.messages.life import Life
    from django_mq.models import Attempt

#: Shorter times between events are not shown.
SHORTEST = timedelta(milliseconds=1)
#: Events of one row so close to another row's are the same one: a move, and the return of what was moved.
CLOSE = timedelta(seconds=1)

#: The ends of messages that did not run.
LOST = {History.Outcome.DEAD, History.Outcome.EXPIRED, History.Outcome.LIMITED}


class Event(NamedTuple):
    """An event. ``after`` is the time since the event before."""

    time: datetime
    words: str
    bad: bool = False
    after: str = ""
    #: Where it happened; blank if in no queue.
    queue: str = ""

    @property
    def shown(self) -> str:
        return second_text(self.time)


def of_life(
    life: Life, attempts: Sequence[Attempt], *, origins: Mapping[int, str], others: Sequence[Event] = ()
) -> list[Event]:
    """Return the events of a message in all queues.

    ``origins`` has, by row, the other queue in which a dead letter died; ``others`` are further events.
    """
    past = list(reversed(life.past))
    events = [*_failures(attempts), *others]
    for number, row in enumerate(past):
        events += _of_past(row, attempts, _next_queue(row, [*past[number + 1 :], *reversed(life.live)]))
    known = [event.time for event in events]
    for row in reversed(life.live):
        events += _of_live(row, attempts, origins.get(row.pk, ""))
        if row.released_at and all(abs(row.released_at - time) > CLOSE for time in known):
            events.append(Event(row.released_at, _("came back"), queue=row.queue.name))
    return _in_order(events)


def _next_queue(row: History, later: Sequence[History | Message]) -> str:
    """Return the queue in which a message was next."""
    names = (queue_of(other) for other in later if other.message_id == row.message_id)
    return next(names, "")


def queue_of(row: History | Message) -> str:
    return row.queue.name if isinstance(row, Message) else row.queue_name


def _of_live(message: Message, attempts: Sequence[Attempt], origin: str) -> list[Event]:
    queue, died_at = message.queue.name, message.dead_at
    if died_at is not None:
        # The last attempt is written just after the death, in the same transaction.
        died_at = max([died_at, *(attempt.failed_at for attempt in attempts[:1])])
    last = attempts[0] if attempts else None
    reason = reason_of(message, last.error, last.detail) if last else message.dead_reason
    return [
        _death(message, origin, reason) if origin else _arrival(message, attempts, queue),
        *_known(message.deliver_at, _("due"), queue),
        *_known(message.claimed_at, _("claimed"), queue),
        *_known(died_at, _("dead: %(reason)s") % {"reason": reason}, queue, bad=True),
        *_parking(message, queue),
        *_known(message.expires_at, _("expires"), queue),
    ]


def _parking(message: Message, queue: str) -> list[Event]:
    """Return until when a message waits for a limit, and for which key of it."""
    if message.state != Message.Status.PARKED:
        return []
    until = message.parked_until
    if is_of_handler(message.park_key):  # its steps say what it waits for
        return _known(until, _("the durable handler goes on, at the latest"), queue)
    words = _("parked for “%(key)s”") if until is None else _("parked for “%(key)s” until then, at most")
    return _known(until or message.released_at, words % {"key": message.park_key}, queue)


def _of_past(row: History, attempts: Sequence[Attempt], next_queue: str) -> list[Event]:
    queue, end = row.queue_name, str(row.get_outcome_display())
    if row.outcome == History.Outcome.MOVED and next_queue:
        end = _("moved to “%(queue)s”") % {"queue": next_queue}
    return [
        _arrival(row, attempts, queue),
        *([Event(row.ready_at, _("ready"), queue=queue)] if row.ready_at != row.published_at else []),
        *_known(row.claimed_at, _("claimed"), queue),
        Event(row.finished_at, end, bad=row.outcome in LOST, queue=queue),
    ]


def _death(message: Message, origin: str, reason: str) -> Event:
    """Return how a dead letter came into its dead-letter queue."""
    words = _("dead letter from “%(queue)s”") % {"queue": origin}
    if reason:
        words = f"{words}: {reason}"
    return Event(message.published_at, words, bad=True, queue=message.queue.name)


def _arrival(row: Message | History, attempts: Sequence[Attempt], queue: str) -> Event:
    """Return how the message came into its queue: a Celery task that is retried is published again."""
    is_again = any(attempt.failed_at < row.published_at for attempt in attempts)
    return Event(row.published_at, _("published again") if is_again else _("published"), queue=queue)


def _known(time: datetime | None, words: str, queue: str, *, bad: bool = False) -> list[Event]:
    return [] if time is None else [Event(time, words, bad, queue=queue)]


def _failures(attempts: Sequence[Attempt]) -> list[Event]:
    """Return the failed attempts, which are given newest first, in their order."""
    words = _("attempt %(number)s failed: %(error)s")
    return [
        Event(
            attempt.failed_at,
            words % {"number": attempt.number, "error": attempt.error},
            bad=True,
            queue=attempt.queue_name,
        )
        for attempt in reversed(attempts)
    ]


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Sort events by time; those of the same time keep their order. A moved message was published once."""
    once: dict[tuple[datetime, str], Event] = {}
    for event in events:
        once.setdefault((event.time, event.words), event)
    ordered = sorted(once.values(), key=lambda event: event.time)
    told = ordered[:1]
    for before, event in pairwise(ordered):
        passed = event.time - before.time
        told.append(event._replace(after=LOCAL.precise(passed.total_seconds()) if passed >= SHORTEST else ""))
    return told
