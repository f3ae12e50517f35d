"""One queue of the engine: its interface to publishers, consumers, operators and stores."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.admission import Admission, Gate, LiveConsumers
from django_mq.engine.afterlife import ORIGIN_QUEUE, Afterlife
from django_mq.engine.consumer import NON_ACQUIRING, REMOVED, Consumer, tell
from django_mq.engine.contents import Contents
from django_mq.engine.duplicates import DuplicateIds, id_taken, id_twice, used_before
from django_mq.engine.entry import Entry
from django_mq.engine.last_value import check_value
from django_mq.engine.lists import EntryList, make_list
from django_mq.engine.overflow import Capacity, Overflow
from django_mq.engine.rules import IN_PROCESS, QueuePolicy, Rules
from django_mq.engine.states import (
    ACCEPTED,
    DEAD,
    DISCARDED,
    GONE,
    HELD,
    QUEUE_DELETED,
    READY,
    RETURNED,
    SCHEDULED,
    STEALABLE,
    VOID,
    Cause,
    Fate,
    State,
)
from django_mq.engine.timeline import NEVER, UNTOLD
from django_mq.engine.verdict import BY_EXPIRY, Ending, Verdict, verdict
from django_mq.engine.view import View
from django_mq.errors import (
    IllegalMove,
    OutOfRange,
    PublishError,
    QueueClosed,
    QueueDeleted,
    QueueFull,
    UnknownConsumer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.contents import Listener
    from django_mq.engine.groups import Groups
    from django_mq.engine.message import Message
    from django_mq.engine.overflow import Producer

#: Finds another queue by its name; None if there is none.
Resolve = Callable[[str], "Queue | None"]
#: The states that a purge removes: not delivered yet.
UNDELIVERED: Final = (READY, HELD, SCHEDULED)

_DEFAULT_RULES: Final = Rules()


class Arrivals:
    """The number of the last arrival, in one queue or in all that share it."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


