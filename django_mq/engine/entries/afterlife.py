"""Where dead and expired messages go: to another queue, or nowhere.

In the other queue, a message is new: it has the same body, no attempts and no schedule,
and its headers say where it came from.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.states import DISCARDED, GONE, STEALABLE, Fate
from django_mq.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.entries.entry import Entry
    from django_mq.engine.message import Message
    from django_mq.engine.queue import Queue
    from django_mq.engine.rules import Rules

#: Headers of a message that died or expired in another queue. They name the last such queue only.
ORIGIN_QUEUE: Final = "x-origin-queue"
ORIGIN_ATTEMPTS: Final = "x-origin-attempts"
DEAD_REASON: Final = "x-dead-reason"
DEAD_AT: Final = "x-dead-at"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def departed(entry: "Entry", queue: str, now: float, *, forget_end: bool) -> "Message":
    """Return the message of a dead or expired entry as it arrives in the next queue."""
    died_at = now if entry.died_at is None else entry.died_at
    origin = {
        ORIGIN_QUEUE: queue,
        # The delivery of a stealable entry is taken back and has not failed.
        ORIGIN_ATTEMPTS: entry.attempts - (entry.state is STEALABLE),
        DEAD_REASON: entry.cause,
        DEAD_AT: (_EPOCH + timedelta(seconds=died_at)).isoformat(timespec="microseconds"),
    }
    return replace(
        entry.message,
        headers={**entry.message.headers, **origin},
        deliver_at=None,
        duplicate_id=None,
        published_at=now,
        expires_at=None if forget_end else entry.message.expires_at,
    )


class Afterlife:
    """Sends the dead and expired entries of one queue to other queues."""

    def __init__(self, queue: str, rules: "Rules", resolve: "Callable[[str], Queue | None]") -> None:
        self._queue = queue
        self._rules = rules
        self._resolve = resolve

    def station(self, *, expired: bool) -> "Queue | None":
        """Return the queue that expired messages, or dead letters, go to; None if there is none."""
        name = self._rules.expiry_queue if expired else self._rules.dead_letter_queue
        return None if name is None or name == self._queue else self._resolve(name)

    def dead(self, entry: "Entry", now: float, cause: str) -> Fate:
        """Send a dead entry to the dead-letter queue; return whether it was sent, is kept, or is discarded."""
        if entry.died_at is None:
            entry.cause, entry.died_at = cause, now
        if self._send(self.station(expired=False), entry, now):
            return Fate.DEAD_LETTERED
        # By default, keep the message if its dead-letter queue is missing or full.
        return Fate.DEAD if self._rules.keep_dead else DISCARDED

    def expired(self, entry: "Entry", now: float) -> bool:
        """Send an expired entry to the expiry queue; return False if that is missing, full or closed."""
        entry.cause, entry.died_at = BY_EXPIRY, now
        return self._send(self.station(expired=True), entry, now)

    def _send(self, station: "Queue | None", entry: "Entry", now: float) -> bool:
        message = None if station is None else self.leaving(entry, station, now)
        if station is None or message is None:
            return False
        try:
            arrived = station.publish(message, now)
        except PublishError:
            return False
        arrived.cause = entry.cause
        return arrived.state is not GONE

    def leaving(self, entry: "Entry", station: "Queue", now: float) -> "Message | None":
        """Return the message as it arrives in ``station``; None if it would be expired on arrival."""
        message = departed(entry, self._queue, now, forget_end=self._rules.drops_expiry)
        expires_at = station.rules.lifetime.end(message.expires_at, now)
        return None if expires_at is not None and expires_at <= now else message
