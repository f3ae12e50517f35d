"""One worker session: its deadline, its consumers, and the messages that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions.arbiter import Subscription
from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.decisions.selection import may_want
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.target import Target
from django_mq.inprocess.memory.row import row_of
from django_mq.stores.records import WorkerCommand

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from django_mq.engine.states import Fate
    from django_mq.inprocess.memory.row import BrokerQueue, LiveMessage
    from django_mq.stores.records import ConsumerInfo, Heartbeat, Receipt, SessionInfo


class ReadyRow(NamedTuple):
    row: LiveMessage
    suspect: bool
    group: str | None
    owner: int | None


class MemorySession:
    """A worker. For the broker inside, it is one or more consumers of each queue that it claims from."""

    def __init__(self, number: int, info: SessionInfo, opened_at: datetime, deadline: datetime) -> None:
        self.number = number
        self.info = info
        self.deadline = deadline
        #: When its worker last renewed it.
        self.heartbeat_at = opened_at
        self.heartbeat: Heartbeat | None = None
        self.command = WorkerCommand()
        #: The claims that it is asked to stop.
        self.stops: set[Receipt] = set()
        #: All consumers with their queues; then those without credit, which claims use.
        self._consumers: dict[Consumer, BrokerQueue] = {}
        self._own: dict[BrokerQueue, Consumer] = {}

    @property
    def queues(self) -> tuple[str, ...]:
        return self.info.queues if self.heartbeat is None else self.heartbeat.queues

    def consumer_of(self, queue: BrokerQueue, given: Consumer | None = None) -> Consumer:
        """Return a subscribed consumer of the queue: the given one, or one that claims use."""
        consumer = given or self._own.get(queue)
        if consumer is None:
            # Without credit, arrivals do not wake it. Each claim says how many messages it takes.
            consumer = self._own[queue] = Consumer(self.info.name, WindowCredit(0))
        if consumer not in self._consumers:
            if isinstance(consumer.target, Target):
                consumer.target.read(queue.inner, consumer)
            else:
                queue.inner.add_consumer(consumer)
            self._consumers[consumer] = queue
            queue.sessions[consumer] = self.number
        return consumer

    def subscribed(self, queue: BrokerQueue, consumer: Consumer) -> Consumer:
        """Subscribe the consumer, or refresh it if it is subscribed; return it."""
        if consumer in self._consumers:
            queue.inner.refresh(consumer)
            if consumer.target is not None:
                consumer.target.credit_changed(consumer)
        return self.consumer_of(queue, consumer)

    def reading(self, target: Target) -> list[tuple[Consumer, BrokerQueue]]:
        return [(each, self._consumers[each]) for each in target.consumers if each in self._consumers]

    def held(self) -> list[LiveMessage]:
        return [
            row_of(entry)
            for consumer in self._consumers
            for entry in consumer.unsettled
            if entry.owner is consumer and entry not in consumer.settling
        ]

    def retake(self, row: LiveMessage) -> None:
        """Hold the row again, with the claim number that it had before the deadline."""
        ended, row.ended = row.ended, None
        if ended is None:
            return
        # A suspect's attempt was counted when it was lost, and `take_again` would count it twice.
        attempts = row.entry.attempts - ended.suspect
        row.queue.inner.deliveries.take_again(
            row.entry, self.consumer_of(row.queue), ended.claim_number, attempts=attempts
        )
        row.entry.suspect = ended.suspect
        row.session_id, row.released_at = self.number, None

    def lose(self, now: float) -> list[tuple[LiveMessage, Fate]]:
        """Leave every queue as a dead session; return the held rows, each with its fate."""
        for target in self._targets():
            target.pause()  # otherwise credit that one queue gives back would wake the session in the next
        lost = [
            (row_of(entry), fate)
            for consumer, queue in [*self._consumers.items()]
            for entry, fate in queue.inner.subscribers.lose(consumer, now)
        ]
        self.unsubscribe()
        return lost

    def unsubscribe(self) -> None:
        """Leave every queue; held messages return to their places, uncounted."""
        for target in self._targets():
            target.close()
        for consumer, queue in [*self._consumers.items()]:
            queue.inner.remove_consumer(consumer)
            del queue.sessions[consumer]
        self._consumers.clear()
        self._own.clear()

    def _targets(self) -> list[Target]:
        return [*{one.target: None for one in self._consumers if isinstance(one.target, Target)}]

    def subscriptions(self, queue: BrokerQueue) -> list[Subscription]:
        consumers = () if self.heartbeat is None else self.heartbeat.consumers
        # Celery's tasks of all queues share one credit. The last heartbeat says how much of it is used.
        shared = self.info.kind == "celery"
        held = sum(len(consumer.unsettled) for consumer, of in self._consumers.items() if of is queue)
        busy, slots = (None, None) if self.heartbeat is None else (self.heartbeat.busy, self.heartbeat.slots)
        own = self._own.get(queue)
        served = [one for one, of in self._consumers.items() if of is queue and one is not own]
        return [self._subscription(consumer) for consumer in served] + [
            Subscription(
                session=self.number,
                priority=info.priority,
                credit=info.credit_limit,
                used=info.credit_used if shared else 0,
                stopping=info.state == "stopping",
                held=held,
                full=busy is not None and slots is not None and busy >= slots,
                wants=_wants(info, own),
            )
            for info in consumers
            if info.queue_name == queue.name
        ]

    def has_declined(self, queue: BrokerQueue) -> bool:
        """Return whether the queue has a ready message that the session has declined."""
        own = self._own.get(queue)
        if own is None or own.view is None:  # a consumer that declines gets a view
            return False
        return any(entry.declined_by is not None and own in entry.declined_by for entry in queue.inner.browse())

    def consumes(self, queue: str) -> bool:
        """Return whether the session named the queue when it was opened or last renewed."""
        consumers = () if self.heartbeat is None else self.heartbeat.consumers
        return queue in self.queues or any(info.queue_name == queue for info in consumers)

    def selectors(self, queue: str) -> set[str]:
        """Return the selectors of its consumers of a queue."""
        consumers = () if self.heartbeat is None else self.heartbeat.consumers
        return {info.selector for info in consumers if info.queue_name == queue} or {""}

    def _subscription(self, consumer: Consumer) -> Subscription:
        """Return the subscription of a consumer, which has its own selector and credit."""
        return Subscription(
            session=self.number,
            priority=consumer.priority,
            credit=consumer.credit.free or 0,
            used=0,
            stopping=not consumer.desires_work or consumer.browser,
            held=0,
            wants=lambda item: consumer.could_take(item.row.entry),
        )

    def saw(self, id_: int) -> None:
        """Give credit back to a consumer that browsed a message, or from which a message was taken back."""
        for consumer, queue in self._consumers.items():
            others = [entry for entry in consumer.unsettled if entry.owner is not consumer]
            for entry in [each for each in others if each.arrival == id_]:
                queue.inner.accept(entry, consumer)

    def forget(self, queue: BrokerQueue) -> None:
        self._own.pop(queue, None)
        self._consumers = {consumer: of for consumer, of in self._consumers.items() if of is not queue}


def _wants(info: ConsumerInfo, own: Consumer | None) -> Callable[[ReadyRow], bool]:
    """Return a test of messages: the selector matches, and the session has not declined the message."""
    return lambda item: (
        (own is None or own.wants(item.row.entry)) and may_want((info.selector,), item.row.entry.message)
    )
