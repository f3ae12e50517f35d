"""One queue of the engine: its interface to publishers, consumers, operators and stores."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, wraps
from inspect import isfunction, isgeneratorfunction
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django_mq.engine.decisions.dead_letters import ORIGIN_QUEUE, keeps_dropped
from django_mq.engine.decisions.duplicates import DuplicateIds, id_taken, id_twice, used_before
from django_mq.engine.decisions.last_value import check_value, is_in_advance
from django_mq.engine.decisions.limits import Overflow
from django_mq.engine.decisions.verdict import Ending, Verdict, verdict
from django_mq.engine.states import (
    ACCEPTED,
    DEAD,
    DISCARDED,
    GONE,
    HELD,
    QUEUE_DELETED,
    READY,
    REJECTED,
    RETURNED,
    SCHEDULED,
    STEALABLE,
    VOID,
    Cause,
    Fate,
    State,
)
from django_mq.errors import (
    IllegalMove,
    OutOfRange,
    ProducerBlocked,
    PublishError,
    QueueClosed,
    QueueDeleted,
    QueueFull,
    UnknownConsumer,
)
from django_mq.inprocess.consumers.admission import Admission, Gate, LiveConsumers
from django_mq.inprocess.consumers.consumer import NON_ACQUIRING, REMOVED, Consumer, tell
from django_mq.inprocess.entries.afterlife import Afterlife
from django_mq.inprocess.entries.contents import Contents
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import EntryList, make_list
from django_mq.inprocess.entries.timeline import NEVER, UNTOLD
from django_mq.inprocess.entries.view import View
from django_mq.inprocess.rules import IN_PROCESS, QueuePolicy, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.message import Message
    from django_mq.inprocess.consumers.groups import Groups
    from django_mq.inprocess.entries.capacity import Producer
    from django_mq.inprocess.entries.contents import EntryListener

#: Finds another queue by its name; None if there is none.
Resolve = Callable[[str], "Queue | None"]
#: The states that a purge removes: not delivered yet.
UNDELIVERED: Final = (READY, HELD, SCHEDULED)

_DEFAULT_RULES: Final = Rules()
#: Calls that take the lock themselves: every message needs the first four, and this takes half the time. The
#: others need the locks of two queues, in one order.
TAKE_THE_LOCK: Final = frozenset({"publish", "offer", "deliver", "accept", "move", "redrive_all"})

C = TypeVar("C")


class Arrivals:
    """The number of the last arrival, in one queue or in all that share it."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


def _thread_safe(cls: type[C]) -> type[C]:
    """Let every public method hold the lock of its queue."""
    for name, method in list(vars(cls).items()):
        is_public = isfunction(method) and not name.startswith("_") and not isgeneratorfunction(method)
        if is_public and name not in TAKE_THE_LOCK:
            setattr(cls, name, _with_lock(method))
    return cls


