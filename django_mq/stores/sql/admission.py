"""Which messages come into a queue with rules: limits, duplicate ids, last values.

Publishers lock the row of a limited queue, one after the other, and keep on it what they know of
its contents: at most so much. Consumers only take away, and so need not write there. Only when
that figure says full, or is old, does a publisher count anew.

A duplicate id is written in the transaction that publishes. A unique constraint decides between two
that publish at the same moment: the second waits, and is a duplicate if the first commits.

Of last values, a newer message takes the place of the older one with its key, in one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.duplicates import is_over, used_before
from django_mq.engine.last_value import BY_LATER_VALUE, check_value, is_outdone, replaced
from django_mq.engine.overflow import Limits, Overflow
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import REPLACED, key_in
from django_mq.stores.values import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.database import Rows


#: Messages driven out of a ring by one statement; so far beyond its limit a queue is counted.
EVICTION_CHUNK = 1000
HIGHEST_LEVEL = 9


class Capacity(Part):
    def of(self, names: Iterable[str], *, wait: bool = True) -> dict[str, QueueCapacity]:
        """Lock those of the queues that have rules, in the order of their names, and return their capacities.

        With ``wait=False`` a queue that another transaction has locked is left out.
        """
        lock = "lock_queue" if wait else "lock_free_queue"
        capacities = {}
        for name in sorted(names):
            for row in self.rows(lock, queue=name):
                capacities[name] = self._capacity(name, row)
        return capacities

    def _capacity(self, name: str, row: Sequence[Any]) -> QueueCapacity:
        queue_id, max_messages, max_bytes, overflow, key, messages, size_bytes, fresh = row
        known = fresh and messages is not None and (max_bytes is None or size_bytes is not None)
        held = (messages, size_bytes or 0) if known else (0, 0)
        capacity = QueueCapacity(queue_id, name, Limits(max_messages, max_bytes), Overflow(overflow), key, *held)
        if capacity.is_limited and not known:
            self._count_anew(capacity)
        return capacity

    def _count_anew(self, capacity: QueueCapacity) -> None:
        if capacity.limits.size_bytes is None:
            most = (capacity.limits.messages or 0) + EVICTION_CHUNK
            capacity.messages = self.rows("count_up_to", queue=capacity.name, limit=most)[0][0]
        else:
            messages, size_bytes = self.rows("measure_queue", queue_id=capacity.queue_id)[0]
            capacity.messages, capacity.size_bytes = messages, int(size_bytes)
        capacity.exact = True

    def is_exceeded(self, capacity: QueueCapacity, messages: int = 0, size_bytes: int = 0) -> bool:
        """Whether it would really hold too much: an estimate that says so is replaced by a count."""
        if capacity.is_exceeded(messages, size_bytes) and not capacity.exact:
            self._count_anew(capacity)
        return capacity.is_exceeded(messages, size_bytes)

    def admitted(
        self, messages: Sequence[NewMessage], capacities: Mapping[str, QueueCapacity]
    ) -> list[NewMessage]:
        kept = list(messages)
        for capacity in capacities.values():
            mine = [message for message in messages if message.queue_name == capacity.name]
            if not capacity.is_ring and self.is_exceeded(capacity, len(mine), size_of(mine)):
                welcome = set(map(id, capacity.admit(mine)))
                kept = [each for each in kept if each.queue_name != capacity.name or id(each) in welcome]
        return kept

    def settle_in(self, capacity: QueueCapacity, messages: int, size_bytes: int, *, newest: int) -> int:
        """So much has come to a queue: do what its limits say; return how many messages that has replaced."""
        evicted = 0
        if capacity.is_limited:
            capacity.add(messages, size_bytes)
            if capacity.is_ring:
                evicted = self._evict(capacity, spared=newest)
            self._note(capacity)
        return evicted

    def _note(self, capacity: QueueCapacity) -> None:
        self.rows(
            "note_held",
            queue_id=capacity.queue_id,
            messages=capacity.messages,
            # Only a limit of bytes has them counted.
            size_bytes=None if capacity.limits.size_bytes is None else capacity.size_bytes,
            exact=capacity.exact,
        )

    def _evict(self, capacity: QueueCapacity, *, spared: int) -> int:
        """Replace ready messages, the first of the lowest level first, until the ring is not too full.

        What others hold, or have locked, stays: the ring may be too full for a while. Returns how many went.
        """
        level = evicted = 0
        while level <= HIGHEST_LEVEL and self.is_exceeded(capacity):
            found = self.rows("lowest_level", queue_id=capacity.queue_id, level=level)
            if not found:
                break
            level = found[0][0]
            gone = self._evict_from(capacity, level, spared)
            evicted += gone
            if not gone:
                level += 1
        return evicted

    def _evict_from(self, capacity: QueueCapacity, level: int, spared: int) -> int:
        few = {"spared": spared, "limit": min(capacity.excess, EVICTION_CHUNK)}
        rows = self.rows("evictable", queue_id=capacity.queue_id, level=level, **few)
        chosen = []
        for id_, size_bytes in rows:
            if not capacity.is_exceeded():
                break
            chosen.append(id_)
            capacity.add(-1, -size_bytes)
        return len(self.store.messages.remove(chosen, REPLACED)) if chosen else 0


class LastValues(Part):
    """Keep one message per key, and what is held until it is settled."""

    def replace(self, capacity: QueueCapacity, keys: Mapping[int, str]) -> None:
        """Note the keys of new rows, given in the order of their arrival, and replace what was there."""
        for id_, key in keys.items():
            self.rows("set_value_key", id=id_, key=key)
        latest = {key: id_ for id_, key in keys.items()}
        for key, newest in latest.items():
            if self._replace_older(capacity.queue_id, key, newest):
                capacity.exact = False  # there is more room than was counted

    def _replace_older(self, queue_id: int, key: str, newest: int) -> int:
        """Replace what else is there with the key; return how many messages went at once."""
        gone, held = replaced(self._others(queue_id, key, newest))
        if held:
            self.rows("mark_replaced", ids=held, replaced=BY_LATER_VALUE)
        return len(self.store.messages.remove(gone, REPLACED)) if gone else 0

    def keep_latest(self, queue_id: int, key: str, id_: int) -> None:
        """A message is ready again: let it replace older ones, or be replaced if there is a later one."""
        if is_outdone(id_, [other for other, _ in self._others(queue_id, key, id_)]):
            self.store.messages.remove([id_], REPLACED)
        else:
            self._replace_older(queue_id, key, id_)

    def _others(self, queue_id: int, key: str, id_: int) -> Rows:
        """Return the other messages with a key that no later value has replaced, each with its state."""
        given = {"queue_id": queue_id, "key": key, "newest": id_}
        return self.rows("older_values", **given, replaced=BY_LATER_VALUE)


class DuplicateIds(Part):
    def use(self, messages: Sequence[NewMessage]) -> None:
        used = [message for message in messages if message.dedup_id is not None]
        # In one order for all, or two publishers of the same ids could wait for each other.
        for message in sorted(used, key=lambda each: (each.queue_name, each.dedup_id)):
            self._use_one(message)

    def _use_one(self, message: NewMessage) -> None:
        if self._remember(message):
            return
        for id_, by, used_at, now, seconds in self._uses(message):  # none, if the queue remembers no ids
            if is_new := is_over(time_of(used_at).timestamp(), time_of(now).timestamp(), seconds):
                self.rows("forget_duplicate", id=id_)
            if not (is_new and self._remember(message)):
                raise used_before(message.queue_name, message.dedup_id, UUID(str(by)))

    def _uses(self, message: NewMessage) -> Rows:
        return self.rows("duplicate_of", queue=message.queue_name, dedup_id=message.dedup_id)

    def _remember(self, message: NewMessage) -> bool:
        row = {"queue": message.queue_name, "dedup_id": message.dedup_id, "message_id": message.message_id}
        return bool(self.database.insert("remember_duplicate", **row))

    def is_used_by(self, message: NewMessage) -> bool:
        found = self._uses(message) if message.dedup_id is not None else []
        return bool(found) and UUID(str(found[0][1])) == message.message_id

    def take_back(self, queue_id: int, messages: Sequence[NewMessage]) -> None:
        """Forget the ids of messages that were dropped: they are as good as new."""
        ids = [message.dedup_id for message in messages if message.dedup_id is not None]
        if ids:
            self.rows("take_back_duplicates", queue_id=queue_id, dedup_ids=ids)


#: Messages looked at together while bytes are too much.
AT_LEAST_FOR_BYTES = 10


@dataclass(slots=True)
class QueueCapacity:
    """One queue's limits, and its contents as far as they are known: at most so much."""

    queue_id: int
    name: str
    limits: Limits
    overflow: Overflow
    last_value_key: str
    messages: int
    size_bytes: int
    #: Whether what it holds was counted just now, and is no estimate.
    exact: bool = False

    @property
    def is_limited(self) -> bool:
        return self.limits != Limits()

    @property
    def is_ring(self) -> bool:
        """Whether older messages make room for new ones."""
        return self.is_limited and self.overflow is Overflow.RING

    def is_exceeded(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """Whether it would hold too much with so much more."""
        return self.limits.exceeded_by(self.messages + messages, self.size_bytes + size_bytes)

    @property
    def excess(self) -> int:
        """How many messages may have to go, as far as that can be told: bytes do not say."""
        most = self.limits.messages
        messages = 1 if most is None else max(1, self.messages - most)
        return messages if self.limits.size_bytes is None else max(messages, AT_LEAST_FOR_BYTES)

    def add(self, messages: int, size_bytes: int) -> None:
        """So much more is in the queue, or, if negative, less."""
        self.messages += messages
        self.size_bytes += size_bytes

    def admit(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """Return those of the messages that come into a queue that is no ring. Raises QueueFull."""
        sizes, drops = [len(message.body) for message in messages], self.overflow is Overflow.DROP
        fitting = self.limits.admit(self.name, sizes, self.messages, self.size_bytes, drops=drops)
        return [message for message, fits in zip(messages, fitting, strict=True) if fits]


def size_of(messages: Sequence[NewMessage]) -> int:
    return sum(len(message.body) for message in messages)


def value_key(message: NewMessage, header: str) -> str | None:
    """Return the header's text, None without one: such a message replaces nothing.

    Raises InvalidMessage for what cannot be a value.
    """
    key = key_in(message.headers, header)
    if key is not None:
        is_later = message.deliver_at is not None or bool(message.delay_seconds)
        check_value(message.queue_name, header, key, is_later=is_later)
    return key
