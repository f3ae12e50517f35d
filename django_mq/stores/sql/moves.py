"""Moves between queues, by the rules of the queue that a message comes to, in one transaction.

A move takes as many messages as fit, in order, and leaves the rest where it is: no message is dropped because
another queue is full. A ring makes room for all, and a later value replaces an older one. What a ring replaces may
itself be sent on, as a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.decisions.dead_letters import MAXLEN, REJECTED
from django_mq.engine.decisions.verdict import BY_EXPIRY
from django_mq.engine.states import SCHEDULED
from django_mq.stores import errors
from django_mq.stores.dead_letters import Copy, DeadLetter, Sent, planned
from django_mq.stores.records import headers_in, time_of
from django_mq.stores.sql.capacities import EVICTION_CHUNK
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import DEAD_LETTERED, EXPIRED, REPLACED, hexes, key_in, stayed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_mq.engine.message import Message
    from django_mq.stores.records import Moved
    from django_mq.stores.sql.capacities import QueueCapacities, QueueCapacity
    from django_mq.stores.sql.exchanges import Exchanges
    from django_mq.stores.sql.fairness import FairPlaces
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.queues import Queues

HIGHEST_LEVEL = 9


class Coming(NamedTuple):
    id: int
    message_id: Any
    size_bytes: int
    headers: Any
    state: int


@dataclass(eq=False)
class Moves(Part):
    queues: Queues
    exchanges: Exchanges
    messages: Messages
    capacities: QueueCapacities
    last_values: LastValues
    fairness: FairPlaces

    def move(self, ids: Sequence[int], target: str) -> list[Moved]:
        if self.queues.existing(target).closed:
            raise errors.closed(target)
        with self.database.transaction():
            capacity = self._capacities([target]).get(target)
            if capacity is None:
                return self.messages.move_rows(ids, target)
            coming = self._coming(ids, capacity)
            fitting = self._fitting(coming, capacity)
            if coming and not fitting and capacity.is_limited:
                raise errors.full(target)
            moved: list[Moved] = []

            def write(chosen: list[int]) -> int:
                moved.extend(self.messages.move_rows(chosen, target))
                return len(moved)

            self._enter(fitting, capacity, write)
        return moved

    def send_dead(self, ids: Sequence[int], reason: str = REJECTED, *, is_last: bool = False) -> Sent:
        """Send dead messages where their queues say; those that no queue takes stay as they are.

        ``is_last`` says that their queue is about to be deleted.
        """
        if not ids:
            return Sent(set(), set())
        with self.database.transaction():
            rows = self.rows("dying", ids=list(ids))
            dead_letters = [DeadLetter(*(*row[:-1], time_of(row[-1]))) for row in rows]
            plan = planned(
                self.queues.find, self.exchanges.find, dead_letters, reason, self._described, is_last=is_last
            )
            left = set[int]()
            for name, copies in sorted(plan.copies.items()):
                left |= self._copy(name, copies, evicts=reason != MAXLEN)
            for outcome, gone in ((EXPIRED, left & plan.expiring), (DEAD_LETTERED, left - plan.expiring)):
                if gone:
                    self.messages.remove(sorted(gone), outcome)
        return Sent(left, plan.kept - left)

    def _described(self, letter: DeadLetter) -> Message:
        return self.messages.described(letter.queue, [letter.id])[letter.id]

    def _copy(self, name: str, copies: Sequence[Copy], *, evicts: bool) -> set[int]:
        """Write copies into a queue by its rules; return the ids of the messages that it took."""
        capacity = self._capacities([name]).get(name)
        if capacity is None:
            return self.messages.copy_dead(copies, name)
        # By arrival, as without rules.
        fitting = self._fitting(sorted(self._coming([copy.id for copy in copies], capacity)), capacity)
        taken = set[int]()

        def write(chosen: list[int]) -> int:
            fits = set(chosen)
            taken.update(self.messages.copy_dead([copy for copy in copies if copy.id in fits], name))
            return len(taken)

        self._enter(fitting, capacity, write, evicts=evicts)
        return taken

    def drop(self, ids: Sequence[int], *, buries: bool) -> int:
        """Remove messages that a ring replaces, or make dead letters of them; return how many left the ring."""
        if not buries:
            return len(self.messages.remove(ids, REPLACED))
        self.messages.bury(ids, MAXLEN)
        self.send_dead(ids, MAXLEN)
        return len(ids)

    def _capacities(self, names: Iterable[str]) -> dict[str, QueueCapacity]:
        """Lock the queues that have limits or last values; return these, and sorted and fair ones."""
        capacities = self.last_values.capacities_of(names)
        for name in names:
            queue = self.queues.find(name)
            if queue is not None and (queue.sorting is not None or queue.fair_by):
                capacities.setdefault(name, self.capacities.unlimited(queue)).sorting = queue.sorting
        return capacities

    def send_expired(self, ids: Sequence[int]) -> int:
        """Send expired messages where their queues say, and remove those that may not stay; return how many."""
        sent = self.send_dead(ids, reason=BY_EXPIRY)
        done = sent.left | sent.kept
        over = [id_ for id_ in ids if id_ not in done]
        return len(done) + (len(self.messages.remove(over, EXPIRED)) if over else 0)

    def _coming(self, ids: Sequence[int], capacity: QueueCapacity) -> list[Coming]:
        """Lock the messages that are not in the queue yet, in order; of copies of a message, the first."""
        rows = [Coming(*row) for row in self.rows("coming", ids=list(ids), queue_id=capacity.queue_id)]
        first = {row.message_id: row for row in reversed(rows)}
        return [row for row in rows if first[row.message_id] is row]

    def _fitting(self, coming: Sequence[Coming], capacity: QueueCapacity) -> list[Coming]:
        """Return the messages before the first that does not fit, without scheduled values."""
        fitting: list[Coming] = []
        size_bytes = 0
        for row in coming:
            if row.state == SCHEDULED and self._key(row, capacity) is not None:
                continue
            fits = capacity.is_ring or not self.capacities.is_exceeded(
                capacity, len(fitting) + 1, size_bytes + row.size_bytes
            )
            if not fits:
                break
            fitting.append(row)
            size_bytes += row.size_bytes
        return fitting

    @staticmethod
    def _key(row: Coming, capacity: QueueCapacity) -> str | None:
        return key_in(str(row.headers), capacity.last_value_key) if capacity.last_value_key else None

    def _enter(
        self,
        fitting: Sequence[Coming],
        capacity: QueueCapacity,
        move: Callable[[list[int]], int],
        *,
        evicts: bool = True,
    ) -> int:
        moved = move([row.id for row in fitting]) if fitting else 0
        if not moved:
            return 0
        message_ids = hexes(row.message_id for row in fitting)
        found = self.rows("moved_here", message_ids=message_ids, queue_id=capacity.queue_id)
        arrived = {message_id: id_ for id_, message_id in found}
        keys = {row.message_id: key for row in fitting if (key := self._key(row, capacity)) is not None}
        by_id = {arrived[message_id]: key for message_id, key in keys.items() if message_id in arrived}
        self.last_values.replace(capacity, dict(sorted(by_id.items())))
        if capacity.sorting is not None:
            place = capacity.sorting.place_or_first
            here = [row for row in fitting if row.message_id in arrived]
            places = {arrived[row.message_id]: place(headers_in(str(row.headers))) for row in here}
            self.messages.set_places(places)
        self.fairness.place(capacity.name, sorted(arrived.values()))
        size_bytes = sum(row.size_bytes for row in fitting)
        self.settle_in(capacity, moved, size_bytes, newest=max(arrived.values()), evicts=evicts)
        return moved

    def redrive(self, ids: Sequence[int]) -> list[Moved]:
        with self.database.transaction():
            # Before any message is locked, as publishers do: a later value may be about to arrive.
            values = [row[0] for row in self.rows("value_queues", ids=list(ids))]
            self.last_values.capacities_of(values)
            before = self.messages.standing(self.messages.changed("redrive_dead", ids))
            self.fairness.place_again(before)
            self.last_values.keep_latest(ids)
            return self.messages.moved(before) if values else stayed(before)

    # Rings.

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
        while level <= HIGHEST_LEVEL and self.capacities.is_exceeded(capacity):
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
        return self.drop(chosen, buries=capacity.buries) if chosen else 0
