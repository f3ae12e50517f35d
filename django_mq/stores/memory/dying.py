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

    def _move_dead(self, row: Row, *, expired: bool = False) -> bool:
        """Move a dead or expired row where its queue says; what cannot go there stays as it is.

        Its attempts restart; where it comes from stands in its headers.
        """
        settings = row.queue.settings
        target = self.broker.queues.get((settings.expiry_queue if expired else settings.dead_letter_queue) or "")
        if target is None or target.closed or row.dead_at is None or not self._may_come(row, target):
            return False
        row.message = replace(row.message, headers=_with_origin(row, row.dead_at))
        row.published_at, row.deliver_at = self._now(), None
        row.expires_at = self._end_in(target)
        self._stand_anew(row, target, place=ORDINARY_PLACE)
        row.dead_at = None
        self._has_come(row, self._key_in(row, target))
        return True

    def _end_in(self, queue: BrokerQueue) -> datetime | None:
        """When a message without an end of its own expires in a queue."""
        settings = queue.settings
        seconds = settings.max_ttl_seconds if settings.ttl_seconds is None else settings.ttl_seconds
        return None if seconds is None else later(self._now(), seconds)

    def _expire(self, row: Row) -> None:
        """Send an expired row to its queue's expiry queue, or let it be over."""
        replaced = row.dead_reason == BY_LATER_VALUE
        if row.queue.settings.expiry_queue is not None and not replaced:
            row.entry.attempts -= row.session_id is not None  # a delivery that ends so has not failed
            row.let_go()
            row.suspect, row.dead_reason, row.dead_at = False, "expired", self._now()
            if self._move_dead(row, expired=True):
                return
        self.broker.finish(row, Outcome.REPLACED if replaced else Outcome.EXPIRED)


def _with_origin(row: Row, dead_at: datetime) -> str:
    origin = {
        "x-origin-queue": row.queue.name,
        "x-origin-attempts": row.entry.attempts,
        "x-dead-reason": row.dead_reason,
        "x-dead-at": dead_at.isoformat(timespec="microseconds"),
    }
    return json.dumps(json.loads(row.message.headers) | origin)
