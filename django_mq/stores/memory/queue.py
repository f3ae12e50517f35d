"""One queue: its settings, its rows, and the engine's queue that orders them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from django_mq.engine.overflow import Limits, Overflow
from django_mq.engine.pause import is_paused
from django_mq.engine.queue import Queue
from django_mq.engine.rules import Rules
from django_mq.stores.records import QueueRecord
from django_mq.stores.room import Room
from django_mq.stores.values import later

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_mq.engine.options import QueueOptions
    from django_mq.stores.memory.row import Row


class BrokerQueue:
    """A queue of a broker; ``settings`` may be replaced by others, ``closed`` and the pause set."""

    def __init__(self, number: int, name: str, settings: QueueOptions) -> None:
        self.number = number
        self.name = name
        self.settings = settings
        self.closed = False
        self.paused = False
        self.paused_reason = ""
        self.paused_until: datetime | None = None
        #: Messages that it has dropped because it was full.
        self.dropped = 0
        levels = 1 if settings.kind == "fifo" else settings.levels
        self.engine = Queue(name, Rules(levels=levels, due_first=settings.due_order == "due_first"))
        #: Every message here, whatever its state: an id may be here once.
        self.rows: dict[UUID, Row] = {}
        #: Sessions that have a seat where seats are few, and the owner of each group that stays with one.
        self.seated: set[int] = set()
        self.owners: dict[str, int] = {}
        #: By key, the messages of a last-value queue: the latest, and older ones that are held.
        self.values: dict[str, dict[UUID, Row]] = {}
        #: Duplicate ids, the oldest first: which message used it, and when.
        self.dedup_ids: dict[str, tuple[UUID, datetime]] = {}

    def remembers(self, dedup_id: str, now: datetime) -> UUID | None:
        """Return the message that has used a duplicate id, None if the id is not remembered."""
        known = self.dedup_ids.get(dedup_id)
        seconds = self.settings.dedup_seconds
        if known is None or (seconds is not None and now >= later(known[1], seconds)):
            return None
        return known[0]

    def remember(self, dedup_id: str, message_id: UUID, now: datetime) -> None:
        """Remember a duplicate id in the place of the oldest, if this queue remembers any."""
        if self.settings.dedup_count or self.settings.dedup_seconds is not None:
            self.dedup_ids.pop(dedup_id, None)
            self.dedup_ids[dedup_id] = message_id, now

    def prune_dedup_ids(self, now: datetime) -> int:
        """Forget duplicate ids that are over their time, or before the last so many; return how many."""
        before = len(self.dedup_ids)
        kept = [item for item in self.dedup_ids.items() if self.remembers(item[0], now) is not None]
        self.dedup_ids = dict(kept[-self.settings.dedup_count :])  # 0, from the first on: by time alone
        return before - len(self.dedup_ids)

    def room(self) -> Room:
        """What it may hold, and what it holds."""
        return Room(
            queue_id=self.number,
            name=self.name,
            limits=Limits(self.settings.max_messages, self.settings.max_bytes),
            overflow=Overflow(self.settings.overflow),
            last_value_key=self.settings.last_value_key,
            messages=len(self.rows),
            size_bytes=self.engine.statistics.depth_bytes,
        )

    def left(self, session: int) -> None:
        """Free what belongs to a session that is no more."""
        self.seated.discard(session)
        self.owners = {group: owner for group, owner in self.owners.items() if owner != session}

    def record(self, now: datetime, *, priorities_differ: bool = False) -> QueueRecord:
        """The queue as publishing and consuming see it."""
        return QueueRecord(
            id=self.number,
            name=self.name,
            closed=self.closed,
            paused=is_paused(self.paused, self.paused_until, now),
            priorities_differ=priorities_differ,
            **asdict(self.settings),
        )
