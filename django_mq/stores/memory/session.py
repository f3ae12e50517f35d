"""One worker session: its deadline, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.arbiter import Subscription
from django_mq.engine.consumer import Consumer
from django_mq.stores.memory.row import row_of
from django_mq.stores.records import Instructions

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.engine.fate import Fate
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.records import Heartbeat, SessionInfo


class WorkerSession:
    """A worker, which for the engine is one consumer of each queue that it has claimed from."""

    def __init__(self, number: int, info: SessionInfo, opened_at: datetime, deadline: datetime) -> None:
        self.number = number
        self.info = info
        self.deadline = deadline
        #: When its own worker renewed it last.
        self.heartbeat_at = opened_at
        self.heartbeat: Heartbeat | None = None
        self.instructions = Instructions()
        self._consumers: dict[BrokerQueue, Consumer] = {}

    def consumer_of(self, queue: BrokerQueue) -> Consumer:
        """Return its consumer of the queue, subscribed. The credit is the claim's own limit."""
        consumer = self._consumers.get(queue)
        if consumer is None:
            consumer = self._consumers[queue] = Consumer(self.info.name)
            queue.sessions[consumer] = self.number
            queue.engine.add_consumer(consumer)
        return consumer

    def held(self) -> list[Row]:
        """Return what it holds, but for what an open transaction settles."""
        return [
            row_of(entry)
            for consumer in self._consumers.values()
            for entry in consumer.unsettled
            if entry not in consumer.settling
        ]

    def lose(self, now: float) -> list[tuple[Row, Fate]]:
        """Leave every queue, as it has died; return what it held, and what became of that."""
        lost = [
            (row_of(entry), fate)
            for queue, consumer in [*self._consumers.items()]
            for entry, fate in queue.engine.lose_consumer(consumer, now)
        ]
        self.unsubscribe()
        return lost

    def unsubscribe(self) -> None:
        """Leave every queue; what is still held goes back to its place, uncounted."""
        for queue, consumer in [*self._consumers.items()]:
            queue.engine.remove_consumer(consumer)
            del queue.sessions[consumer]
        self._consumers.clear()

    def subscriptions(self, queue: BrokerQueue) -> list[Subscription]:
        """Its consumers of the queue, as of its last heartbeat."""
        consumers = () if self.heartbeat is None else self.heartbeat.consumers
        # Celery's tasks of all queues share one credit; what they use of it is known from the last heartbeat.
        shared = self.info.kind == "celery"
        consumer = self._consumers.get(queue)
        held = 0 if consumer is None else len(consumer.unsettled)
        busy, slots = (None, None) if self.heartbeat is None else (self.heartbeat.busy, self.heartbeat.slots)
        return [
            Subscription(
                session=self.number,
                priority=info.priority,
                credit=info.credit_limit,
                used=info.credit_used if shared else 0,
                stopping=info.state == "stopping",
                held=held,
                full=busy is not None and slots is not None and busy >= slots,
            )
            for info in consumers
            if info.queue_name == queue.name
        ]

    def forget(self, queue: BrokerQueue) -> None:
        """The queue is no more."""
        self._consumers.pop(queue, None)
