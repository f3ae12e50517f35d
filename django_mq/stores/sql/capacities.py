"""What a queue may hold, and what it holds: its limits, under the lock of its row.

Publishers lock the row of a limited queue, one after the other, and keep an upper bound of its contents there.
Consumers only remove messages, so they do not write to the row. A publisher counts the messages only if the bound
says that the queue is full, or if the bound is old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from django_mq.engine.decisions.sorting import Sorting
    from django_mq.stores.records import NewMessage, QueueRecord


#: Messages that one statement removes from a ring; a queue is counted up to so many beyond its limit.
EVICTION_CHUNK = 1000


class QueueCapacities(Part):
    def of(self, names: Iterable[str], let_arrive: Callable[[str], object]) -> dict[str, QueueCapacity]:
        """Lock the queues that have rules, in the order of their names, and return their capacities.

        ``let_arrive`` is called for a queue with last values before its messages are counted.
        """
        capacities = {}
        for name in sorted(names):
            for row in self.rows("lock_queue", queue=name):
                if row[4]:
                    let_arrive(name)
                capacities[name] = self._capacity(name, row)
        return capacities

    def free(self, name: str) -> list[QueueCapacity]:
        """Lock a queue that has rules and return its capacity, none if another transaction has locked it."""
        return [self._capacity(name, row) for row in self.rows("lock_free_queue", queue=name)]

    def _capacity(self, name: str, row: Sequence[Any]) -> QueueCapacity:
        queue_id, max_messages, max_bytes, overflow, key, buries, messages, size_bytes, fresh = row
        known = fresh and messages is not None and (max_bytes is None or size_bytes is not None)
        held = (messages, size_bytes or 0) if known else (0, 0)
        capacity = QueueCapacity(queue_id, name, Limits(max_messages, max_bytes), Overflow(overflow), key, *held)
        capacity.buries = bool(buries)
        if capacity.is_limited and not known:
            self._count_anew(capacity)
        return capacity

    def unlimited(self, queue: QueueRecord) -> QueueCapacity:
        """Return the capacity of a queue without limits."""
        return QueueCapacity(queue.id, queue.name, Limits(), Overflow.REJECT, "", 0, 0)

    def _count_anew(self, capacity: QueueCapacity) -> None:
        dead = not capacity.is_ring
        if capacity.limits.size_bytes is None:
            most = (capacity.limits.messages or 0) + EVICTION_CHUNK
            capacity.messages = self.rows("count_up_to", queue=capacity.name, limit=most, dead=dead)[0][0]
        else:
            messages, size_bytes = self.rows("measure_queue", queue_id=capacity.queue_id, dead=dead)[0]
            capacity.messages, capacity.size_bytes = messages, int(size_bytes)
        capacity.exact = True

    def is_exceeded(self, capacity: QueueCapacity, messages: int = 0, size_bytes: int = 0) -> bool:
        """Whether the queue would hold too much; an estimate that says so is replaced by a count."""
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


#: Messages looked at together while bytes are too much.
AT_LEAST_FOR_BYTES = 10


@dataclass(slots=True)
class QueueCapacity:
    """The limits of one queue, and an upper bound of its contents."""

    queue_id: int
    name: str
    limits: Limits
    overflow: Overflow
    last_value_key: str
    messages: int
    size_bytes: int
    #: Whether the contents were counted just now. A ring's dead letters are not.
    exact: bool = False
    #: Whether a ring makes dead letters of the messages that it replaces.
    buries: bool = False
    sorting: Sorting | None = None

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
        """How many messages may have to go; from bytes alone that cannot be told."""
        most = self.limits.messages
        messages = 1 if most is None else max(1, self.messages - most)
        return messages if self.limits.size_bytes is None else max(messages, AT_LEAST_FOR_BYTES)

    def add(self, messages: int, size_bytes: int) -> None:
        self.messages += messages
        self.size_bytes += size_bytes

    def admit(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """Return the messages that a queue takes which is no ring. Raises QueueFull."""
        sizes, drops = [len(message.body) for message in messages], self.overflow is Overflow.DROP
        fitting = self.limits.admit(self.name, sizes, self.messages, self.size_bytes, drops=drops)
        return [message for message, fits in zip(messages, fitting, strict=True) if fits]


def size_of(messages: Sequence[NewMessage]) -> int:
    return sum(len(message.body) for message in messages)
