"""Dead letters: where they go."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.engine.places import ORDINARY_PLACE
from django_mq.stores.memory.history import Outcome
from django_mq.stores.memory.row import BY_LATER_VALUE
from django_mq.stores.memory.steering import Steering
from django_mq.stores.values import later, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row


class Dying(Steering):
    """Bury what died, and send it to its queue's dead-letter queue."""

    def _bury(self, row: Row, reason: str) -> None:
        """Mark a row whose entry is dead."""
        row.let_go()
        row.suspect = False
        row.dead_reason, row.dead_at = storable(reason, 255), self._now()

    def _move_dead(self, rows: Iterable[Row], *, expired: bool = False) -> set[Row]:
        """Move dead or expired rows where their queues say, by arrival; return those that went.

        Their attempts restart; where they come from stands in their headers.
        """
        going: dict[str, list[Row]] = {}
        for row in sorted(rows, key=lambda each: each.id):
            settings = row.queue.settings
            name = settings.expiry_queue if expired else settings.dead_letter_queue
            target = self.broker.queues.get(name or "")
            if target is not None and not target.closed and row.dead_at is not None:
                going.setdefault(target.name, []).append(row)
        return {
            row for name, some in going.items() for row in self._move_some_dead(some, self.broker.queues[name])
        }

    def _move_some_dead(self, rows: Sequence[Row], target: BrokerQueue) -> list[Row]:
        """Move those before the first that does not fit."""
        moved: list[Row] = []
        for row in rows:
            if row.message.message_id in target.rows:
                continue
            room = target.room()
            if not room.is_ring and room.is_exceeded(1, len(row.message.body)):
                break
            row.message = replace(row.message, headers=_with_origin(row, row.dead_at or self._now()))
            row.published_at, row.deliver_at = self._now(), None
            row.expires_at = self._end_in(target)
            self._stand_anew(row, target, place=ORDINARY_PLACE)
            row.dead_at = None
            moved.append(row)
        for row in moved:
            self._replace_by(row, self._key_in(row, target))
        if moved and target.room().is_ring:
            self._evict(target, spared=max(row.id for row in moved))
        return moved

    def _end_in(self, queue: BrokerQueue) -> datetime | None:
        """When a message without an end of its own expires in a queue."""
        settings = queue.settings
        seconds = settings.max_ttl_seconds if settings.ttl_seconds is None else settings.ttl_seconds
        return None if seconds is None else later(self._now(), seconds)

    def _expire(self, rows: Sequence[Row]) -> None:
        """Send expired rows to their queues' expiry queues, or let them be over."""
        going = [row for row in rows if row.queue.settings.expiry_queue and row.dead_reason != BY_LATER_VALUE]
        for row in going:
            row.entry.attempts -= row.session_id is not None  # a delivery that ends so has not failed
            row.let_go()
            row.suspect, row.dead_reason, row.dead_at = False, "expired", self._now()
        moved = self._move_dead(going, expired=True)
        for row in rows:
            # A ring that some of them came to may have replaced others.
            if row not in moved and row.id in self.broker.rows:
                replaced = row.dead_reason == BY_LATER_VALUE
                self.broker.finish(row, Outcome.REPLACED if replaced else Outcome.EXPIRED)


def _with_origin(row: Row, dead_at: datetime) -> str:
    origin = {
        "x-origin-queue": row.queue.name,
        "x-origin-attempts": row.entry.attempts,
        "x-dead-reason": row.dead_reason,
        "x-dead-at": dead_at.isoformat(timespec="microseconds"),
    }
    return json.dumps(json.loads(row.message.headers) | origin)
