"""Dead letters: where they go."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.engine.places import ORDINARY_PLACE
from django_mq.stores.memory.steering import Steering
from django_mq.stores.texts import storable

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.stores.memory.row import Row


class Dying(Steering):
    """Bury what died, and send it to its queue's dead-letter queue."""

    def _bury(self, row: Row, reason: str) -> None:
        """Mark a row whose entry is dead."""
        row.let_go()
        row.suspect = False
        row.dead_reason, row.dead_at = storable(reason, 255), self._now()

    def _move_dead(self, row: Row) -> None:
        """Move a dead row where its queue says; without such a queue, or if it is there already, it stays.

        Its attempts restart; where it comes from stands in its headers.
        """
        target = self.broker.queues.get(row.queue.settings.dead_letter_queue or "")
        if target is None or row.dead_at is None or row.message.message_id in target.rows:
            return
        row.message = replace(row.message, headers=_with_origin(row, row.dead_at))
        row.published_at, row.deliver_at, row.expires_at = self._now(), None, None
        self._stand_anew(row, target, place=ORDINARY_PLACE)
        row.dead_at = None


def _with_origin(row: Row, dead_at: datetime) -> str:
    origin = {
        "x-origin-queue": row.queue.name,
        "x-origin-attempts": row.entry.attempts,
        "x-dead-reason": row.dead_reason,
        "x-dead-at": dead_at.isoformat(timespec="microseconds"),
    }
    return json.dumps(json.loads(row.message.headers) | origin)
