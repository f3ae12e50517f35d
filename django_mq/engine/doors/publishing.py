"""The producers' door."""

from typing import TYPE_CHECKING

from django_mq.engine.departing import Cause
from django_mq.engine.doors.serving import Serving
from django_mq.engine.duplicates import id_taken, id_twice, used_before
from django_mq.engine.last_value import check_value
from django_mq.engine.overflow import Overflow
from django_mq.engine.states import GONE, HELD
from django_mq.engine.telling import tell
from django_mq.errors import IllegalMove, PublishError, QueueClosed, QueueFull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message
    from django_mq.engine.overflow import Producer


class Publishing(Serving):
    """Adds messages and entries."""

    def publish(
        self, message: "Message", now: float, *, producer: "Producer | None" = None, immediate: bool = False
    ) -> "Entry":
        """Add a message, and answer its entry: scheduled or held if its time is to come, else ready.

        The entry is ``gone`` if the message was not kept: dropped because the queue is full and
        its policy says so, because nobody consumes and it needs somebody who does, or, with
        ``immediate``, because no consumer can take it at once. One that can, has it then.

        Raises QueueFull, ProducerBlocked, DuplicateMessage or QueueDeleted, and OutOfRange for a
        time that is none; nothing is added then.
        """
        self._acquire()
        try:
            if self._plain and message.duplicate_id is None and producer is None and not immediate:
                self._now = now
                self._arrivals.last = arrival = self._arrivals.last + 1
                entry = self.placement.entry(message, arrival, now)
                self._contents.arrive(entry)
                return entry
            self.admit(message, producer)
            return self._enter_checked(message, now, producer, immediate)
        finally:
            self._release()

    def admit(self, message: "Message", producer: "Producer | None" = None, *, in_limits: bool = False) -> None:
        """Raise what ``publish`` would raise; a duplicate id counts as used from here on.

        With ``in_limits``, raise a PublishError even if this queue would drop something, or take it.
        """
        with self.lock:
            self._refuse_if_deleted()
            self._check(message, self._now)
            self.check_ids([message])
            self._room.admit(message, producer)
            if in_limits:
                self._refuse_what_would_be_lost(message)
            if message.duplicate_id is not None:
                self._duplicates.add(message.duplicate_id, self._now, user=message.id)

    def _check(self, message: "Message", now: float) -> None:
        """Raise what is wrong with a message, however much room there is."""
        if self.closed:
            raise QueueClosed
        self.placement.check(message)
        if (key := self._value_of(message)) is not None:
            is_early = message.deliver_at is not None and not self.rules.values_in_advance
            check_value(self.name, self.rules.key or "", key, is_later=is_early)
        if message.duplicate_id is not None:
            user = self._duplicates.user_of(message.duplicate_id, now)
            if user is not None:
                raise used_before(self.name, message.duplicate_id, user)

    def _value_of(self, message: "Message") -> str | None:
        return self._dispatch.ready.value_of(message)

    def admit_all(self, messages: "Sequence[Message]", now: float) -> list[bool]:
        """Which of several messages that come together come in; the others are to be dropped.

        What comes in is to be ``enter``-ed, and ``entered`` to be called after the last. Raises as ``publish``
        what any of them would, but for an id that is here; nothing is changed then.
        """
        with self.lock:
            self._refuse_if_deleted()
            used: dict[str, str] = {}
            for message in messages:
                self._check(message, now)
                if message.duplicate_id is None or not self._duplicates.remembers_any:
                    continue
                if message.duplicate_id in used:
                    raise used_before(self.name, message.duplicate_id, used[message.duplicate_id])
                used[message.duplicate_id] = message.id
            welcome = self._room.admit_all(self.name, [message.size for message in messages])
            for message, is_welcome in zip(messages, welcome, strict=True):
                if not is_welcome:
                    self._forget_id(message)
            return welcome

    def check_ids(self, messages: "Sequence[Message]") -> None:
        """Raise DuplicateMessage for an id that is here, or comes twice, where an id stands once."""
        with self.lock:
            known, coming = self._contents.ids, set[str]()
            for message in () if known is None else messages:
                if message.id in coming:
                    raise id_twice(message.id)
                if known is not None and message.id in known:
                    raise id_taken(self.name, message.id)
                coming.add(message.id)

    def fitting(self, messages: "Sequence[Message]") -> list[bool]:
        """Which of several messages of other queues may come: of those not refused, all before one too many."""
        with self.lock:
            ids: set[str] = set()
            count = size = 0
            fitting = [False] * len(messages)
            makes_room = self._makes_room
            for at, message in enumerate(messages):
                if message.id in ids or not self._would_take(message):
                    continue
                count, size = count + 1, size + message.size
                if not makes_room and self._room.is_exceeded_by(count, size):
                    break
                ids.add(message.id)
                fitting[at] = True
            return fitting

    def _would_take(self, message: "Message") -> bool:
        try:
            self._check(message, self._now)
            self.check_ids([message])
        except PublishError:
            return False
        return True

    @property
    def _makes_room(self) -> bool:
        """Whether a message that is moved here drives out another where that is needed."""
        return self.rules.overflow is Overflow.RING and self.policy.moves_into_rings

    def enter(self, message: "Message", now: float) -> "Entry":
        """Add a message that was admitted, or that needs no admission."""
        with self.lock:
            if message.duplicate_id is not None:
                self._duplicates.add(message.duplicate_id, now, user=message.id)
            return self._enter(message, now)

    def entered(self, newest: "Entry") -> None:
        """Make room for those that were entered; the newest one stays."""
        with self.lock:
            self._room.check(newest)

    def _refuse_what_would_be_lost(self, message: "Message") -> None:
        if not self._makes_room and self._room.would_exceed(message):
            raise QueueFull
        if self._is_deserted:
            raise PublishError("The queue keeps nothing as long as nobody consumes from it.")

    def welcomes(self, message: "Message") -> bool:
        """As ``publish`` would begin; False if the message is to be dropped. Otherwise ``reserve`` must follow."""
        with self.lock:
            self.admit(message)
            return not self._unwelcome(message)

    def reserve(self, message: "Message") -> None:
        """Keep room for a message that was admitted; ``publish_reserved`` or ``unreserve`` must follow."""
        with self.lock:
            self._room.reserve(message)
            if message.duplicate_id is not None:
                self._duplicates.add(message.duplicate_id, self._now, user=message.id)

    def unreserve(self, message: "Message") -> None:
        """The reserved message does not come."""
        with self.lock:
            self._room.unreserve(message)
            self._forget_id(message)

    def publish_reserved(self, message: "Message", now: float) -> "Entry":
        """As ``publish``, for a reserved message."""
        with self.lock:
            self._room.unreserve(message)
            return self._enter_watched(message, now, None, immediate=False)

    def _enter(self, message: "Message", now: float) -> "Entry":
        self._now = now
        self._arrivals.last += 1
        entry = self.placement.entry(message, self._arrivals.last, now)
        self._contents.arrive(entry)
        return entry

    def _enter_checked(
        self, message: "Message", now: float, producer: "Producer | None", immediate: bool
    ) -> "Entry":
        if self._unwelcome(message):
            entry = self.placement.entry(message, 0, now)
            entry.discard()
            return entry
        return self._enter_watched(message, now, producer, immediate=immediate)

    def _enter_watched(
        self, message: "Message", now: float, producer: "Producer | None", *, immediate: bool
    ) -> "Entry":
        entry = self._enter(message, now)
        if immediate and not self._reserve(entry, now):
            self._contents.take_out(entry, Cause.MOVED)
        if entry.state is not GONE:
            self._room.check(entry, producer)
        return entry

    def _unwelcome(self, message: "Message") -> bool:
        """Whether it is to be dropped; then its duplicate id is as good as new."""
        if not self._is_deserted and self._room.admit(message):
            return False
        self._forget_id(message)
        return True

    def _forget_id(self, message: "Message") -> None:
        if message.duplicate_id is not None:
            self._duplicates.forget(message.duplicate_id)

    def _reserve(self, entry: "Entry", now: float) -> bool:
        """Claim the entry for a consumer that would be given it if it pulled now."""
        for consumer in list(self._dispatch.consumers.in_turn()):
            if self._dispatch.first_wanted(consumer, now) is not entry:
                continue
            if self._claim_for(consumer, now) is entry:
                consumer.reserved.append(entry)
                consumer.plain = False
                tell(consumer.wake, consumer)
                return True
        return False

    def offer_again(self, entry: "Entry") -> None:
        """Add an entry that stood elsewhere, as the newest arrival."""
        with self.lock:
            self._arrivals.last += 1
            entry.stand_at(entry.place, self._arrivals.last)
            self._contents.arrive(entry)

    def offer(self, entry: "Entry") -> None:
        """Add an entry made elsewhere: one that a store has claimed, or has kept over a restart.

        Its arrival number must be its own in this queue. Raises IllegalMove for one that is
        claimed or gone, and QueueDeleted.
        """
        with self.lock:
            self._refuse_if_deleted()
            if entry.is_claimed or entry.state is GONE:
                raise IllegalMove(f"An entry that is {entry.state.name.lower()} cannot be offered.")
            self._arrivals.last = max(self._arrivals.last, entry.arrival)
            # The short way of a delivery knows of no held entries.
            self._short = self._short and entry.state is not HELD
            self._contents.arrive(entry)