def _with_lock(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def locked(self: Queue, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


@_thread_safe
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
        listener: EntryListener | None = None,
    ) -> None:
        self.name = name
        #: Reentrant. Queues with dead letters or targets in common share one lock.
        self.lock = RLock() if lock is None else lock
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self.deleted = False
        #: Whether it refuses new messages.
        self.closed = False
        self.policy = policy
        #: Whether delivery is paused.
        self.paused = False
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._listener = listener
        self._resolve = resolve
        #: The latest ``now`` of a call.
        self._now = UNTOLD
        if entries is None:
            entries = make_list(rules.kind, key=rules.key, levels=rules.levels)
        self._contents = Contents(name, entries, policy, listener, self._expired)
        self._dispatch = self._contents.dispatch
        self._capacity = self._contents.capacity
        self.statistics = self._contents.statistics
        #: The remembered duplicate ids, which a store may keep over a restart.
        self.duplicate_ids = DuplicateIds(at_least=policy.remembers_at_least)
        #: Which consumers may subscribe, and which client owns the queue.
        self.admission = Admission()
        self._expired_unasked: list[Entry] = []
        #: The groups with their owners; kept after a change to rules without groups.
        self._groups: Groups | None = None
        self._follow(rules, None)

    def _follow(self, rules: Rules, old: Rules | None) -> None:
        self.rules = rules
        self._plain = rules.has_plain_arrivals and not self.deleted and not self.policy.ids_once
        list_forgets = type(self._dispatch.ready).forget is not EntryList.forget
        #: Whether a delivery and its settlement affect only the consumer and the entry.
        self._short = (
            rules.has_plain_deliveries
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
        self._capacity.set(
            rules.overflow,
            rules.limits,
            rules.resume_percent,
            ready_only=rules.ring_of_ready,
            buries=keeps_dropped(rules),
        )

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

    def _expired(self, entry: Entry) -> None:
        if not self._afterlife.expired(entry, self._now):
            self._expired_unasked.append(entry)

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
                # As ``_enter``, without the call.
                self._now = now
                self._arrivals.last = arrival = self._arrivals.last + 1
                entry = self.placement.entry(message, arrival, now)
                self._contents.arrive(entry)
                return entry
            self.check_ids([message])
            if not self.admit([message], producer=producer)[0]:
                entry = self.placement.entry(message, 0, now)
                entry.discard()
                return entry
            self._remember_id(message, self._now)
            entry = self._enter(message, now)
            if immediate and not self._reserve(entry, now):
                self._contents.take_out(entry, Cause.MOVED)
            if entry.state is not GONE:
                self._capacity.check(entry, producer)
            return entry
        finally:
            self._release()

    def _enter(self, message: Message, now: float) -> Entry:
        self._now = now
        self.let_values_arrive(now)
        self._arrivals.last = arrival = self._arrivals.last + 1
        entry = self.placement.entry(message, arrival, now)
        self._contents.arrive(entry)
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

    def admit(
        self, messages: Sequence[Message], now: float | None = None, *, producer: Producer | None = None
    ) -> list[bool]:
        """Return for each of several new messages whether the queue takes it; the others are to be dropped.

        Call ``enter`` for each of the former, and ``entered`` after the last. Raises the errors of ``publish``
        for any of them, but not for an id that is here; nothing is changed then.
        """
        self._refuse_if_deleted()
        self.let_values_arrive(self._now if now is None else now)
        used: dict[str, str] = {}
        for message in messages:
            self._check(message, self._now if now is None else now)
            if message.duplicate_id is not None and self.duplicate_ids.remembers_any:
                if message.duplicate_id in used:
                    raise used_before(self.name, message.duplicate_id, used[message.duplicate_id])
                used[message.duplicate_id] = message.id
        if producer is not None and producer.blocked:
            raise ProducerBlocked
        welcome = self._capacity.admit(self.name, [message.size for message in messages])
        return [False] * len(messages) if self._is_deserted else welcome

    def _check(self, message: Message, now: float) -> None:
        """Raise the errors of a message that do not depend on the limits."""
        if self.closed:
            raise QueueClosed
        self.placement.check(message)
        if (key := self._dispatch.ready.value_of(message)) is not None:
            check_value(self.rules.key or "", key)
        if message.duplicate_id is not None:
            user = self.duplicate_ids.user_of(message.duplicate_id, now)
            if user is not None:
                raise used_before(self.name, message.duplicate_id, user)

    def check_ids(self, messages: Sequence[Message]) -> None:
        """Raise DuplicateMessage for an id that is here, or comes twice, in a queue where ids are unique."""
        known, coming = self._contents.ids, set[str]()
        for message in () if known is None else messages:
            if message.id in coming:
                raise id_twice(message.id)
            if known is not None and message.id in known:
                raise id_taken(self.name, message.id)
            coming.add(message.id)

    def _remember_id(self, message: Message, now: float) -> None:
        if message.duplicate_id is not None:
            self.duplicate_ids.add(message.duplicate_id, now, user=message.id)

    def enter(self, message: Message, now: float) -> Entry:
        """Add a message that was admitted, or that needs no admission."""
        self._remember_id(message, now)
        return self._enter(message, now)

    def entered(self, newest: Entry) -> None:
        """Make room after calls of ``enter``; the newest entry is not evicted."""
        self._capacity.check(newest)

    def reserve(self, message: Message) -> None:
        """Keep room for an admitted message; call ``publish_reserved`` or ``unreserve`` later."""
        self._capacity.reserve(message)
        self._remember_id(message, self._now)

    def unreserve(self, message: Message) -> None:
        """Give up the room for a reserved message."""
        self._capacity.reserve(message, -1)
        self.duplicate_ids.forget(message.duplicate_id)

    def publish_reserved(self, message: Message, now: float) -> None:
        """Add a reserved message, as ``publish``."""
        self._capacity.reserve(message, -1)
        entry = self._enter(message, now)
        if entry.state is not GONE:
            self._capacity.check(entry)

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

    def offer_again(self, entry: Entry) -> None:
        """Add an entry that stood elsewhere, as the newest arrival."""
        self._arrivals.last += 1
        entry.stand_at(entry.place, self._arrivals.last)
        self._contents.arrive(entry)

    # Consumers, and the end of the queue.

    def add_consumer(self, consumer: Consumer) -> bool:
        """Subscribe a consumer; False if it is subscribed already.

        Raises ExclusiveConsumerExists, ConsumersExist, AccessRefused or TooManyConsumers if the
        queue does not admit it, QueueDeleted, and IllegalMove if it still holds entries.
        """
        self._refuse_if_deleted()
        dispatch = self._dispatch
        if consumer.interest is not REMOVED:
            return False
        if consumer.unsettled:
            raise IllegalMove("The consumer still holds entries of the queue it has left; settle them first.")
        self.admission.admit(consumer, dispatch.consumers.all)
        consumer.queue = self
        consumer.browser = consumer.browser or self.rules.nondestructive
        dispatch.consumers.add(consumer)
        dispatch.give_position(consumer)
        if not self.policy.owns_until_it_leaves:
            self.take_slot(consumer)
        if dispatch.groups is not None:
            dispatch.look_again(dispatch.groups.joined(consumer))
        self._look_at_gate()
        dispatch.refresh(consumer)
        return True

    def take_slot(self, consumer: Consumer) -> bool:
        """Give the consumer a slot, or let it stand by for one; return whether it may receive.

        Without ``max_live`` every consumer may.
        """
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
        self._now = self._now if now is None else now
        if consumer.queue is not self:
            return []
        # First, so that its returned entries are not for itself again.
        was_here = self._forget(consumer)
        # Without ``give_back``, release the entries that ``deliver`` has not returned yet.
        leaving = [entry for entry in consumer.unsettled if entry not in consumer.settling]
        leaving = leaving if give_back else list(consumer.reserved)
        consumer.reserved.clear()
        settle = self._fail if failed and give_back else self.release
        released = [entry for entry in leaving if settle(entry, consumer)]
        if consumer.unsettled and not consumer.browser:
            self._contents.departed[consumer] = None
        self._dispatch.hand_over()
        if was_here and not consumer.transient and not self._dispatch.consumers.all:
            for entry in list(self._contents.waiting()) if self.rules.purge_on_no_consumers else ():
                self._contents.take_out(entry, Cause.KILLED)
            if self.rules.auto_delete:
                self.delete(self._now)
        return released

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
            dispatch.look_again(self._groups.left(consumer))
        self._look_at_gate()
        return True

    def lose_consumer(self, consumer: Consumer, now: float) -> list[tuple[Entry, Fate]]:
        """Unsubscribe the consumer of a dead session; return each entry that it held, with its fate.

        Each entry returns to its place, uncounted, as a suspect: it may be the cause of the death. A suspect
        has failed, because it was delivered alone: after the last attempt allowed it is a dead letter,
        which stays here: a store sends it on.
        """
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

    def delete(self, now: float) -> None:
        """Close the queue for ever: close its consumers, and make dead letters of entries that no consumer holds.

        Entries that consumers hold follow when they are returned.
        """
        if self.deleted:
            return
        self.deleted, self._plain, self._now = True, False, now
        for consumer in list(self._dispatch.consumers.all):
            self.remove_consumer(consumer, give_back=False)
            tell(consumer.closed, consumer)
        leaving = [*self._contents.stealable(), *self._contents.waiting()]
        for entry in sorted(leaving, key=attrgetter("arrival")):
            self._expel(entry)
        self._capacity.resume()
        if self._listener is not None:
            self._listener.deleted(self.name)

    # Deliveries.

    def refresh(self, consumer: Consumer) -> None:
        """Update a consumer after its credit was resized or stopped, or its ``paused`` was changed."""
        self._dispatch.refresh(consumer)

    def wanted(self, most: int) -> int:
        """Return how many more entries a store should claim for these consumers, at most ``most``.

        It is their free credit less the ready entries here. With unlimited credit,
        ``most`` entries should be ready.
        """
        return self._dispatch.wanted(most)

    def deliver(self, consumer: Consumer, now: float) -> Entry | None:
        """Claim the first entry for a consumer; None if there is none that it may have now.

        A browser is only shown the entry. Raises UnknownConsumer for a consumer of another queue.
        """
        self._acquire()
        try:
            contents = self._contents
            if self._short and consumer.plain and consumer.queue is self:
                self._now = now
                if now >= contents.schedule.next_time:
                    self._promote(now)
                entry = self._dispatch.claim_head(consumer, now)
                if entry is not None:
                    contents.claimed += 1
                    if entry.expires_at is not None:
                        contents.expiring.remove(entry)
                return entry
            return self._deliver(consumer, now)
        finally:
            self._release()

    def _deliver(self, consumer: Consumer, now: float) -> Entry | None:
        if consumer.queue is not self:
            if consumer.interest is not REMOVED:
                raise UnknownConsumer
            return None
        if consumer.reserved:
            return self._handed(consumer, consumer.reserved.pop(0))
        self._tell_time(now)
        holding = self._contents.holding
        if holding:
            self._contents.stand_again(holding.seen_by(consumer, now))
        entry = self._claim_for(consumer, now)
        if self.rules.hold and consumer.interest is not REMOVED:
            holding.looked(consumer, entry)
        if entry is None and consumer.auto_close:
            self._close_at_end(consumer, now)
        return self._handed(consumer, entry)

    def first_for(self, consumer: Consumer, now: float) -> Entry | None:
        """Return the first entry for this consumer, even without the credit for it; nothing is claimed."""
        self._tell_time(now)
        return self._dispatch.first_wanted(consumer, now)

    def found_nothing(self, consumer: Consumer) -> None:
        """Note that a store has found nothing for the consumer: the next arrival may wake it again."""
        self._dispatch.stop_pulling(consumer)

    def take(self, entry: Entry, consumer: Consumer) -> None:
        """Claim this ready entry for a consumer, even without the credit for it.

        For stores with rules beyond the consumers of one queue. Raises IllegalMove.
        """
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
        self._contents.lift(entry)
        entry.attempts, entry.claim_number = attempts, claim_number - 1
        self._dispatch.hold(consumer, entry)
        self._claimed(consumer, entry)

    def _tell_time(self, now: float) -> None:
        self._now = now
        if now >= self._contents.schedule.next_time:
            self._promote(now)
        if not self._gate.is_open:
            self._look_at_gate()

    def _claim_for(self, consumer: Consumer, now: float) -> Entry | None:
        entry = self._dispatch.claim_for(consumer, now)
        if not consumer.browser:
            if entry is not None:
                self._claimed(consumer, entry)
        elif consumer.view is not None and not self._dispatch.halted:
            at_the_end = entry is None and self._dispatch.first_wanted(consumer, now) is None
            consumer.view.looked(self._arrivals.last, to_the_end=at_the_end)
        if entry is not None:
            self._spent(consumer)
        return entry

    def _spent(self, consumer: Consumer) -> None:
        """Update the target of a consumer that has used credit."""
        if consumer.target is not None:
            consumer.target.credit_changed(consumer)

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
        self._tell_time(now)
        dispatch = self._dispatch
        for consumer in list(dispatch.consumers.all):
            if consumer.reserved or consumer.interest is NON_ACQUIRING:
                entry = self.deliver(consumer, now)
                if entry is not None:
                    return consumer, entry
        next_one = dispatch.next_in_turn(now)
        entry = None if next_one is None else self._claim_for(next_one, now)
        if next_one is None or entry is None:
            return None
        # An entry that went to its consumer because of its group uses up no turn.
        groups = dispatch.groups
        if groups is None or entry.opens_group or groups.group_of(entry.message) is None:
            dispatch.consumers.served(next_one)
        self._handed(next_one, entry)
        return next_one, entry

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
        move = Entry.fail if counted else partial(Entry.release, delivered=delivered)
        return self._settle(entry, consumer, claim_number, partial(move, due_at=retry_at))

    def decline(self, entry: Entry, consumer: Consumer, claim_number: int | None = None) -> Fate:
        """Return the entry to its place for the other consumers; this one is not offered it again."""
        if entry.owner is consumer and consumer.queue is self:
            # Before it gets its credit back, or it would be woken for this entry.
            self._dispatch.give_position(consumer, always=True)
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
        reason: str = REJECTED,
        stays: bool = False,
    ) -> Fate:
        """Send the entry to the dead-letter queue, or keep it as dead until it is redriven or removed.

        With ``stays`` it is always kept: a store sends it on.
        """
        self._now = self._now if now is None else now
        return self._bury(entry, consumer, claim_number, reason, counted=counted, stays=stays)

    def report_expired(
        self, entry: Entry, consumer: Consumer, claim_number: int | None = None, *, now: float
    ) -> Fate:
        """Send a claimed message that has expired to the expiry queue, or drop it; the attempt does not count."""
        self._now = now
        held = consumer.queue is self and entry.owner is consumer and entry in consumer.unsettled
        if not held or claim_number not in (None, consumer.unsettled[entry]):
            return VOID
        entry.attempts -= 1
        if not entry.replaced:
            self._expired(entry)
        cause = Cause.REPLACED if entry.replaced else Cause.EXPIRED
        return self._settle(entry, consumer, claim_number, Entry.accept, cause)

    def begin_settle(self, entry: Entry, consumer: Consumer) -> bool:
        """Prevent that the entry is taken back from now on; False if the consumer does not hold it any more."""
        if consumer.queue is not self or entry not in consumer.unsettled or not entry.lock(consumer):
            return False
        self._contents.expiring.remove(entry)  # it may expire when it is given back
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
        self._contents.take_out(entry, Cause.KILLED, steals=True)
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
        self.paused = True
        self._halt_or_go()

    def resume(self) -> None:
        self.paused = False
        self._halt_or_go()

    def deliver_now(self, entry: Entry) -> bool:
        """Make a scheduled entry ready before its time, in its place; False if it is not scheduled here."""
        if self._arrives_anew(entry):
            return bool(self._arrived([entry]))
        return entry.state is SCHEDULED and self._stand_again(entry)

    def redrive(self, entry: Entry) -> bool:
        """Make a dead entry ready again, in its place, without its attempts; False if it is not dead here."""
        if entry not in self._contents.dead:
            return False
        if self.policy.redrives_for_ever:
            entry.expires_at = None
        entry.attempts, entry.redelivered = 0, True
        return self._stand_again(entry)

    def _stand_again(self, entry: Entry) -> bool:
        here = bool(self._contents.stand_again([entry]))
        if here and not self._plain:
            self._capacity.look_again(entry)
        return here

    def bury(self, entry: Entry, now: float, reason: str) -> bool:
        """Make a ready, scheduled or stealable entry dead; False if it is in another state.

        It stays: a store sends it on.
        """
        if not self._contents.bury(entry, reason):
            return False
        entry.died_at = now
        return True

    def remove(self, entry: Entry, cause: Cause = Cause.KILLED) -> bool:
        """Remove an entry in any state; False if it was not here.

        A consumer that holds it gets its credit back, and its settlement will be void.
        """
        return self._contents.take_out(entry, cause)

    def discard(self, entry: Entry, cause: Cause = Cause.KILLED) -> bool:
        """Remove an entry; False if a consumer holds it: then it is removed when it is returned."""
        return self._contents.take_out(entry, cause, steals=True, spares=True)

    def cancel(self, entry: Entry) -> bool:
        """Remove a scheduled entry as if it had been accepted; False if it is not scheduled here."""
        return entry.state is SCHEDULED and self._contents.take_out(entry, Cause.ACCEPTED)

    def purge(self, states: Collection[State] = UNDELIVERED) -> list[Entry]:
        """Remove and return all entries in these states; claimed ones stay with their consumers."""
        free = [*self._contents.stealable(), *self._contents.waiting()]
        chosen = [entry for entry in free if entry.state in states]
        return [entry for entry in chosen if self._contents.take_out(entry, Cause.PURGED, steals=True)]

    def clear(self) -> int:
        """Remove all entries, claimed ones when they are returned; return how many were removed at once."""
        entries = [*self._contents.held(), *self._contents.waiting()]
        return sum([self.discard(entry) for entry in entries])

    def trim(self) -> int:
        """Evict from a ring that is too full, as an arrival does, but not the newest; return how many."""
        before = self.statistics.replaced + len(self._contents.dead)
        if self.rules.overflow is Overflow.RING:
            self._capacity.check(max(self.everything(), key=attrgetter("arrival"), default=None))
        return self.statistics.replaced + len(self._contents.dead) - before

    def reschedule(self, entry: Entry, due_at: float, now: float) -> bool:
        """Deliver a ready or scheduled entry at another time, in the place of messages due then.

        False, and nothing happens, if the entry is in another state, or a value of a last-value queue.
        """
        waits = entry.state is READY or entry.state is SCHEDULED
        if not waits or self._dispatch.ready.value_of(entry.message) is not None or not self._contents.lift(entry):
            return False
        if self.rules.sorting is None:
            entry.stand_at(self.placement.place_at(due_at), entry.arrival)
        if due_at > now:
            entry.state, entry.due_at = SCHEDULED, due_at
        self._contents.place(entry)
        return True

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
        waits = entry.state is READY or (self.policy.reprioritises_scheduled and entry.state is SCHEDULED)
        if not waits or entry.message.priority == priority:
            return None
        message = replace(self.travelling(entry), priority=priority, id=new_id or entry.message.id)
        copy = self.placement.entry_again(entry, message)
        if entry.state is SCHEDULED:  # its place may be that of its first attempt
            copy.stand_at(entry.place, copy.arrival)
        if not self._contents.take_out(entry, Cause.COPIED):
            return None
        if new_id is None:
            copy.attempts, copy.suspect, copy.cause = entry.attempts, entry.suspect, entry.cause
        else:
            copy.redelivered = False
        self._now = now
        self.offer_again(copy)
        if copy.state is SCHEDULED and not self._arrives_anew(copy):
            self._dispatch.ready.expect(copy)
        return copy

    def close_group(self, group: str) -> None:
        """Let another consumer own a group."""
        if self._dispatch.groups is not None:
            self._dispatch.look_again(self._dispatch.groups.close(group))

    def assign_group(self, group: str, consumer: Consumer) -> None:
        """Give a group to another owner."""
        if self._dispatch.groups is not None:
            self._dispatch.look_again(self._dispatch.groups.assign(group, consumer))

    def reset_groups(self) -> None:
        if self._dispatch.groups is not None:
            self._dispatch.look_again(self._dispatch.groups.reset())

    def change(self, rules: Rules) -> None:
        """Use other rules from now on. Raises IllegalMove for another kind of list."""
        if (rules.kind, rules.key) != (self.rules.kind, self.rules.key):
            raise IllegalMove("A queue keeps its kind and key for life; make another queue and move the messages.")
        self._follow(rules, self.rules)
        for consumer in list(self._dispatch.consumers.all):
            self._dispatch.give_position(consumer)
            self._dispatch.refresh(consumer)
        self._look_at_gate()

    # To other queues.

    def move(self, entry: Entry, target: Queue, now: float, *, more: bool = False) -> bool:
        """Move an entry that no consumer holds; False if it cannot be taken.

        It arrives as a new one, with its schedule and, if messages expire there, its expiry. Raises IllegalMove if
        the target is this queue, QueueFull if it would exceed the target's limits, even if publishers may exceed
        them, and the errors of ``publish`` for the target; nothing is moved then. With ``more`` others follow:
        call ``entered`` after the last.
        """
        if target is self:
            raise IllegalMove("A message cannot be moved to the queue it is in.")
        with self._both(target):
            if entry.state not in UNDELIVERED and entry.state is not DEAD:
                return False
            message = self.travelling(entry)
            target.check_moved(message)
            again = target.placement.entry_again(entry, message)
            if target.placement.lifetime.endless:
                again.expires_at = None
            if not self._contents.take_out(entry, Cause.MOVED):
                return False
            if not self.policy.keeps_end:
                target.publish(message, now)
                return True
            target.offer_again(again)
            if not more:
                target.entered(again)
            return True

    def check_moved(self, message: Message, count: int = 1, size_bytes: int | None = None) -> None:
        """Raise a PublishError if a message of another queue may not move here, as the last of so many."""
        self._refuse_if_deleted()
        self._check(message, self._now)
        is_value = self._takes_values_in_advance and self._dispatch.ready.value_of(message) is not None
        if is_value and message.deliver_at is not None:
            raise PublishError("A scheduled message cannot move into a last-value queue.")
        self.check_ids([message])
        evicts = self.rules.overflow is Overflow.RING and self.policy.moves_into_rings
        if not evicts and self._capacity.is_exceeded_by(count, message.size if size_bytes is None else size_bytes):
            raise QueueFull
        if self._is_deserted:
            raise PublishError("The queue keeps no messages while it has no consumer.")

    def fitting(self, messages: Sequence[Message], now: float) -> list[bool]:
        """Return for each of several messages of other queues whether it may move here.

        Refused ones are left out, and so are all from the first that exceeds the limits.
        """
        self.let_values_arrive(now)
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

    def redrive_all(self, now: float) -> int:
        """Return the dead letters and expired messages of other queues to those; return how many.

        A message that its queue refuses stays here.
        """
        with self.lock:
            entries = list(self._contents.waiting())
        return sum([self._go_back(entry, now) for entry in entries])

    def _go_back(self, entry: Entry, now: float) -> bool:
        name = entry.message.headers.get(ORIGIN_QUEUE)
        origin = self._resolve(name) if isinstance(name, str) else None
        try:
            return origin is not None and origin is not self and self.move(entry, origin, now)
        except PublishError:
            return False

    # Time. ``deliver`` delivers due entries without these calls.

    def promote(self, now: float, most: int | None = None) -> list[Entry]:
        """Make the due entries ready, the earliest ``most`` at most; return them in the order they became due."""
        self._now = now
        return self._promote(now, most)

    def _promote(self, now: float, most: int | None = None) -> list[Entry]:
        due = self._arrived(self._contents.schedule.until(now, most))
        for _ in () if self._plain else due:  # only the latest may not be evicted
            self._capacity.look_again(due[-1])
        return due

    def let_values_arrive(self, now: float) -> None:
        """Let the values that were scheduled and are due arrive: they are older than what arrives now."""
        if now >= self._contents.schedule.next_time and self._takes_values_in_advance:
            self._arrived([entry for entry in self._contents.schedule.until(now) if self._arrives_anew(entry)])

    @property
    def _takes_values_in_advance(self) -> bool:
        return self.policy.values_arrive_when_due and self.rules.kind == "last_value"

    def _arrives_anew(self, entry: Entry) -> bool:
        is_value = self._takes_values_in_advance and self._dispatch.ready.value_of(entry.message) is not None
        return is_value and is_in_advance(entry.state, redelivered=entry.redelivered)

    def _arrived(self, due: list[Entry]) -> list[Entry]:
        """Make due entries ready, and return them; values that were scheduled in advance arrive anew."""
        if not self._takes_values_in_advance:
            return self._contents.stand_again(due)
        return [ready for entry in due for ready in self._arrived_by_value(entry)]

    def _arrived_by_value(self, entry: Entry) -> list[Entry]:
        if not self._arrives_anew(entry):
            return self._contents.stand_again([entry])
        again = self.placement.entry_again(entry, entry.message)
        again.stand_at(entry.place, again.arrival)
        again.state, again.due_at = READY, None
        if not self._contents.take_out(entry, Cause.COPIED):
            return []
        self.offer_again(again)
        return [again]

    def expire(self, now: float, most: int | None = None) -> list[Entry]:
        """Remove the expired ready entries, ``most`` at most; return all that were removed since the last call.

        This includes those that ``deliver`` has removed, but not those that went to an expiry queue. An entry
        that a consumer holds, and that is not stealable, is removed when it is returned.
        """
        self._now = self._contents.expired_until = now
        for entry in self._contents.expiring.pop_until(now, most):
            self._contents.expire_entry(entry)
        expired, self._expired_unasked = self._expired_unasked, []
        return expired

    def overdue(self, now: float, most: int) -> list[Entry]:
        """Return the expired entries in line, ``most`` at most; they stay until they are sent on or removed."""
        self._now = now
        return self._contents.expiring.until(now, most)

    def unhold(self, now: float) -> list[Entry]:
        """Make every overdue held entry ready; return these."""
        return self._contents.stand_again(self._contents.holding.overdue(now))

    def keep_house(self, now: float) -> None:
        """Promote, unhold and expire."""
        self._tell_time(now)
        self._promote(now)
        self.unhold(now)
        self.expire(now)  # discards the result, which would otherwise grow for ever

    def next_due(self) -> float | None:
        """Return when the next scheduled entry becomes due; None if none is scheduled."""
        due_at = self._contents.schedule.next_time
        return None if due_at == NEVER else due_at

    def next_time(self) -> float | None:
        """Return when to call ``keep_house`` next; None if nothing will become due or expire."""
        contents = self._contents
        opens_at = NEVER if self._gate.opens_at is None else self._gate.opens_at
        times = (contents.schedule.next_time, contents.expiring.next_time, contents.holding.next_time(), opens_at)
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
        return sorted(self.everything(), key=self._dispatch.ready.position)

    def everything(self) -> list[Entry]:
        """Return all entries, in any state, in no order."""
        return [*self._contents.waiting(), *self._contents.held()]

    def find(self, message_id: str) -> Entry | None:
        """Return the entry of the message with this id; None if it is not here, or ids are not unique here."""
        return None if self._contents.ids is None else self._contents.ids.get(message_id)

    def position(self, entry: Entry) -> Any:
        """Return the sort key of an entry, which need not be here any more."""
        return self._dispatch.ready.position(entry)

    def heads(self) -> list[Entry]:
        """Return the first ready entry of each level that has one, the highest level first."""
        return list(self._dispatch.ready.heads())

    def scheduled(self) -> list[Entry]:
        """Return the scheduled entries in the order they become due."""
        return list(self._contents.schedule)

    @property
    def priorities_differ(self) -> bool:
        """Whether its consumers have different priorities."""
        return self._dispatch.consumers.priorities_differ

    def consumers(self) -> list[Consumer]:
        """Return the subscribed consumers, the oldest first."""
        return list(self._dispatch.consumers.all)

    def live_consumers(self) -> frozenset[Consumer]:
        """Return the consumers with a slot, if the queue has slots."""
        return frozenset() if self._dispatch.live is None else self._dispatch.live.live()

    def group_owners(self) -> dict[str, Consumer]:
        """Return the owned message groups, each with its owner."""
        return {} if self._dispatch.groups is None else self._dispatch.groups.owners()

    def group_owner(self, group: str) -> Consumer | None:
        """Return the owner of one message group; None if there is none."""
        return None if self._dispatch.groups is None else self._dispatch.groups.owner_of(group)

    def counts(self) -> dict[State, int]:
        """Return how many entries are scheduled, ready (held ones included), claimed and dead."""
        return self._contents.counts()

    def reset_statistics(self) -> None:
        """Count from zero; the maxima begin with the messages in the queue."""
        self.statistics.reset(len(self._dispatch.ready))

    @property
    def flow_stopped(self) -> bool:
        """Whether the queue has told its producers to wait."""
        return self._capacity.stopped


def _check_time(time: float | None) -> None:
    # NaN has no order: entries behind it in the schedule would never be found.
    if time is not None and not (isinstance(time, int | float) and -NEVER <= time <= NEVER):
        raise OutOfRange(f"A time is a number of seconds, not {time!r}.")
