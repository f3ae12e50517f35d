"""One queue of the in-process broker: its interface to publishers and consumers."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.dead_letters import ORIGIN_QUEUE
from django_mq.engine.states import ACCEPTED, REJECTED, Cause, Fate
from django_mq.errors import IllegalMove, OutOfRange, PublishError
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import EntryList, make_list
from django_mq.inprocess.entries.timeline import NEVER
from django_mq.inprocess.entries.view import View
from django_mq.inprocess.parts.arrivals import Arrivals
from django_mq.inprocess.parts.control import Control, is_movable, travelling
from django_mq.inprocess.parts.deliveries import QueueDeliveries
from django_mq.inprocess.parts.due import DueEntries
from django_mq.inprocess.parts.outcomes import Outcomes
from django_mq.inprocess.parts.state import ArrivalNumbers, CommonState
from django_mq.inprocess.parts.subscribers import Subscribers
from django_mq.inprocess.rules import IN_PROCESS, QueuePolicy, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.message import Message
    from django_mq.engine.states import State
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.capacity import Producer
    from django_mq.inprocess.entries.contents import EntryListener

    #: Finds another queue by its name; None if there is none.
    Resolve = Callable[[str], "Queue | None"]

_DEFAULT_RULES: Final = Rules()


class Queue:
    """A queue with the settings of its ``Rules``; the package's docstring says what it promises.

    ``now`` is always seconds on the clock of the messages' times. Any thread may call the methods, and those of
    ``control``: each takes ``lock``, and nothing below them does. A store and a unit of work use the parts
    ``arrivals``, ``deliveries``, ``subscribers``, ``due`` and ``contents``, too, and hold the lock around it.
    ``entries`` replaces the list of ready entries.
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
        numbers: ArrivalNumbers | None = None,
        listener: EntryListener | None = None,
    ) -> None:
        self.name = name
        self.policy = policy
        #: Reentrant. Queues with dead letters or targets in common share one lock.
        self.lock = RLock() if lock is None else lock
        #: For what every message needs, where ``with`` would take a third longer.
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self._resolve = resolve
        self.state = state = CommonState(
            self,
            name,
            rules,
            entries=make_list(rules.kind, key=rules.key, levels=rules.levels) if entries is None else entries,
            resolve=resolve,
            policy=policy,
            numbers=ArrivalNumbers() if numbers is None else numbers,
            listener=listener,
        )
        self.contents, self.statistics = state.contents, state.contents.statistics
        self._dispatch, self._numbers = state.dispatch, state.numbers
        self.admission, self.duplicate_ids = state.admission, state.duplicate_ids
        self.due = DueEntries(state)
        self._outcomes = Outcomes(state)
        self.subscribers = Subscribers(state, self._outcomes)
        self.deliveries = QueueDeliveries(state, self.due, self._outcomes, self.subscribers)
        self.arrivals = Arrivals(state, self.due, self.deliveries)
        self.control = Control(state, self.due, self.subscribers, self.lock)

    # What it is.

    @property
    def rules(self) -> Rules:
        return self.state.rules

    @property
    def deleted(self) -> bool:
        return self.state.deleted

    @property
    def paused(self) -> bool:
        """Whether an operator has paused delivery."""
        return self.state.paused

    @property
    def closed(self) -> bool:
        """Whether it refuses new messages."""
        return self.state.closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        self.state.closed = closed

    @property
    def flow_stopped(self) -> bool:
        """Whether the queue has told its producers to wait."""
        return self.state.capacity.stopped

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
        state = self.state
        self._acquire()
        try:
            if not state.plain or message.duplicate_id is not None or producer is not None or immediate:
                return self.arrivals.publish(message, now, producer, immediate=immediate)
            # As the arrivals, without its calls: nearly every message takes this path.
            state.now = now
            self._numbers.last = arrival = self._numbers.last + 1
            entry = state.placement.entry(message, arrival, now)
            self.contents.arrive(entry)
            return entry
        finally:
            self._release()

    def offer(self, entry: Entry) -> None:
        """Add an entry that a store has kept over a restart.

        Its arrival number must be unique in this queue. Raises IllegalMove for one that is
        claimed or gone, and QueueDeleted.
        """
        with self.lock:
            self.arrivals.offer(entry)

    # Consumers.

    def add_consumer(self, consumer: Consumer) -> bool:
        """Subscribe a consumer; False if it is subscribed already.

        Raises ExclusiveConsumerExists, ConsumersExist, AccessRefused or TooManyConsumers if the
        queue does not admit it, QueueDeleted, and IllegalMove if it still holds entries.
        """
        with self.lock:
            return self.subscribers.add(consumer)

    def remove_consumer(
        self, consumer: Consumer, *, give_back: bool = True, failed: bool = False, now: float | None = None
    ) -> list[Entry]:
        """Unsubscribe a consumer; release its entries, and return them in order of delivery.

        If it has ``failed``, every attempt counts: the last one allowed makes a dead letter, and
        no other is followed by a delay. Without ``give_back`` it keeps its entries, and may still
        settle them; it always keeps those of open units of work.
        """
        with self.lock:
            self.state.now = self.state.now if now is None else now
            return self.subscribers.remove(consumer, give_back=give_back, failed=failed)

    def refresh(self, consumer: Consumer) -> None:
        """Update a consumer after its credit was resized or stopped, or its ``paused`` was changed."""
        with self.lock:
            self.state.dispatch.refresh(consumer)

    def consumers(self) -> list[Consumer]:
        """Return the subscribed consumers, the oldest first."""
        with self.lock:
            return self.subscribers.all()

    # QueueDeliveries.

    def deliver(self, consumer: Consumer, now: float) -> Entry | None:
        """Claim the first entry for a consumer; None if there is none that it may have now.

        A browser is only shown the entry. Raises UnknownConsumer for a consumer of another queue.
        """
        state = self.state
        self._acquire()
        try:
            if not (state.short and consumer.plain and consumer.queue is self):
                return self.deliveries.deliver(consumer, now)
            # As the deliveries, without their calls: nearly every message takes this path.
            contents = self.contents
            state.now = now
            if now >= contents.schedule.next_time:
                self.due.promote(now)
            entry: Entry | None = self._dispatch.claim_head(consumer, now)
            if entry is not None:
                contents.claimed += 1
                if entry.expires_at is not None:
                    contents.expiring.remove(entry)
            return entry
        finally:
            self._release()

    def deliver_next(self, now: float) -> tuple[Consumer, Entry] | None:
        """Claim the first entry for the next consumer in turn; None if no consumer may have one."""
        with self.lock:
            return self.deliveries.next(now)

    # Settlements. Each returns the fate of the entry. If the consumer holds the entry no longer, the settlement is
    # void and only returns the credit; a second settlement does not even do that. ``claim_number``, as read at
    # delivery, distinguishes two deliveries to one consumer.

    def accept(self, entry: Entry, consumer: Consumer, claim_number: int | None = None) -> Fate:
        """Accept the entry: it is gone."""
        self._acquire()
        try:
            # The path of nearly every message: a plain consumer that is still subscribed.
            if (
                self.state.short
                and consumer.plain
                and entry.owner is consumer
                and (claim_number is None or claim_number == entry.claim_number)
                and consumer.queue is self
            ):
                self.contents.accepted(entry, consumer)
                return ACCEPTED
            return self._outcomes.settle(entry, consumer, claim_number, Entry.accept)
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
        with self.lock:
            return self._outcomes.settle(entry, consumer, claim_number, partial(move, due_at=retry_at))

    def decline(self, entry: Entry, consumer: Consumer, claim_number: int | None = None) -> Fate:
        """Return the entry to its place for the other consumers; this one is not offered it again."""
        with self.lock:
            return self._outcomes.decline(entry, consumer, claim_number)

    def park(
        self, entry: Entry, consumer: Consumer, claim_number: int | None = None, *, key: str, until: float | None
    ) -> Fate:
        """Return the entry to its place, uncounted; it is ready again when its key is freed, or its time comes."""
        _check_time(until)
        with self.lock:
            move = partial(Entry.park, key=key, until=until)
            return self._outcomes.settle(entry, consumer, claim_number, move)

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
        delay_seconds = None if retry_at is None else 0.0
        with self.lock:
            self.state.now = self.state.now if now is None else now
            return self._outcomes.fail(
                entry, consumer, claim_number, retry_at=retry_at, delay_seconds=delay_seconds
            )

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
        with self.lock:
            self.state.now = self.state.now if now is None else now
            return self._outcomes.bury(entry, consumer, claim_number, reason, counted=counted, stays=stays)

    def report_expired(
        self, entry: Entry, consumer: Consumer, claim_number: int | None = None, *, now: float
    ) -> Fate:
        """Send a claimed message that has expired to the expiry queue, or drop it; the attempt does not count."""
        with self.lock:
            self.state.now = now
            return self._outcomes.report_expired(entry, consumer, claim_number)

    def begin_settle(self, entry: Entry, consumer: Consumer) -> bool:
        """Prevent that the entry is taken back from now on; False if the consumer does not hold it any more."""
        with self.lock:
            return self._outcomes.begin(entry, consumer)

    # To other queues.

    def move(self, entry: Entry, target: Queue, now: float, *, more: bool = False) -> bool:
        """Move an entry that no consumer holds; False if it cannot be taken.

        It arrives as a new one, with its schedule and, if messages expire there, its expiry. Raises IllegalMove if
        the target is this queue, QueueFull if it would exceed the target's limits, even if publishers may exceed
        them, and the errors of ``publish`` for the target; nothing is moved then. With ``more`` others follow:
        call ``arrivals.entered`` after the last.
        """
        if target is self:
            raise IllegalMove("A message cannot be moved to the queue it is in.")
        with ExitStack() as both:
            # Always in one order, so that opposite moves do not deadlock.
            for lock in sorted((self.lock, target.lock), key=id):
                both.enter_context(lock)
            if not is_movable(entry):
                return False
            message = travelling(entry)
            target.arrivals.check_moved(message)
            again = target.state.placement.entry_again(entry, message)
            if target.rules.lifetime.endless:
                again.expires_at = None
            if not self.contents.take_out(entry, Cause.MOVED):
                return False
            if not self.policy.keeps_end:
                target.publish(message, now)
                return True
            target.state.arrive_again(again)
            if not more:
                target.arrivals.entered(again)
            return True

    def redrive_all(self, now: float) -> int:
        """Return the dead letters and expired messages of other queues to those; return how many.

        A message that its queue refuses stays here.
        """
        with self.lock:
            entries = list(self.contents.waiting())
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
        with self.lock:
            return self.due.promote(now, most)

    def expire(self, now: float, most: int | None = None) -> list[Entry]:
        """Remove the expired ready entries, ``most`` at most; return all that were removed since the last call.

        This includes those that ``deliver`` has removed, but not those that went to an expiry queue. An entry
        that a consumer holds, and that is not stealable, is removed when it is returned.
        """
        with self.lock:
            return self.due.expire(now, most)

    def keep_house(self, now: float) -> None:
        """Promote, expire, and make overdue held entries ready."""
        with self.lock:
            self.due.keep_house(now)

    def next_time(self) -> float | None:
        """Return when to call ``keep_house`` next; None if nothing will become due or expire."""
        with self.lock:
            return self.due.next_time()

    # Reading.

    def browse(self) -> Iterator[Entry]:
        """Yield the ready entries in order; takes none, and the queue may change meanwhile."""
        ready = self.contents.dispatch.ready
        view = View(ready)
        while True:
            with self.lock:
                entry = view.next_in(ready)
            if entry is None:
                return
            view.saw(entry)
            yield entry

    def entries(self) -> list[Entry]:
        """Return all entries, in any state, in the order of the queue."""
        with self.lock:
            return sorted(self.contents.everything(), key=self.contents.dispatch.ready.position)

    def scheduled(self) -> list[Entry]:
        """Return the scheduled entries in the order they become due."""
        with self.lock:
            return list(self.contents.schedule)

    def counts(self) -> dict[State, int]:
        """Return how many entries are scheduled, ready (held ones included), claimed, dead and parked."""
        with self.lock:
            return self.contents.counts()

    def reset_statistics(self) -> None:
        """Count from zero; the maxima begin with the messages in the queue."""
        with self.lock:
            self.statistics.reset(len(self.contents.dispatch.ready))


def _check_time(time: float | None) -> None:
    # NaN has no order: entries behind it in the schedule would never be found.
    if time is not None and not (isinstance(time, int | float) and -NEVER <= time <= NEVER):
        raise OutOfRange(f"A time is a number of seconds, not {time!r}.")
