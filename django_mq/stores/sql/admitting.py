"""Whether there is room in a limited queue, and how it is made.

Publishers lock the row of a limited queue, one after the other, and keep on it what they know of
its contents: at most so much. Consumers only take away, and so need not write there. Only when
that figure says full, or is old, does a publisher count anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.overflow import Limits, Overflow
from django_mq.stores.room import Room, size_of
from django_mq.stores.sql.queues import Queues
from django_mq.stores.sql.steering import REPLACED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.stores.records import NewMessage

#: Messages driven out of a ring by one statement; so far beyond its limit a queue is counted.
EVICTION_CHUNK = 1000
HIGHEST_LEVEL = 9


class Admitting(Queues):
    """Lock, count, evict."""

    def _rooms(self, names: Iterable[str], *, wait: bool = True) -> dict[str, Room]:
        """Lock those of the queues that have rules, in the order of their names, and return their rooms.

        With ``wait=False`` a queue that another transaction has locked is left out.
        """
        lock = "lock_queue" if wait else "lock_free_queue"
        rooms = {}
        for name in sorted(names):
            for row in self._rows(lock, queue=name):
                rooms[name] = self._room(name, row)
        return rooms

    def _room(self, name: str, row: Sequence[Any]) -> Room:
        queue_id, max_messages, max_bytes, overflow, key, messages, size_bytes, fresh = row
        known = fresh and messages is not None and (max_bytes is None or size_bytes is not None)
        room = Room(
            queue_id=queue_id,
            name=name,
            limits=Limits(max_messages, max_bytes),
            overflow=Overflow(overflow),
            last_value_key=key,
            messages=messages if known else 0,
            size_bytes=size_bytes or 0 if known else 0,
            exact=False,
        )
        if room.is_limited and not known:
            self._count_anew(room)
        return room

    def _count_anew(self, room: Room) -> None:
        if room.limits.size_bytes is None:
            most = (room.limits.messages or 0) + EVICTION_CHUNK
            room.messages = self._rows("count_up_to", queue=room.name, limit=most)[0][0]
        else:
            messages, size_bytes = self._rows("measure_queue", queue_id=room.queue_id)[0]
            room.messages, room.size_bytes = messages, int(size_bytes)
        room.exact = True

    def _is_exceeded(self, room: Room, messages: int = 0, size_bytes: int = 0) -> bool:
        """Whether it would really hold too much: an estimate that says so is replaced by a count."""
        if room.is_exceeded(messages, size_bytes) and not room.exact:
            self._count_anew(room)
        return room.is_exceeded(messages, size_bytes)

    def _admitted(self, messages: Sequence[NewMessage], rooms: Mapping[str, Room]) -> list[NewMessage]:
        """Return the messages that come in. Raises QueueFull."""
        kept = list(messages)
        for room in rooms.values():
            mine = [message for message in messages if message.queue_name == room.name]
            if not room.is_ring and self._is_exceeded(room, len(mine), size_of(mine)):
                welcome = set(map(id, room.admit(mine)))
                kept = [each for each in kept if each.queue_name != room.name or id(each) in welcome]
        return kept

    def _make_room(self, room: Room, arrived: Sequence[NewMessage], *, newest: int) -> None:
        """Drive out of a ring what is too much now, and write down what the queue holds."""
        if arrived:
            self._settle_in(room, len(arrived), size_of(arrived), newest=newest)

    def _settle_in(self, room: Room, messages: int, size_bytes: int, *, newest: int) -> int:
        """So much has come to a queue: do what its limits say; return how many messages that has replaced."""
        evicted = 0
        if room.is_limited:
            room.add(messages, size_bytes)
            if room.is_ring:
                evicted = self._evict(room, spared=newest)
            self._note(room)
        return evicted

    def _note(self, room: Room) -> None:
        self._rows(
            "note_held",
            queue_id=room.queue_id,
            messages=room.messages,
            # Only a limit of bytes has them counted.
            size_bytes=None if room.limits.size_bytes is None else room.size_bytes,
            exact=room.exact,
        )

    def _evict(self, room: Room, *, spared: int) -> int:
        """Replace ready messages, the first of the lowest level first, until the ring is not too full.

        What others hold, or have locked, stays: the ring may be too full for a while. Returns how many went.
        """
        level = evicted = 0
        while level <= HIGHEST_LEVEL and self._is_exceeded(room):
            found = self._rows("lowest_level", queue_id=room.queue_id, level=level)
            if not found:
                break
            level = found[0][0]
            gone = self._evict_from(room, level, spared)
            evicted += gone
            if not gone:
                level += 1
        return evicted

    def _evict_from(self, room: Room, level: int, spared: int) -> int:
        """Replace some of one level; return how many."""
        few = {"spared": spared, "limit": min(room.excess, EVICTION_CHUNK)}
        rows = self._rows("evictable", queue_id=room.queue_id, level=level, **few)
        chosen = []
        for id_, size_bytes in rows:
            if not room.is_exceeded():
                break
            chosen.append(id_)
            room.add(-1, -size_bytes)
        return self._remove(chosen, REPLACED) if chosen else 0
