"""Moves between queues, by the rules of the queue that a message comes to, in one transaction.

A move brings as much as fits and leaves the rest where it is, in order: nothing that exists is
dropped because another queue is full. A ring makes room, and a later value replaces an older one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.states import SCHEDULED
from django_mq.stores import refusals
from django_mq.stores.last_value import key_in
from django_mq.stores.sql.deduplicating import Deduplicating

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.stores.room import Room


class Coming(NamedTuple):
    """A message on its way into a queue with rules."""

    id: int
    message_id: Any
    size_bytes: int
    headers: Any
    state: int


class Moving(Deduplicating):
    """Move, dead-letter, send what has expired, retry."""

    def move(self, ids: Sequence[int], target: str) -> int:
        queue = self.queue(target)
        if queue is None:
            raise refusals.no_such_queue(target)
        if queue.closed:
            raise refusals.closed(target)
        with self._transaction():
            room = self._rooms([target]).get(target)
            if room is None:
                return self._moved(ids, target)
            coming = self._coming(ids, room)
            fitting = self._fitting(coming, room)
            if coming and not fitting and room.is_limited:
                raise refusals.no_room(target)
            return self._enter(fitting, room, lambda chosen: self._moved(chosen, target))

    def _moved(self, ids: Sequence[int], target: str) -> int:
        return len(self._rows("move", ids=list(ids), target=target))

    def _move_dead(self, ids: Sequence[int], *, expired: bool = False) -> int:
        """Send what is dead, or has expired, where its queue says; what finds no room stays as it is."""
        ruled: dict[str, list[int]] = {}
        for id_, name in self._rows("ruled_targets", ids=list(ids), expired=expired):
            ruled.setdefault(name, []).append(id_)
        others = set(ids).difference(*ruled.values())
        moved = self._moved_dead([id_ for id_ in ids if id_ in others], expired=expired)
        for name, room in self._rooms(ruled).items():
            # By arrival, as where no rule is.
            fitting = self._fitting(sorted(self._coming(ruled[name], room)), room)
            moved += self._enter(fitting, room, lambda chosen: self._moved_dead(chosen, expired=expired))
        return moved

    def _moved_dead(self, ids: Sequence[int], *, expired: bool) -> int:
        return len(self._rows("move_dead", ids=list(ids), expired=expired)) if ids else 0

    def _coming(self, ids: Sequence[int], room: Room) -> list[Coming]:
        """Lock the messages that are not in the queue yet, of copies of one message the first; in order."""
        rows = [Coming(*row) for row in self._rows("coming", ids=list(ids), queue_id=room.queue_id)]
        first = {row.message_id: row for row in reversed(rows)}
        return [row for row in rows if first[row.message_id] is row]

    def _fitting(self, coming: Sequence[Coming], room: Room) -> list[Coming]:
        """Return those before the first that does not fit; a value in advance does not come at all."""
        fitting: list[Coming] = []
        size_bytes = 0
        for row in coming:
            if row.state == SCHEDULED and self._key(row, room) is not None:
                continue
            if not room.is_ring and self._is_exceeded(room, len(fitting) + 1, size_bytes + row.size_bytes):
                break
            fitting.append(row)
            size_bytes += row.size_bytes
        return fitting

    @staticmethod
    def _key(row: Coming, room: Room) -> str | None:
        return key_in(str(row.headers), room.last_value_key) if room.last_value_key else None

    def _enter(self, fitting: Sequence[Coming], room: Room, move: Callable[[list[int]], int]) -> int:
        """Move them, then do what the rules of their new queue say."""
        moved = move([row.id for row in fitting]) if fitting else 0
        if not moved:
            return 0
        arrived = {message_id: id_ for id_, message_id in self._arrivals(fitting, room)}
        keys = {row.message_id: key for row in fitting if (key := self._key(row, room)) is not None}
        by_id = {arrived[message_id]: key for message_id, key in keys.items() if message_id in arrived}
        self._replace_values(room, dict(sorted(by_id.items())))
        self._settle_in(room, moved, sum(row.size_bytes for row in fitting), newest=max(arrived.values()))
        return moved

    def _arrivals(self, moved: Sequence[Coming], room: Room) -> list[tuple[Any, ...]]:
        message_ids = [_plain(row.message_id) for row in moved]
        return self._rows("moved_here", message_ids=message_ids, queue_id=room.queue_id)

    def retry_dead(self, ids: Sequence[int]) -> int:
        with self._transaction():
            # As publishers do, and before any message is locked: a later value may just be on its way.
            self._rooms(row[0] for row in self._rows("value_queues", ids=list(ids)))
            retried = super().retry_dead(ids)
            for id_, queue_id, key in self._rows("values_among", ids=list(ids)):
                if key is not None:
                    self._keep_latest(queue_id, key, id_)
        return retried


def _plain(message_id: Any) -> str:
    """Return a message id as hex digits, whatever the driver makes of it."""
    return str(message_id).replace("-", "")
