"""New messages: which the queue takes, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.duplicates import id_taken, id_twice, used_before
from django_mq.engine.decisions.last_value import check_value
from django_mq.engine.decisions.limits import Overflow
from django_mq.engine.states import GONE, HELD, Cause
from django_mq.errors import IllegalMove, ProducerBlocked, PublishError, QueueClosed, QueueFull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.capacity import Producer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.parts.deliveries import QueueDeliveries
    from django_mq.inprocess.parts.due import DueEntries
    from django_mq.inprocess.parts.state import CommonState


class Arrivals:
    """Takes in the messages of one queue, or refuses them."""

    def __init__(self, state: CommonState, due: DueEntries, deliveries: QueueDeliveries) -> None:
        self._state = state
        self._contents, self._capacity = state.contents, state.capacity
        self._due, self._deliveries = due, deliveries

    def publish(self, message: Message, now: float, producer: Producer | None, *, immediate: bool) -> Entry:
        """Add a message by the queue's rules and return its entry, which is gone if the message was dropped."""
        self.check_ids([message])
        if not self.admit([message], producer=producer)[0]:
            entry = self._state.placement.entry(message, 0, now)
            entry.discard()
            return entry
        self._remember_id(message, self._state.now)
        entry = self._enter(message, now)
        if immediate and not self._deliveries.reserve(entry, now):
            self._contents.take_out(entry, Cause.MOVED)
        if entry.state is not GONE:
            self._capacity.check(entry, producer)
        return entry

    def admit(
        self, messages: Sequence[Message], now: float | None = None, *, producer: Producer | None = None
    ) -> list[bool]:
        """Return for each of several new messages whether the queue takes it; the others are to be dropped.

        Call ``enter`` for each of the former, and ``entered`` after the last. Raises the errors of ``publish``
        for any of them, but not for an id that is here; nothing is changed then.
        """
        state = self._state
        state.refuse_if_deleted()
        now = state.now if now is None else now
        self._due.let_values_arrive(now)
        used: dict[str, str] = {}
        for message in messages:
            self._check(message, now)
            if message.duplicate_id is not None and state.duplicate_ids.remembers_any:
                if message.duplicate_id in used:
                    raise used_before(state.name, message.duplicate_id, used[message.duplicate_id])
                used[message.duplicate_id] = message.id
        if producer is not None and producer.blocked:
            raise ProducerBlocked
        welcome = self._capacity.admit(state.name, [message.size for message in messages])
        return [False] * len(messages) if state.is_deserted else welcome

    def _check(self, message: Message, now: float) -> None:
        """Raise the errors of a message that do not depend on the limits."""
        state = self._state
        if state.closed:
            raise QueueClosed
        state.placement.check(message)
        if (key := state.dispatch.ready.value_of(message)) is not None:
            check_value(state.rules.key or "", key)
        if message.duplicate_id is not None:
            user = state.duplicate_ids.user_of(message.duplicate_id, now)
            if user is not None:
                raise used_before(state.name, message.duplicate_id, user)

    def check_ids(self, messages: Sequence[Message]) -> None:
        """Raise DuplicateMessage for an id that is here, or comes twice, in a queue where ids are unique."""
        known, coming = self._contents.ids, set[str]()
        for message in () if known is None else messages:
            if message.id in coming:
                raise id_twice(message.id)
            if known is not None and message.id in known:
                raise id_taken(self._state.name, message.id)
            coming.add(message.id)

    def enter(self, message: Message, now: float) -> Entry:
        """Add a message that was admitted, or that needs no admission."""
        self._remember_id(message, now)
        return self._enter(message, now)

    def entered(self, newest: Entry) -> None:
        """Make room after calls of ``enter``; the newest entry is not evicted."""
        self._capacity.check(newest)

    def _enter(self, message: Message, now: float) -> Entry:
        state = self._state
        state.now = now
        self._due.let_values_arrive(now)
        entry = state.placement.entry(message, state.numbers.next(), now)
        self._contents.arrive(entry)
        return entry

    def _remember_id(self, message: Message, now: float) -> None:
        if message.duplicate_id is not None:
            self._state.duplicate_ids.add(message.duplicate_id, now, user=message.id)

    # For units of work.

    def reserve(self, message: Message) -> None:
        """Keep room for an admitted message; call ``enter_reserved`` or ``unreserve`` later."""
        self._capacity.reserve(message)
        self._remember_id(message, self._state.now)

    def unreserve(self, message: Message) -> None:
        """Give up the room for a reserved message."""
        self._capacity.reserve(message, -1)
        self._state.duplicate_ids.forget(message.duplicate_id)

    def enter_reserved(self, message: Message, now: float) -> None:
        """Add a reserved message, as ``publish``."""
        self._capacity.reserve(message, -1)
        entry = self._enter(message, now)
        if entry.state is not GONE:
            self._capacity.check(entry)

    # From stores, and from other queues.

    def offer(self, entry: Entry) -> None:
        """Add an entry that was here before a restart, or that a store has made."""
        state = self._state
        state.refuse_if_deleted()
        if entry.is_claimed or entry.state is GONE:
            raise IllegalMove(f"An entry that is {entry.state.name.lower()} cannot be offered.")
        state.numbers.last = max(state.numbers.last, entry.arrival)
        # The short path of a delivery ignores held entries.
        state.short = state.short and entry.state is not HELD
        self._contents.arrive(entry)

    def check_moved(self, message: Message, count: int = 1, size_bytes: int | None = None) -> None:
        """Raise a PublishError if a message of another queue may not move here, as the last of so many."""
        state = self._state
        state.refuse_if_deleted()
        self._check(message, state.now)
        is_value = self._due.takes_values_in_advance and state.dispatch.ready.value_of(message) is not None
        if is_value and message.deliver_at is not None:
            raise PublishError("A scheduled message cannot move into a last-value queue.")
        self.check_ids([message])
        evicts = state.rules.overflow is Overflow.RING and state.policy.moves_into_rings
        if not evicts and self._capacity.is_exceeded_by(count, message.size if size_bytes is None else size_bytes):
            raise QueueFull
        if state.is_deserted:
            raise PublishError("The queue keeps no messages while it has no consumer.")

    def fitting(self, messages: Sequence[Message], now: float) -> list[bool]:
        """Return for each of several messages of other queues whether it may move here.

        Refused ones are left out, and so are all from the first that exceeds the limits.
        """
        self._due.let_values_arrive(now)
        taken: dict[str, int] = {}
        fitting = [False] * len(messages)
        for at, message in enumerate(messages):
            if message.id in taken:
                continue
            try:
                self.check_moved(message, len(taken) + 1, sum(taken.values()) + message.size)
            except QueueFull:
                break
            except PublishError:
                continue
            taken[message.id] = message.size
            fitting[at] = True
        return fitting
