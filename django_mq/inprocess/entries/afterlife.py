"""Send dead and expired messages to the queues that ``decisions.dead_letters`` says.

In the other queue, a message is new: it has the same body, no attempts and no schedule,
and its headers say where it came from.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from django_mq.engine.decisions.dead_letters import EXPIRED, REJECTED, Departure, Dying, departure
from django_mq.engine.states import DISCARDED, GONE, STEALABLE, Fate
from django_mq.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.rules import Rules

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Station(Protocol):
    """Another queue, which takes what this one sends on."""

    @property
    def rules(self) -> "Rules": ...

    def publish(self, message: "Message", now: float) -> "Entry": ...


class Afterlife:
    """Sends the dead and expired entries of one queue to other queues."""

    def __init__(self, queue: str, rules: "Rules", resolve: "Callable[[str], Station | None]") -> None:
        self._queue = queue
        self._rules = rules
        self._resolve = resolve

    def dead(self, entry: "Entry", now: float, cause: str) -> Fate:
        """Send a dead entry to the dead-letter queue; return whether it was sent, is kept, or is discarded."""
        if entry.died_at is None:
            entry.cause, entry.died_at = cause, now
        if self._send(entry, now, REJECTED):
            return Fate.DEAD_LETTERED
        # By default, keep the message if its dead-letter queue is missing or full.
        return Fate.DEAD if self._rules.keep_dead else DISCARDED

    def expired(self, entry: "Entry", now: float) -> bool:
        """Send an expired entry to the expiry queue; return False if that is missing, full or closed."""
        entry.cause, entry.died_at = EXPIRED, now
        return self._send(entry, now, EXPIRED)

    def _send(self, entry: "Entry", now: float, reason: str) -> bool:
        leaving = self._leaving(entry, now, reason)
        taken = [] if leaving is None else [self._enter(name, entry, leaving, now) for name in leaving.queues]
        return any(taken)

    def _leaving(self, entry: "Entry", now: float, reason: str) -> Departure | None:
        died_at = now if entry.died_at is None else entry.died_at
        dying = Dying(
            queue=self._queue,
            headers=entry.message.headers,
            properties={},
            # The delivery of a stealable entry is taken back and has not failed.
            attempts=entry.attempts - (entry.state is STEALABLE),
            cause=entry.cause,
            at=_EPOCH + timedelta(seconds=died_at),
        )
        return departure(self._rules, reason, dying, lambda _: None, lambda: entry.message)

    def _enter(self, name: str, entry: "Entry", leaving: Departure, now: float) -> bool:
        station = self._resolve(name)
        if station is None:
            return False
        message = replace(
            entry.message,
            headers=leaving.headers,
            deliver_at=None,
            duplicate_id=None,
            published_at=now,
            expires_at=None if self._rules.drops_expiry else entry.message.expires_at,
        )
        expires_at = station.rules.lifetime.end(message.expires_at, now)
        if expires_at is not None and expires_at <= now:
            return False  # it would be expired on arrival
        try:
            arrived = station.publish(message, now)
        except PublishError:
            return False
        arrived.cause = "" if name in leaving.returns else entry.cause
        return arrived.state is not GONE
