"""The rules of the queue that a message comes to: room for it, and whom it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.states import DEAD, READY, SCHEDULED
from django_mq.stores.last_value import key_in
from django_mq.stores.memory.history import Outcome
from django_mq.stores.memory.row import BY_LATER_VALUE, Row
from django_mq.stores.memory.sessions import Sessions

if TYPE_CHECKING:
    from django_mq.stores.memory.queue import BrokerQueue


class Arriving(Sessions):
    """Evict, and replace older values."""

    def _has_come(self, row: Row, key: str | None) -> None:
        """Let a row that has come to its queue replace what the queue's rules say."""
        self._replace_by(row, key)
        if row.queue.room().is_ring:
            self._evict(row.queue, spared=row.id)

    def _replace_by(self, row: Row, key: str | None) -> None:
        if key is not None:
            self._replace_older(row, key)

    def _evict(self, queue: BrokerQueue, *, spared: int) -> int:
        """Replace ready messages, the first of the lowest level first, until the ring is not too full.

        Returns how many went.
        """
        evicted = 0
        while queue.room().is_exceeded():
            ready = [row for row in queue.rows.values() if row.entry.state is READY and row.id != spared]
            if not ready:
                break  # what is held or scheduled stays
            self.broker.finish(min(ready, key=_least), Outcome.REPLACED)
            evicted += 1
        return evicted

    def _replace_older(self, row: Row, key: str) -> None:
        older = list(row.queue.values.get(key, {}).values())
        row.value_key = key
        row.queue.values.setdefault(key, {})[row.message.message_id] = row
        for each in older:
            if each.held:
                # Whoever gives it back gives it up.
                each.dead_reason, each.expires_at = BY_LATER_VALUE, self._now()
            elif each is not row and each.entry.state is not DEAD:
                self.broker.finish(each, Outcome.REPLACED)

    def _keep_latest(self, row: Row) -> None:
        """A row is ready again: let it replace older ones, or be replaced if there is a later one."""
        if row.value_key is None:
            return
        others = [each for each in row.queue.values[row.value_key].values() if each.entry.state is not DEAD]
        if max(each.id for each in others) > row.id:
            self.broker.finish(row, Outcome.REPLACED)
        else:
            self._replace_older(row, row.value_key)

    @staticmethod
    def _key_in(row: Row, queue: BrokerQueue) -> str | None:
        """What a queue would tell a row by."""
        header = queue.settings.last_value_key
        return key_in(row.message.headers, header) if header else None

    def _may_come(self, row: Row, queue: BrokerQueue) -> bool:
        """Whether a queue that is open takes a row of another: once, not in advance, and with room for it."""
        if row.message.message_id in queue.rows:
            return False
        if row.entry.state is SCHEDULED and self._key_in(row, queue) is not None:
            return False
        room = queue.room()
        return room.is_ring or not room.is_exceeded(1, len(row.message.body))


def _least(row: Row) -> tuple[int, int, int]:
    """The order in which a ring drives messages out."""
    return row.entry.level, row.entry.place, row.id
