"""One queue: its settings, its rows, and the engine's queue that orders them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from django_mq.engine.pause import is_paused
from django_mq.engine.rules import Rules
from django_mq.stores.memory.row import row_of
from django_mq.stores.records import QueueRecord

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_mq.engine.broker import Broker
    from django_mq.engine.consumer import Consumer
    from django_mq.engine.options import QueueOptions
    from django_mq.engine.queue import Queue
    from django_mq.stores.memory.row import Row


class BrokerQueue:
    """A queue of a broker: the engine's, and what a table would say besides."""

    def __init__(self, number: int, name: str, settings: QueueOptions, broker: Broker) -> None:
        self.number = number
        self.name = name
        self._settings = settings
        self.paused_reason = ""
        self.paused_until: datetime | None = None
        #: Messages that it has dropped because it was full.
        self.dropped = 0
        self.engine: Queue = broker.declare(name, Rules.of(settings))
        #: The session of each consumer.
        self.sessions: dict[Consumer, int] = {}

    @property
    def settings(self) -> QueueOptions:
        """The options, as an operator has set them last."""
        return self._settings

    @settings.setter
    def settings(self, settings: QueueOptions) -> None:
        self._settings = settings
        self.engine.change(Rules.of(settings))

    @property
    def closed(self) -> bool:
        """Whether it takes no more messages."""
        return self.engine.closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        self.engine.closed = closed

    @property
    def rows(self) -> list[Row]:
        """Every message here, whatever its state, in no order."""
        return [row_of(entry) for entry in self.engine.everything()]

    def knows(self, message_id: UUID) -> bool:
        """Whether a message with this id is here."""
        return self.engine.find(str(message_id)) is not None

    def in_slots(self) -> frozenset[int]:
        """Return the sessions that have a slot where slots are few."""
        return frozenset(self.sessions[consumer] for consumer in self.engine.live_consumers())

    def owner_of(self, group: str) -> int | None:
        """Return the session that owns a group."""
        owner = self.engine.group_owner(group)
        return None if owner is None else self.sessions[owner]

    def end_pause(self, now: datetime) -> None:
        """Deliver again if the pause has an end that has passed."""
        if self.engine.paused and not is_paused(True, self.paused_until, now):
            self.engine.resume()

    def record(self, now: datetime, *, priorities_differ: bool = False) -> QueueRecord:
        """The queue as publishing and consuming see it."""
        return QueueRecord(
            id=self.number,
            name=self.name,
            closed=self.closed,
            paused=is_paused(self.engine.paused, self.paused_until, now),
            priorities_differ=priorities_differ,
            **{item.name: getattr(self.settings, item.name) for item in fields(self.settings)},
        )
