"""The rules for what enters a queue: limits, duplicate ids, last values.

Publishers lock the row of a limited queue, one after the other, and keep an upper bound of its contents there.
Consumers only remove messages, so they do not write to the row. A publisher counts the messages only if the bound
says that the queue is full, or if the bound is old.

The transaction that publishes writes the duplicate id. A unique constraint decides between two transactions that
publish the same id: the second one waits, and its message is a duplicate if the first one commits.

A newer message of a last-value queue replaces the older one with its key, in one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.decisions.duplicates import is_over, used_before
from django_mq.engine.decisions.last_value import BY_LATER_VALUE, check_value, is_outdone, replaced
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import CLAIMED, READY
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import REPLACED, key_in
from django_mq.stores.values import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from django_mq.engine.decisions.sorting import Sorting
    from django_mq.stores.records import NewMessage, QueueRecord, Receipt
    from django_mq.stores.sql.database import Rows


#: Messages that one statement removes from a ring; a queue is counted up to so many beyond its limit.
EVICTION_CHUNK = 1000
#: The most due values that arrive in one transaction.
PROMOTE_LIMIT = 1000
HIGHEST_LEVEL = 9


class QueueCapacities(Part):
    def of(self, names: Iterable[str], *, wait: bool = True) -> dict[str, QueueCapacity]:
        """Lock the queues that have rules, in the order of their names, and return their capacities.

        Last values that are due arrive first. With ``wait=False`` they do not, and a queue that another
        transaction has locked is left out.
        """
        lock = "lock_queue" if wait else "lock_free_queue"
        capacities = {}
        for name in sorted(names):
            for row in self.rows(lock, queue=name):
                if wait and row[4]:
                    self.store.last_values.let_arrive(name)
                capacities[name] = self._capacity(name, row)
        return capacities

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

    def settle_in(
        self, capacity: QueueCapacity, messages: int, size_bytes: int, *, newest: int, evicts: bool = True
    ) -> int:
        """Count what has come to a queue and apply its limits; return how many messages were replaced.

        Without ``evicts``, the next publish or maintenance replaces them: a ring that is full could send messages
        to a ring that sends its own back.
        """
        evicted = 0
        if capacity.is_limited:
            capacity.add(messages, size_bytes)
            if capacity.is_ring and evicts:
                evicted = self._evict(capacity, spared=newest)
            # Only a limit of bytes has them counted.
            known = None if capacity.limits.size_bytes is None else capacity.size_bytes
            held = {"messages": capacity.messages, "size_bytes": known, "exact": capacity.exact}
            self.rows("note_held", queue_id=capacity.queue_id, **held)
        return evicted

    def _evict(self, capacity: QueueCapacity, *, spared: int) -> int:
        """Replace ready messages, the first of the lowest level first, until the limits hold; return how many.

        Messages that sessions hold, or transactions have locked, stay: the ring may be too full for a while.
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
        return self.store.moves.drop(chosen, buries=capacity.buries) if chosen else 0