class Queue:
    """A queue with the settings of its ``Rules``; the package's docstring says what it promises.

    ``now`` is always seconds on the clock of the messages' times. Every
    method may be called from any thread. ``entries`` replaces the list of ready entries.
    A queue shares its ``lock`` with the queues to which it sends messages, and ``resolve`` finds these by name:
    a ``Broker`` provides both.
    """

    def __init__(
        self,
        name: str = "",
        rules: Rules = _DEFAULT_RULES,
        *,
        entries: EntryList | None = None,
        lock: RLock | None = None,
        resolve: Resolve = lambda _: None,
        policy: QueuePolicy = IN_PROCESS,
        arrivals: Arrivals | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.name = name
        #: Reentrant. Queues with dead letters or targets in common share one lock.
        self.lock = RLock() if lock is None else lock
        # For the three calls that every message needs: half the time of a with statement.
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self.deleted = False
        #: Whether it refuses new messages.
        self.closed = False
        self.policy = policy
        #: Whether delivery is paused.
        self.paused = False
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._listener = listener
        #: The latest ``now`` of a call.
        self._now = UNTOLD
        if entries is None:
            entries = make_list(rules.kind, key=rules.key, levels=rules.levels)
        arrived = None if listener is None else partial(listener.arrived, name)
        self._contents = Contents(entries, self._gone, self._expired, arrived, policy)
        self._dispatch = self._contents.dispatch
        self._calendar = self._contents.calendar
        self._capacity = Capacity(self._contents)
        #: The remembered duplicate ids, which a store may keep over a restart.
        self.duplicate_ids = DuplicateIds(
            rules.duplicates, rules.duplicates_seconds, at_least=policy.remembers_at_least
        )
        #: Which consumers may subscribe, and which client owns the queue.
        self.admission = Admission(rules.exclusivity, rules.max_consumers)
        self._expired_unasked: list[Entry] = []
        #: The groups with their owners; kept after a change to rules without groups.
        self._groups: Groups | None = None
        self.statistics = self._contents.statistics
        self._resolve = resolve
        self._follow(rules)

    def _follow(self, rules: Rules) -> None:
        old, self.rules = getattr(self, "rules", None), rules
        self._plain = rules.plain and not self.deleted and not self.policy.ids_once
        list_forgets = type(self._dispatch.ready).forget is not EntryList.forget
        #: Whether a delivery and its settlement affect only the consumer and the entry.
        self._short = (
            rules.short
            and not self._contents.holding
            and not list_forgets
            and not self.policy.ids_once
            and self._listener is None
        )
        if old is None or old.groups is not rules.groups:
            self._regroup(rules)
        if old is None or old.max_live != rules.max_live:
            self._limit_live(rules.max_live)
        self.placement = rules.placement
        self._afterlife = Afterlife(self.name, rules, self._resolve)
        if old is None or (old.consumers_before, old.delay_before) != (rules.consumers_before, rules.delay_before):
            self._gate = Gate(rules.consumers_before, rules.delay_before)
        self.duplicate_ids.resize(rules.duplicates, rules.duplicates_seconds)
        self.admission.change(rules.exclusivity, rules.max_consumers, self._dispatch.consumers.all)
        self._capacity.set(rules.overflow, rules.limits, rules.resume_percent, ready_only=rules.ring_of_ready)

    def _regroup(self, rules: Rules) -> None:
        old = self._groups
        if old is None or not self.policy.owns_until_it_leaves:
            self._groups = None if rules.groups is None else rules.groups(position=self._dispatch.ready.position)
        self._dispatch.consumers.groups = None if rules.groups is None else self._groups
        if old is not None and old is not self._groups:
            self._dispatch.look_again(old.reset())

    def _limit_live(self, most: int | None) -> None:
        dispatch, lasting = self._dispatch, self.policy.owns_until_it_leaves
        if dispatch.live is not None and (lasting or most is not None):
            dispatch.live.resize(most)
            return
        dispatch.live = live = None if most is None else LiveConsumers(most, lasting=lasting)
        if live is not None and not lasting:
            for consumer in dispatch.consumers.all:
                live.add(consumer)

    @property
    def _is_deserted(self) -> bool:
        """Whether its messages need a consumer, and there is none."""
        return self.rules.purge_on_no_consumers and not self._dispatch.consumers.all

    def _refuse_if_deleted(self) -> None:
        if self.deleted:
            raise QueueDeleted

    def _gone(self, entry: Entry, cause: Cause) -> None:
        dispatch = self._dispatch
        dispatch.ready.forget(entry)
        if dispatch.groups is not None:
            dispatch.groups.gone(entry)
        if self._capacity.flow.stopped:
            self._capacity.freed()
        if self._listener is not None:
            self._listener.departed(self.name, entry, cause)

    def _expired(self, entry: Entry) -> None:
        if not self._afterlife.expired(entry, self._now):
            self._expired_unasked.append(entry)

    def _promote(self, now: float, most: int | None = None) -> list[Entry]:
        due = self._contents.promote(now, most)
        self._calendar.look_again()
        if not self._plain:
            for _ in due:  # only the latest may not be evicted
                self._capacity.look_again(due[-1])
        return due

    def _look_at_gate(self) -> None:
        self._gate.look(len(self._dispatch.consumers.all), self._contents.claimed, self._now)
        self._halt_or_go()

    def _halt_or_go(self) -> None:
        """Deliver unless the queue is paused or waits for consumers."""
        if self.paused or not self._gate.is_open:
            self._dispatch.halted = True
        elif self._dispatch.halted:
            self._dispatch.resume()

    # Publishing.

    def publish(
        self, message: Message, now: float, *, producer: Producer | None = None, immediate: bool = False
    ) -> Entry:
        """Add a message and return its entry: scheduled or held if its time is to come, else ready.

        The entry is ``gone`` if the message was not kept: dropped because the queue is full, or has no
        consumer and its rules require one, or, with ``immediate``, because no consumer can take it at once.

        Raises QueueFull, ProducerBlocked, DuplicateMessage or QueueDeleted, and OutOfRange for a
        time that is NaN or infinite; nothing is added then.
        """
        self._acquire()
        try:
            if self._plain and message.duplicate_id is None and producer is None and not immediate:
                self._now = now
                self._arrivals.last = arrival = self._arrivals.last + 1
                entry = self.placement.entry(message, arrival, now)
                self._contents.arrive(entry)
                return entry
            if self.welcomes(message, producer):
                return self._enter_watched(message, now, producer, immediate=immediate)
            entry = self.placement.entry(message, 0, now)
            entry.discard()
            return entry
        finally:
            self._release()

    def admit(self, message: Message, producer: Producer | None = None, *, in_limits: bool = False) -> None:
        """Raise the errors of ``publish``; a duplicate id counts as used from here on.

        With ``in_limits``, raise a PublishError even if this queue would drop a message, or exceed its limits.
        """
        with self.lock:
            self._refuse_if_deleted()
            self._check(message, self._now)
            self.check_ids([message])
            self._capacity.admit(message, producer)
            if in_limits and not self._rings_on_move and self._capacity.would_exceed(message):
                raise QueueFull
            if in_limits and self._is_deserted:
                raise PublishError("The queue keeps no messages while it has no consumer.")
            self._remember_id(message, self._now)

    def _check(self, message: Message, now: float) -> None:
        """Raise the errors of a message that do not depend on the limits."""
        if self.closed:
            raise QueueClosed
        self.placement.check(message)
        if (key := self._dispatch.ready.value_of(message)) is not None:
            is_early = message.deliver_at is not None and not self.rules.values_in_advance
            check_value(self.name, self.rules.key or "", key, is_later=is_early)
        if message.duplicate_id is not None:
            user = self.duplicate_ids.user_of(message.duplicate_id, now)
            if user is not None:
                raise used_before(self.name, message.duplicate_id, user)

    def _remember_id(self, message: Message, now: float) -> None:
        if message.duplicate_id is not None:
            self.duplicate_ids.add(message.duplicate_id, now, user=message.id)

    def _forget_id(self, message: Message) -> None:
        if message.duplicate_id is not None:
            self.duplicate_ids.forget(message.duplicate_id)

    def admit_all(self, messages: Sequence[Message], now: float) -> list[bool]:
        """Return for each of several new messages whether the queue takes it; the others are to be dropped.

        Call ``enter`` for each of the former, and ``entered`` after the last. Raises the errors of ``publish``
        for any of them, but not for an id that is here; nothing is changed then.
        """
        with self.lock:
            self._refuse_if_deleted()
            used: dict[str, str] = {}
            for message in messages:
                self._check(message, now)
                if message.duplicate_id is None or not self.duplicate_ids.remembers_any:
                    continue
                if message.duplicate_id in used:
                    raise used_before(self.name, message.duplicate_id, used[message.duplicate_id])
                used[message.duplicate_id] = message.id
            welcome = self._capacity.admit_all(self.name, [message.size for message in messages])
            for message, is_welcome in zip(messages, welcome, strict=True):
                if not is_welcome:
                    self._forget_id(message)
            return welcome

    def check_ids(self, messages: Sequence[Message]) -> None:
        """Raise DuplicateMessage for an id that is here, or comes twice, in a queue where ids are unique."""
        with self.lock:
            known, coming = self._contents.ids, set[str]()
            for message in () if known is None else messages:
                if message.id in coming:
                    raise id_twice(message.id)
                if known is not None and message.id in known:
                    raise id_taken(self.name, message.id)
                coming.add(message.id)

    def fitting(self, messages: Sequence[Message]) -> list[bool]:
        """Return for each of several messages of other queues whether it may move here.

        Refused ones are left out, and so are all from the first that exceeds the limits.
        """
        with self.lock:
            ids: set[str] = set()
            count = size = 0
            fitting = [False] * len(messages)
            for at, message in enumerate(messages):
                if message.id in ids or not self._would_take(message):
                    continue
                count, size = count + 1, size + message.size
                if not self._rings_on_move and self._capacity.is_exceeded_by(count, size):
                    break
                ids.add(message.id)
                fitting[at] = True
            return fitting

    def _would_take(self, message: Message) -> bool:
        try:
            self._check(message, self._now)
            self.check_ids([message])
        except PublishError:
            return False
        return True

    @property
    def _rings_on_move(self) -> bool:
        """Whether a message moved into this full queue evicts another one."""
        return self.rules.overflow is Overflow.RING and self.policy.moves_into_rings

    def enter(self, message: Message, now: float) -> Entry:
        """Add a message that was admitted, or that needs no admission."""
        with self.lock:
            self._remember_id(message, now)
            return self._enter(message, now)

    def entered(self, newest: Entry) -> None:
        """Make room after calls of ``enter``; the newest entry is not evicted."""
        with self.lock:
            self._capacity.check(newest)

    def welcomes(self, message: Message, producer: Producer | None = None) -> bool:
        """Check a message as ``publish`` does; False if it is to be dropped, and its duplicate id forgotten."""
        with self.lock:
            self.admit(message, producer)
            if not self._is_deserted and self._capacity.admit(message):
                return True
            self._forget_id(message)
            return False

    def reserve(self, message: Message) -> None:
        """Keep room for an admitted message; call ``publish_reserved`` or ``unreserve`` later."""
        with self.lock:
            self._capacity.reserve(message)
            self._remember_id(message, self._now)

    def unreserve(self, message: Message) -> None:
        """Give up the room for a reserved message."""
        with self.lock:
            self._capacity.unreserve(message)
            self._forget_id(message)

    def publish_reserved(self, message: Message, now: float) -> Entry:
        """Add a reserved message, as ``publish``."""
        with self.lock:
            self._capacity.unreserve(message)
            return self._enter_watched(message, now)

    def _enter(self, message: Message, now: float) -> Entry:
        self._now = now
        self._arrivals.last += 1
        entry = self.placement.entry(message, self._arrivals.last, now)
        self._contents.arrive(entry)
        return entry

    def _enter_watched(
        self, message: Message, now: float, producer: Producer | None = None, *, immediate: bool = False
    ) -> Entry:
        entry = self._enter(message, now)
        if immediate and not self._reserve(entry, now):
            self._contents.take_out(entry, Cause.MOVED)
        if entry.state is not GONE:
            self._capacity.check(entry, producer)
        return entry

    def _reserve(self, entry: Entry, now: float) -> bool:
        """Claim the entry for a consumer that would get it if it pulled now; False if there is none."""
        for consumer in list(self._dispatch.consumers.in_turn()):
            if self._dispatch.first_wanted(consumer, now) is not entry:
                continue
            if self._claim_for(consumer, now) is entry:
                consumer.reserved.append(entry)
                consumer.plain = False
                tell(consumer.wake, consumer)
                return True
        return False

    def offer_again(self, entry: Entry) -> None:
        """Add an entry that stood elsewhere, as the newest arrival."""
        with self.lock:
            self._arrivals.last += 1
            entry.stand_at(entry.place, self._arrivals.last)
            self._contents.arrive(entry)

    def offer(self, entry: Entry) -> None:
        """Add an entry that a store has claimed, or has kept over a restart.

        Its arrival number must be unique in this queue. Raises IllegalMove for one that is
        claimed or gone, and QueueDeleted.
        """
        with self.lock:
            self._refuse_if_deleted()
            if entry.is_claimed or entry.state is GONE:
                raise IllegalMove(f"An entry that is {entry.state.name.lower()} cannot be offered.")
            self._arrivals.last = max(self._arrivals.last, entry.arrival)
            # The short path of a delivery ignores held entries.
            self._short = self._short and entry.state is not HELD
            self._contents.arrive(entry)

    # Consumers, and the end of the queue.

    def add_consumer(self, consumer: Consumer) -> bool:
        """Subscribe a consumer; False if it is subscribed already.

        Raises ExclusiveConsumerExists, ConsumersExist, AccessRefused or TooManyConsumers if the
        queue does not admit it, QueueDeleted, and IllegalMove if it still holds entries.
        """
        with self.lock:
            self._refuse_if_deleted()
            if consumer.interest is not REMOVED:
                return False
            if consumer.unsettled:
                raise IllegalMove("The consumer still holds entries of the queue it has left; settle them first.")
            self.admission.admit(consumer, self._dispatch.consumers.all)
            consumer.queue = self
            consumer.browser = consumer.browser or self.rules.nondestructive
            self._dispatch.subscribe(consumer)
            if not self.policy.owns_until_it_leaves:
                self.take_slot(consumer)
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.joined(consumer))
            self._look_at_gate()
            self._dispatch.refresh(consumer)
            return True

    def take_slot(self, consumer: Consumer) -> bool:
        """Give the consumer a slot, or let it stand by for one; return whether it may receive.

        Without ``max_live`` every consumer may.
        """
        with self.lock:
            live = self._dispatch.live
            return live is None or self.rules.max_live is None or live.add(consumer)

    def remove_consumer(
        self, consumer: Consumer, *, give_back: bool = True, failed: bool = False, now: float | None = None
    ) -> list[Entry]:
        """Unsubscribe a consumer; release its entries, and return them in order of delivery.

        If it has ``failed``, every attempt counts: the last one allowed makes a dead letter, and
        no other is followed by a delay. Without ``give_back`` it keeps its entries, and may still
        settle them; it always keeps those of open units of work.
        """
        with self.lock:
            self._now = self._now if now is None else now
            if consumer.queue is not self:
                return []
            # First, so that its returned entries are not for itself again.
            was_here = self._forget(consumer)
            released = self._take_back(consumer, failed=failed) if give_back else self._take_reserved(consumer)
            if consumer.unsettled and not consumer.browser:
                self._contents.departed[consumer] = None
            self._dispatch.hand_over()
            if was_here:
                self._left_alone(consumer)
            return released

    def lose_consumer(self, consumer: Consumer, now: float) -> list[tuple[Entry, Fate]]:
        """Unsubscribe the consumer of a dead session; return each entry that it held, with its fate.

        Each entry returns to its place, uncounted, as a suspect: it may be the cause of the death. A suspect
        has failed, because it was delivered alone: after the last attempt allowed it is a dead letter,
        which stays here until ``send_on``.
        """
        with self.lock:
            self._now = now
            own = [entry for entry in consumer.unsettled if entry.owner is consumer]
            held = [(entry, self._lose(entry, consumer)) for entry in own]
            self.remove_consumer(consumer, now=now)
            return held

    def _lose(self, entry: Entry, consumer: Consumer) -> Fate:
        entry.redelivered = True
        move = Entry.fail if entry.suspect else Entry.release
        decision = verdict(Ending.FAILED, entry.attempts, self.rules, 0.0)
        if entry.suspect and not entry.replaced and decision.verdict is Verdict.DEAD:
            return self._bury(entry, consumer, None, "worker lost", stays=True)
        entry.suspect = True
        return self._settle(entry, consumer, None, move)

    def _take_reserved(self, consumer: Consumer) -> list[Entry]:
        """Release the entries that ``deliver`` has not returned yet."""
        reserved = list(consumer.reserved)
        consumer.reserved.clear()
        return [entry for entry in reserved if self._settle(entry, consumer, None, Entry.release)]

    def _forget(self, consumer: Consumer) -> bool:
        dispatch = self._dispatch
        if not dispatch.consumers.remove(consumer):
            return False
        consumer.view, consumer.plain = None, False
        self._contents.holding.gone(consumer)
        self.admission.left(consumer, dispatch.consumers.all)
        if dispatch.live is not None:
            promoted = dispatch.live.remove(consumer)
            if promoted is not None:
                dispatch.refresh(promoted)
        if self._groups is not None:
            self._dispatch.look_again(self._groups.left(consumer))
        self._look_at_gate()
        return True

    def _take_back(self, consumer: Consumer, *, failed: bool) -> list[Entry]:
        consumer.reserved.clear()
        settle = self._fail if failed else self.release
        unsettled = [entry for entry in consumer.unsettled if entry not in consumer.settling]
        return [entry for entry in unsettled if settle(entry, consumer)]

    def _left_alone(self, consumer: Consumer) -> None:
        """Purge or delete the queue after its last consumer has left, if its rules say so."""
        if consumer.transient or self._dispatch.consumers.all:
            return
        if self.rules.purge_on_no_consumers:
            for entry in list(self._contents.waiting()):
                self._contents.take_out(entry, Cause.KILLED)
        if self.rules.auto_delete:
            self.delete(self._now)

    def delete(self, now: float) -> None:
        """Close the queue for ever: close its consumers, and make dead letters of entries that no consumer holds.

        Entries that consumers hold follow when they are returned.
        """
        with self.lock:
            if self.deleted:
                return
            self.deleted, self._plain, self._now = True, False, now
            for consumer in list(self._dispatch.consumers.all):
                self.remove_consumer(consumer, give_back=False)
                tell(consumer.closed, consumer)
            leaving = [*self._contents.stealable(), *self._contents.waiting()]
            for entry in sorted(leaving, key=attrgetter("arrival")):
                self._expel(entry)
            self._capacity.flow.resume()
            if self._listener is not None:
                self._listener.deleted(self.name)

    # Deliveries.

    def refresh(self, consumer: Consumer) -> None:
        """Update a consumer after its credit was resized or stopped, or its ``paused`` was changed."""
        with self.lock:
            self._dispatch.refresh(consumer)

    def wanted(self, most: int) -> int:
        """Return how many more entries a store should claim for these consumers, at most ``most``.

        It is their free credit less the ready entries here. With unlimited credit,
        ``most`` entries should be ready.
        """
        with self.lock:
            return self._dispatch.wanted(most)

    def deliver(self, consumer: Consumer, now: float) -> Entry | None:
        """Claim the first entry for a consumer; None if there is none that it may have now.

        A browser is only shown the entry. Raises UnknownConsumer for a consumer of another queue.
        """
        self._acquire()
        try:
            if self._short and consumer.plain and consumer.queue is self:
                self._now = now
                if now >= self._calendar.quiet_until:
                    self._promote(now)
                entry = self._dispatch.claim_head(consumer, now)
                if entry is not None:
                    self._contents.claimed += 1
                    if entry.expires_at is not None:
                        self._calendar.expiring.remove(entry)
                return entry
            if consumer.queue is not self:
                self._refuse_stranger(consumer)
                return None
            if consumer.reserved:
                return self._handed(consumer, consumer.reserved.pop(0))
            self._tell_time(now)
            if self._contents.holding:
                self._contents.unhold(self._contents.holding.seen_by(consumer, now))
            entry = self._claim_for(consumer, now)
            if self.rules.hold and consumer.interest is not REMOVED:
                self._contents.holding.looked(consumer, entry)
            if entry is None and consumer.auto_close:
                self._close_at_end(consumer, now)
            return self._handed(consumer, entry)
        finally:
            self._release()

    def first_for(self, consumer: Consumer, now: float) -> Entry | None:
        """Return the first entry for this consumer, even without the credit for it; nothing is claimed."""
        with self.lock:
            self._tell_time(now)
            return self._dispatch.first_wanted(consumer, now)

    def found_nothing(self, consumer: Consumer) -> None:
        """Note that a store has found nothing for the consumer: the next arrival may wake it again."""
        with self.lock:
            self._dispatch.stop_pulling(consumer)

    def take(self, entry: Entry, consumer: Consumer) -> None:
        """Claim this ready entry for a consumer, even without the credit for it.

        For stores with rules beyond the consumers of one queue. Raises IllegalMove.
        """
        with self.lock:
            self._dispatch.take(consumer, entry)
            self.take_slot(consumer)
            self._claimed(consumer, entry)
            self._spent(consumer)
            self._handed(consumer, entry)

    def take_again(self, entry: Entry, consumer: Consumer, claim_number: int, *, attempts: int) -> None:
        """Let a consumer hold an entry again that was taken from it, under its former claim number.

        The caller knows that the entry has not changed since. ``attempts`` are those before this delivery.
        The consumer gets neither a slot nor the entry's group.
        """
        with self.lock:
            self._contents.lift(entry)
            entry.attempts, entry.claim_number = attempts, claim_number - 1
            self._dispatch.hold(consumer, entry)
            self._claimed(consumer, entry)

    def _refuse_stranger(self, consumer: Consumer) -> None:
        if consumer.interest is not REMOVED:
            raise UnknownConsumer

    def _tell_time(self, now: float) -> None:
        self._now = now
        if now >= self._calendar.quiet_until:
            self._promote(now)
        if not self._gate.is_open:
            self._look_at_gate()

    def _claim_for(self, consumer: Consumer, now: float) -> Entry | None:
        entry = self._dispatch.claim_for(consumer, now)
        if consumer.browser:
            self._note_look(consumer, entry, now)
        elif entry is not None:
            self._claimed(consumer, entry)
        if entry is not None:
            self._spent(consumer)
        return entry

    def _spent(self, consumer: Consumer) -> None:
        """Update the target of a consumer that has used credit."""
        if consumer.target is not None:
            consumer.target.credit_changed(consumer)

    def _note_look(self, browser: Consumer, entry: Entry | None, now: float) -> None:
        if browser.view is None or self._dispatch.halted:
            return
        at_the_end = entry is None and self._dispatch.first_wanted(browser, now) is None
        browser.view.looked(self._arrivals.last, to_the_end=at_the_end)

    def _claimed(self, consumer: Consumer, entry: Entry) -> None:
        self._contents.claimed_by(consumer, entry)
        if self._dispatch.groups is not None:
            self._dispatch.look_again(self._dispatch.groups.delivered(consumer, entry))

    def _handed(self, consumer: Consumer, entry: Entry | None) -> Entry | None:
        if entry is not None and consumer.auto_accept and not consumer.browser:
            self._settle(entry, consumer, None, Entry.accept)
        return entry

    def _close_at_end(self, consumer: Consumer, now: float) -> None:
        """Close a consumer that has seen everything, but not one that is only out of credit."""
        if consumer.interest is REMOVED or self._dispatch.halted or not consumer.desires_work:
            return
        if self._dispatch.first_wanted(consumer, now) is None:
            self.remove_consumer(consumer, give_back=False)
            tell(consumer.closed, consumer)

    def deliver_next(self, now: float) -> tuple[Consumer, Entry] | None:
        """Claim the first entry for the next consumer in turn; None if no consumer may have one."""
        with self.lock:
            self._tell_time(now)
            for consumer in list(self._dispatch.consumers.all):
                if consumer.reserved or consumer.interest is NON_ACQUIRING:
                    entry = self.deliver(consumer, now)
                    if entry is not None:
                        return consumer, entry
            return self._deliver_in_turn(now)

    def _deliver_in_turn(self, now: float) -> tuple[Consumer, Entry] | None:
        consumer = self._dispatch.next_in_turn(now)
        entry = None if consumer is None else self._claim_for(consumer, now)
        if consumer is None or entry is None:
            return None
        if not self._dispatch.is_bound(entry):
            self._dispatch.consumers.served(consumer)
        self._handed(consumer, entry)
        return consumer, entry

    # Settlements. Each returns the fate of the entry. If the consumer holds the entry no longer, the settlement is
    # void and only returns the credit; a second settlement does not even do that. ``claim_number``, as read at
    # delivery, distinguishes two deliveries to one consumer.

    def accept(self, entry: Entry, consumer: Consumer, claim_number: int | None = None) -> Fate:
        """Accept the entry: it is gone."""
        self._acquire()
        try:
            # The path of nearly every message: a plain consumer that is still subscribed.
            if (
                self._short
                and consumer.plain
                and entry.owner is consumer
                and (claim_number is None or claim_number == entry.claim_number)
                and consumer.queue is self
            ):
                self._contents.accepted(entry, consumer)
                return ACCEPTED
            return self._settle(entry, consumer, claim_number, Entry.accept)
        finally:
            self._release()

    def release(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None = None,
        *,
        retry_at: float | None = None,
        counted: bool = False,
        delivered: bool = True,
    ) -> Fate:
        """Return the entry to its place at once, or at ``retry_at``; the attempt counts only if ``counted``.

        With ``delivered`` false, the message has not reached the consumer: its next claim is no redelivery.
        Raises OutOfRange if ``retry_at`` is no number.
        """
        _check_time(retry_at)
        with self.lock:
            move = Entry.fail if counted else partial(Entry.release, delivered=delivered)
            return self._settle(entry, consumer, claim_number, partial(move, due_at=retry_at))

    def decline(self, entry: Entry, consumer: Consumer, claim_number: int | None = None) -> Fate:
        """Return the entry to its place for the other consumers; this one is not offered it again."""
        with self.lock:
            if entry.owner is consumer and consumer.queue is self:
                # Before it gets its credit back, or it would be woken for this entry.
                self._dispatch.give_position(consumer)
            return self._settle(entry, consumer, claim_number, Entry.decline)

    def fail(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None = None,
        *,
        retry_at: float | None = None,
        now: float | None = None,
    ) -> Fate:
        """Return the entry to its place now, at ``retry_at``, or after the queue's backoff; the attempt counts.

        The last attempt that the queue allows makes it dead, as ``reject``. Raises OutOfRange if
        ``retry_at`` is no number.
        """
        _check_time(retry_at)
        with self.lock:
            self._now = self._now if now is None else now
            return self._fail(entry, consumer, claim_number, retry_at, None if retry_at is None else 0.0)

    def _fail(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None = None,
        retry_at: float | None = None,
        delay_seconds: float | None = 0.0,
    ) -> Fate:
        decision = verdict(Ending.FAILED, entry.attempts, self.rules, delay_seconds)
        if decision.verdict is Verdict.DEAD:
            return self._bury(entry, consumer, claim_number, "max attempts")
        if decision.delay_seconds > 0:
            retry_at = self._now + decision.delay_seconds
        return self._settle(entry, consumer, claim_number, partial(Entry.fail, due_at=retry_at))

    def reject(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None = None,
        *,
        now: float | None = None,
        counted: bool = True,
        reason: str = "rejected",
        stays: bool = False,
    ) -> Fate:
        """Send the entry to the dead-letter queue, or keep it as dead until it is redriven or removed.

        With ``stays`` it is always kept, until ``send_on`` is called.
        """
        with self.lock:
            self._now = self._now if now is None else now
            return self._bury(entry, consumer, claim_number, reason, counted=counted, stays=stays)

    def report_expired(
        self, entry: Entry, consumer: Consumer, claim_number: int | None = None, *, now: float
    ) -> Fate:
        """Send a claimed message that has expired to the expiry queue, or drop it; the attempt does not count."""
        with self.lock:
            self._now = now
            held = consumer.queue is self and entry.owner is consumer and entry in consumer.unsettled
            if not held or claim_number not in (None, consumer.unsettled[entry]):
                return VOID
            entry.attempts -= 1
            cause = Cause.REPLACED if entry.replaced else Cause.EXPIRED
            if not entry.replaced:
                self._expired(entry)
            return self._settle(entry, consumer, claim_number, Entry.accept, cause)

    def begin_settle(self, entry: Entry, consumer: Consumer) -> bool:
        """Prevent that the entry is taken back from now on; False if the consumer does not hold it any more."""
        with self.lock:
            if consumer.queue is not self or entry not in consumer.unsettled or not entry.lock(consumer):
                return False
            self._calendar.expiring.remove(entry)  # it may expire when it is given back
            return True

    def _settle(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None,
        move: Callable[[Entry, Consumer], bool],
        cause: Cause = Cause.ACCEPTED,
    ) -> Fate:
        if consumer.queue is not self or not consumer.settle(entry, claim_number):
            return VOID
        if entry.state is STEALABLE:
            entry.lock(consumer)
        contents = self._contents
        if not move(entry, consumer):
            contents.credited(consumer)
            fate = VOID
        else:
            contents.settled(entry, consumer, cause)
            fate = ACCEPTED if move is Entry.accept else self._returned(entry)
        if contents.departed and not consumer.unsettled:
            contents.departed.pop(consumer, None)
        if not self._gate.is_open:  # a closed gate waits until no entry is claimed
            self._look_at_gate()
        return fate

    def _returned(self, entry: Entry) -> Fate:
        if self.deleted and entry.state is not GONE and entry.state is not DEAD:
            return self._expel(entry)
        if self._is_deserted and (entry.state is READY or entry.state is SCHEDULED):
            self._contents.take_out(entry, Cause.KILLED)
        elif entry.state is READY and not self._plain:
            self._capacity.look_again(None)
        return DISCARDED if entry.state is GONE else RETURNED

    def _expel(self, entry: Entry) -> Fate:
        """Send an entry of a deleted queue to the dead-letter queue."""
        fate = self._afterlife.dead(entry, self._now, QUEUE_DELETED)
        self._contents.take_back(entry, Cause.KILLED)
        return DISCARDED if fate is Fate.DEAD else fate

    def _bury(
        self,
        entry: Entry,
        consumer: Consumer,
        claim_number: int | None,
        cause: str,
        *,
        counted: bool = True,
        stays: bool = False,
    ) -> Fate:
        if not self._settle(entry, consumer, claim_number, Entry.reject):
            return VOID
        entry.attempts -= not counted
        entry.suspect = entry.replaced = False
        if stays:
            entry.cause, entry.died_at = cause, self._now
            return Fate.DEAD
        fate = self._afterlife.dead(entry, self._now, cause)
        if fate is Fate.DEAD and not self.deleted:
            return fate
        self._contents.take_out(entry, Cause.KILLED)
        return DISCARDED if fate is Fate.DEAD else fate

    # For operators.

    def pause(self) -> None:
        """Deliver nothing; everything else goes on."""
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        with self.lock:
            self.paused = paused
            self._halt_or_go()

    def deliver_now(self, entry: Entry) -> bool:
        """Make a scheduled entry ready before its time, in its place; False if it is not scheduled here."""
        with self.lock:
            return self._contents.deliver_now(entry) and self._make_room(entry)

    def redrive(self, entry: Entry) -> bool:
        """Make a dead entry ready again, in its place, without its attempts."""
        with self.lock:
            if entry.state is DEAD and self.policy.redrives_for_ever:
                entry.expires_at = None
            return self._contents.redrive(entry) and self._make_room(entry)

    def _make_room(self, entry: Entry) -> bool:
        if not self._plain:
            self._capacity.look_again(entry)
        return True

    def remove(self, entry: Entry, cause: Cause = Cause.KILLED) -> bool:
        """Remove an entry in any state; False if it was not here.

        A consumer that holds it gets its credit back, and its settlement will be void.
        """
        with self.lock:
            return self._contents.take_out(entry, cause)

    def reschedule(self, entry: Entry, due_at: float, now: float) -> bool:
        """Deliver a ready or scheduled entry at another time, in the place of messages due then.

        False, and nothing happens, if the entry is in another state, or a value of a last-value queue.
        """
        with self.lock:
            waits = entry.state is READY or entry.state is SCHEDULED
            if not waits or self._dispatch.ready.value_of(entry.message) is not None:
                return False
            self._contents.lift(entry)
            entry.stand_at(self.placement.place_at(due_at), entry.arrival)
            if due_at > now:
                entry.state, entry.due_at = SCHEDULED, due_at
            self._contents.place(entry)
            return True

    def discard(self, entry: Entry, cause: Cause = Cause.KILLED) -> bool:
        """Remove an entry; False if a consumer holds it: then it is removed when it is returned."""
        with self.lock:
            return self._contents.steal(entry, cause) or self._contents.take_free(entry, cause)

    def cancel(self, entry: Entry) -> bool:
        """Remove a scheduled entry as if it had been accepted; False if it is not scheduled here."""
        with self.lock:
            return entry.state is SCHEDULED and self._contents.take_out(entry, Cause.ACCEPTED)

    def purge(self, states: Collection[State] = UNDELIVERED) -> list[Entry]:
        """Remove and return all entries in these states; claimed ones stay with their consumers."""
        with self.lock:
            return self._contents.take_all(states, Cause.PURGED)

    def trim(self) -> int:
        """Evict from a ring that is too full, as an arrival does, but not the newest; return how many."""
        with self.lock:
            before = self.statistics.replaced
            if self.rules.overflow is Overflow.RING:
                self._capacity.check(max(self.everything(), key=attrgetter("arrival"), default=None))
            return self.statistics.replaced - before

    def clear(self) -> int:
        """Remove all entries, claimed ones when they are returned; return how many were removed at once."""
        with self.lock:
            entries = [*self._contents.held(), *self._contents.waiting()]
            return sum([self.discard(entry) for entry in entries])

    def move(self, entry: Entry, target: Queue, now: float, *, more: bool = False) -> bool:
        """Move an entry that no consumer holds; False if it cannot be taken.

        It arrives as a new one, with its schedule and its expiry. Raises IllegalMove if the target
        is this queue, QueueFull if it would exceed the target's limits, even if publishers may exceed them, and
        the errors of ``publish`` for the target; nothing is moved then. With ``more``
        others follow: call ``entered`` after the last.
        """
        if target is self:
            raise IllegalMove("A message cannot be moved to the queue it is in.")
        with self._both(target):
            if entry.state not in UNDELIVERED and entry.state is not DEAD:
                return False
            message = self.travelling(entry)
            target.admit(message, in_limits=True)
            again = target.placement.entry_again(entry, message)
            if not self._contents.take_out(entry, Cause.MOVED):
                return False
            if not self.policy.keeps_end:
                target.publish(message, now)
                return True
            target.offer_again(again)
            if not more:
                target.entered(again)
            return True

    def station(self, *, expired: bool) -> Queue | None:
        """Return the queue that expired messages, or dead letters, go to; None if there is none."""
        return self._afterlife.station(expired=expired)

    def send_on(self, entry: Entry, station: Queue, now: float, *, expired: bool) -> Entry | None:
        """Send an expired or dead entry to ``station``, which has room for it; return the entry there.

        None if the entry is gone meanwhile, or would be expired on arrival. Call ``entered`` after the last one.
        """
        with self._both(station):
            if expired:
                entry.cause, entry.died_at = BY_EXPIRY, now
            message = None if entry.state is GONE else self._afterlife.leaving(entry, station, now)
            if message is None:
                return None
            arrived = station.enter(message, now)
            arrived.cause = entry.cause
            self._contents.take_back(entry, Cause.EXPIRED if expired else Cause.KILLED)
            return arrived

    def _both(self, target: Queue) -> ExitStack:
        """Return the locks of both queues, always in one order, so that opposite moves do not deadlock."""
        both = ExitStack()
        for lock in sorted((self.lock, target.lock), key=id):
            both.enter_context(lock)
        return both

    def travelling(self, entry: Entry) -> Message:
        """Return the message of an entry as it is moved: with its schedule, if that is not over."""
        due_at = entry.due_at if entry.state is SCHEDULED or entry.state is HELD else None
        return replace(entry.message, deliver_at=due_at, duplicate_id=None)

    def change_priority(
        self, entry: Entry, priority: int, now: float, *, new_id: str | None = None
    ) -> Entry | None:
        """Replace a ready or scheduled entry by a copy of another priority, last in its level.

        The copy keeps the attempts, unless it gets an id of its own. None, and nothing
        happens, if the entry is in another state or has this priority already. Raises OutOfRange unless
        the priority is a whole number in 0..9.
        """
        if not isinstance(priority, int) or not 0 <= priority <= 9:
            raise OutOfRange(f"A priority lies in 0..9, not {priority!r}.")
        with self.lock:
            waits = entry.state is READY or (self.policy.reprioritises_scheduled and entry.state is SCHEDULED)
            if not waits or entry.message.priority == priority:
                return None
            message = replace(self.travelling(entry), priority=priority, id=new_id or entry.message.id)
            copy = self.placement.entry_again(entry, message)
            if entry.state is SCHEDULED:  # its place may be that of its first attempt
                copy.stand_at(entry.place, copy.arrival)
            if not self._contents.take_out(entry, Cause.MOVED):
                return None
            if new_id is None:
                copy.attempts, copy.suspect, copy.cause = entry.attempts, entry.suspect, entry.cause
            else:
                copy.redelivered = False
            self._now = now
            self.offer_again(copy)
            return copy

    def retry(self, now: float) -> int:
        """Send the dead letters and expired messages of other queues back to those; return how many.

        A message that its queue refuses stays here.
        """
        with self.lock:
            return sum([self._go_back(entry, now) for entry in list(self._contents.waiting())])

    def _go_back(self, entry: Entry, now: float) -> bool:
        name = entry.message.headers.get(ORIGIN_QUEUE)
        origin = self._resolve(name) if isinstance(name, str) else None
        try:
            return origin is not None and origin is not self and self.move(entry, origin, now)
        except PublishError:
            return False

    def close_group(self, group: str) -> None:
        """Let another consumer own a group."""
        with self.lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.close(group))

    def reset_groups(self) -> None:
        with self.lock:
            if self._dispatch.groups is not None:
                self._dispatch.look_again(self._dispatch.groups.reset())

    def change(self, rules: Rules) -> None:
        """Use other rules from now on. Raises IllegalMove for another kind of list."""
        if (rules.kind, rules.key) != (self.rules.kind, self.rules.key):
            raise IllegalMove("A queue keeps its kind and key for life; make another queue and move the messages.")
        with self.lock:
            self._follow(rules)
            for consumer in list(self._dispatch.consumers.all):
                self._dispatch.give_position_if_needed(consumer)
                self._dispatch.refresh(consumer)
            self._look_at_gate()

    # Time. ``deliver`` delivers due entries without these calls.

    def promote(self, now: float, most: int | None = None) -> list[Entry]:
        """Make the due entries ready, the earliest ``most`` at most; return them in the order they became due."""
        with self.lock:
            self._now = now
            return self._promote(now, most)

    def expire(self, now: float, most: int | None = None) -> list[Entry]:
        """Remove the expired ready entries, ``most`` at most; return all that were removed since the last call.

        This includes those that ``deliver`` has removed, but not those that
        went to an expiry queue.
        """
        with self.lock:
            self._now = now
            self._contents.expire(now, most)
            expired, self._expired_unasked = self._expired_unasked, []
            return expired

    def overdue(self, now: float, most: int) -> list[Entry]:
        """Return the expired entries in line, ``most`` at most; they stay until they are sent on or removed."""
        with self.lock:
            self._now = now
            return self._calendar.expiring.until(now, most)

    def unhold(self, now: float) -> list[Entry]:
        """Make every overdue held entry ready; return these."""
        with self.lock:
            overdue = self._contents.holding.overdue(now)
            self._contents.unhold(overdue)
            return overdue

    def keep_house(self, now: float) -> None:
        """Promote, unhold and expire."""
        with self.lock:
            self._tell_time(now)
            self.promote(now)
            self.unhold(now)
            self.expire(now)  # discards the result, which would otherwise grow for ever

    def next_due(self) -> float | None:
        """Return when the next scheduled entry becomes due; None if none is scheduled."""
        with self.lock:
            due_at = self._calendar.schedule.next_time()
            return None if due_at == NEVER else due_at

    def next_time(self) -> float | None:
        """Return when to call ``keep_house`` next; None if nothing will become due or expire."""
        with self.lock:
            opens_at = NEVER if self._gate.opens_at is None else self._gate.opens_at
            times = (self._calendar.next_time(), self._contents.holding.next_time(), opens_at)
            return None if min(times) == NEVER else min(times)

    # Reading; only ``reset_statistics`` changes anything.

    def browse(self) -> Iterator[Entry]:
        """Yield the ready entries in order; takes none, and the queue may change meanwhile."""
        view = View(self._dispatch.ready)
        while True:
            with self.lock:
                entry = view.next_in(self._dispatch.ready)
            if entry is None:
                return
            view.saw(entry)
            yield entry

    def entries(self) -> list[Entry]:
        """Return all entries, in any state, in the order of the queue."""
        with self.lock:
            return sorted(self.everything(), key=self._dispatch.ready.position)

    def everything(self) -> list[Entry]:
        """Return all entries, in any state, in no order."""
        with self.lock:
            return [*self._contents.waiting(), *self._contents.held()]

    def find(self, message_id: str) -> Entry | None:
        """Return the entry of the message with this id; None if it is not here, or ids are not unique here."""
        with self.lock:
            return None if self._contents.ids is None else self._contents.ids.get(message_id)

    def position(self, entry: Entry) -> Any:
        """Return the sort key of an entry, which need not be here any more."""
        return self._dispatch.ready.position(entry)

    def heads(self) -> list[Entry]:
        """Return the first ready entry of each level that has one, the highest level first."""
        with self.lock:
            return list(self._dispatch.ready.heads())

    def scheduled(self) -> list[Entry]:
        """Return the scheduled entries in the order they become due."""
        with self.lock:
            return list(self._calendar.schedule)

    @property
    def priorities_differ(self) -> bool:
        """Whether its consumers have different priorities."""
        return self._dispatch.consumers.priorities_differ

    def consumers(self) -> list[Consumer]:
        """Return the subscribed consumers, the oldest first."""
        with self.lock:
            return list(self._dispatch.consumers.all)

    def live_consumers(self) -> frozenset[Consumer]:
        """Return the consumers with a slot, if the queue has slots."""
        with self.lock:
            return frozenset() if self._dispatch.live is None else self._dispatch.live.live()

    def group_owners(self) -> dict[str, Consumer]:
        """Return the owned message groups, each with its owner."""
        with self.lock:
            return {} if self._dispatch.groups is None else self._dispatch.groups.owners()

    def group_owner(self, group: str) -> Consumer | None:
        """Return the owner of one message group; None if there is none."""
        with self.lock:
            return None if self._dispatch.groups is None else self._dispatch.groups.owner_of(group)

    def counts(self) -> dict[State, int]:
        """Return how many entries are scheduled, ready (held ones included), claimed and dead."""
        with self.lock:
            return self._contents.counts()

    def reset_statistics(self) -> None:
        """Count from zero; the maxima begin with the messages in the queue."""
        with self.lock:
            self.statistics.reset(len(self._dispatch.ready))

    @property
    def flow_stopped(self) -> bool:
        """Whether the queue has told its producers to wait."""
        return self._capacity.flow.stopped


def _check_time(time: float | None) -> None:
    # NaN has no order: entries behind it in the schedule would never be found.
    if time is not None and not (isinstance(time, int | float) and -NEVER <= time <= NEVER):
        raise OutOfRange(f"A time is a number of seconds, not {time!r}.")