class LastValues(Part):
    """Keep one message of each key, besides those that sessions hold."""

    def replace(self, capacity: QueueCapacity, keys: Mapping[int, str], *, scheduled: bool = False) -> None:
        """Write the keys of new rows, given in the order of their arrival, and replace older rows.

        ``scheduled``: whether some may be for a later time. These replace others when they are due.
        """
        for id_, key in keys.items():
            self.rows("set_value_key", id=id_, key=key)
        arrived = self._ready(keys) if scheduled and keys else keys
        if self._replace_by(capacity.queue_id, arrived, due=True):
            capacity.exact = False  # there is more room than was counted

    def promote(self, queues: Sequence[str] | None = None) -> int:
        """Let the values arrive that were scheduled and are due, in these queues or in all; return how many.

        Without waiting for publishers: a queue that one has locked is left alone.
        """
        arrived = 0
        for name in {name for name, *_ in self._due(queues)}:
            # One queue at a time: a settlement holds a message of it, and may wait for the lock of another queue.
            with self.database.transaction():
                arrived += sum([self.let_arrive(each) for each in self.store.capacity.of([name], wait=False)])
        return arrived

    def let_arrive(self, queue: str) -> int:
        """The same in a queue that this transaction has locked."""
        due = self._due([queue])
        if not due:
            return 0
        arrived = self.store.messages.arrive_again([id_ for _, _, id_ in due])
        self._replace_by(due[0][1], self._ready(arrived), due=False)
        return len(arrived)

    def _due(self, queues: Sequence[str] | None) -> Rows:
        return self.rows("due_values", every=queues is None, queues=list(queues or ()), limit=PROMOTE_LIMIT)

    def _ready(self, ids: Iterable[int]) -> dict[int, str]:
        return {id_: key for id_, _, key in self.rows("values_among", ids=list(ids), state=READY)}

    def _replace_by(self, queue_id: int, keys: Mapping[int, str], *, due: bool) -> int:
        """Let the last row of each key replace older ones; return how many were removed at once.

        ``due``: also those that are due and have not arrived.
        """
        latest = {key: id_ for id_, key in keys.items()}
        return sum([self._replace_older(queue_id, key, newest, due=due) for key, newest in latest.items()])

    def _replace_older(self, queue_id: int, key: str, newest: int, *, due: bool = False) -> int:
        gone, held = replaced(self._others(queue_id, key, newest, due=due))
        if held:
            self.rows("mark_replaced", ids=held, replaced=BY_LATER_VALUE)
        return len(self.store.messages.remove(gone, REPLACED)) if gone else 0

    def keep_latest(self, ids: Iterable[int]) -> None:
        """Let messages that are ready again replace older ones, or be replaced by a later one."""
        for id_, queue_id, key in self.rows("values_among", ids=list(ids), state=READY):
            if key is None:
                continue
            if self._is_outdone(queue_id, key, id_):
                self.store.messages.remove([id_], REPLACED)
            else:
                self._replace_older(queue_id, key, id_)

    def retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        """Claim messages again, and mark those that a later value would have replaced, had they not been dead."""
        ids = self.store.messages.retake(session_id, receipts)
        for id_, queue_id, key in self.rows("values_among", ids=list(ids), state=CLAIMED) if ids else ():
            if key is not None and self._is_outdone(queue_id, key, id_):
                self.rows("mark_replaced", ids=[id_], replaced=BY_LATER_VALUE)
        return ids

    def _is_outdone(self, queue_id: int, key: str, id_: int) -> bool:
        return is_outdone(id_, [other for other, _ in self._others(queue_id, key, id_)])

    def _others(self, queue_id: int, key: str, id_: int, *, due: bool = False) -> Rows:
        """Return the other messages with a key that no later value has replaced, each with its state."""
        given = {"queue_id": queue_id, "key": key, "newest": id_, "due": due}
        return self.rows("older_values", **given, replaced=BY_LATER_VALUE)


class UsedIds(Part):
    def use(self, messages: Sequence[NewMessage]) -> None:
        used = [message for message in messages if message.dedup_id is not None]
        # In one order for all, or two publishers of the same ids could wait for each other.
        for message in sorted(used, key=lambda each: (each.queue_name, each.dedup_id)):
            uses = [] if self._remember(message) else self._uses(message)
            for id_, by, used_at, now, seconds in uses:  # none, if the queue remembers no ids
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
        """Forget the ids of messages that were dropped."""
        ids = [message.dedup_id for message in messages if message.dedup_id is not None]
        if ids:
            self.rows("take_back_duplicates", queue_id=queue_id, dedup_ids=ids)


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


def value_key(message: NewMessage, header: str) -> str | None:
    """Return the header's text, None without one. Raises InvalidMessage for what cannot be a value."""
    key = key_in(message.headers, header)
    if key is not None:
        check_value(header, key)
    return key
