"""What a transport consumes: which queues for which consumers, and how claimed messages reach them.

The first consumer gives the transport a consumer runtime, which claims for all channels with one statement per
wake-up, and settles with the next claim. A transport that only publishes has none.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq.delivery.consumer.lease import Driver, Workload
from django_mq.delivery.consumer.runtime import CREDIT, ConsumerRuntime
from django_mq.engine.decisions.arbiter import MOST_AT_A_TIME
from django_mq.engine.decisions.claim import STALE_SECONDS, Pace, open_queues
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import ending_of
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.engine.selector import Selector
from django_mq.errors import CorruptMessage, StoreError
from django_mq.integrations.celery.credit import byte_credit_of, credit_of, window_of
from django_mq.integrations.celery.message import judged, payload_of
from django_mq.notifications.base import volatile_topic
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Set

    from django_mq.delivery.consumer.lease import Loop
    from django_mq.delivery.consumer.session import Session
    from django_mq.integrations.celery.credit import ChannelQoS, Consumer
    from django_mq.integrations.celery.publisher import Declarations, Publisher
    from django_mq.integrations.celery.rates import RateLimits
    from django_mq.integrations.celery.transient_queues import TransientQueues
    from django_mq.integrations.celery.url import Address
    from django_mq.stores.records import Claimed, Receipt, Running, WorkerCommand

logger = logging.getLogger("django_mq.celery")

#: Matches Celery's tasks. They have a header ``timelimit`` too, which is a list, and selectors see no lists.
TASKS = "lang IS NOT NULL AND retries IS NOT NULL AND task IS NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWorker:
    """What a transport has to know of the Celery worker that it serves."""

    name: str
    #: How many tasks the pool could start now.
    slots: Callable[[], int]
    #: How many tasks run, and how many can run; called by the heartbeat's thread.
    measure: Callable[[], tuple[int | None, int | None]]
    #: What runs, as a heartbeat reports it; called by the heartbeat's thread.
    running: Callable[[], list[Running]]
    #: Stops the tasks and handlers of these claims, in the loop's thread, also again.
    stop: Callable[[Set[Receipt]], None]
    #: Ends the worker in order; called by the heartbeat's thread.
    end: Callable[[], None]
    #: Gives back the tasks of some queues that wait for a process of the pool.
    give_back: Callable[[Set[str]], None]
    #: The worker's loop, the same for all its connections.
    loop: Loop
    #: The rate limits of its tasks, None for a worker none of whose tasks has one.
    rates: RateLimits | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConsumer:
    """A consumer of a channel: it receives the messages of a queue as Kombu has them."""

    queue: str
    tag: str
    qos: ChannelQoS
    callback: Callable[[dict[str, Any]], object]
    #: AMQP's ``x-priority``.
    priority: int = 0
    selector: Selector | None = None
    credit_bytes: int | None = None

    def credit(self, ahead: int = 0) -> int:
        """Return how many more messages its channel may have, at least ``ahead``."""
        return max(self.qos.credit(), ahead)

    def hand_over(self, claimed: Claimed, payload: Callable[[], dict[str, Any] | None]) -> bool:  # noqa: ARG002 - as a handler's consumer
        """Receive a message; return False if it is corrupt."""
        message = payload()
        if message is not None:
            self.callback(message)
        return message is not None

    def of_tasks_only(self) -> TaskConsumer:
        """Return this consumer for the messages of Celery's tasks."""
        selector = TASKS if self.selector is None else f"({self.selector.text}) AND {TASKS}"
        return replace(self, selector=Selector(selector))

    def describe(self) -> ConsumerInfo:
        """Return what the operator sees."""
        return ConsumerInfo(
            queue_name=self.queue,
            handler="Celery tasks",
            priority=self.priority,
            state="interested" if self.qos.credit() > 0 else "busy",
            credit_limit=self.qos.limit,
            credit_used=self.qos.held,
            delivered=self.qos.delivered[self.queue],
            selector="" if self.selector is None else self.selector.text,
        )


def _wake(runtime: ConsumerRuntime | None) -> None:
    """Wake the loop, which stops what is to be stopped."""
    if runtime is not None:
        runtime.wake.set()


class TransportConsumers:
    """The consumers of one transport, and what is claimed for them."""

    def __init__(
        self,
        alias: str,
        address: Address,
        *,
        declarations: Declarations,
        transient: TransientQueues,
        publisher: Publisher,
    ) -> None:
        self._alias = alias
        self._address = address
        self._declarations = declarations
        self._transient = transient
        self._publisher = publisher
        self._runtime: ConsumerRuntime | None = None
        # The consumers of the channels, by queue, and the native handlers, which go before them.
        self._tasks: dict[str, TaskConsumer] = {}
        self._handlers: dict[str, Consumer] = {}
        # Queues whose handlers run in another process, so that channels get only tasks from them.
        self._handled_elsewhere: frozenset[str] = frozenset()
        # The channels that consume durable queues.
        self._channels: frozenset[ChannelQoS] = frozenset()
        self.buffer = PrefetchBuffer(self, declarations, redis_order=address.redis_order)
        self._pace = Pace(time.monotonic())
        #: The Celery worker that this transport serves, None outside of one.
        self.worker: ServedWorker | None = None
        # The consumers that it last showed.
        self._shown: tuple[ConsumerInfo, ...] = ()
        # Whether transient queues may have messages, and those that were taken from them and not delivered yet.
        self._transient_look = True
        self._taken: deque[tuple[str, dict[str, Any]]] = deque()
        #: Whether messages of the last claim could begin at once.
        self.able = False
        # The thread that drives this transport, and whether it is a worker's loop.
        self._driver: int | None = None
        self.on_loop = False

    # The runtime.

    @property
    def runtime(self) -> ConsumerRuntime:
        """The consumer runtime, made at the first use, and again after it was retired."""
        if self._runtime is None:
            driver = Driver(
                name=lambda: "" if self.worker is None else self.worker.name,
                describe=self.describe,
                on_command=self._on_command,
                running=lambda: () if self.worker is None else self.worker.running(),
                on_stops=lambda: _wake(self._runtime),
                loop=lambda: None if self.worker is None else self.worker.loop,
                leaves=told_to_stop,
                on_round=self.buffer.give_back_stale,  # the loop may be blocked
            )
            listed = self._address.listed
            self._runtime = ConsumerRuntime(self._alias, kind="celery", driver=driver, listed=listed)
        return self._runtime

    @property
    def session(self) -> Session:
        return self.runtime.session

    @property
    def consuming_session(self) -> Session | None:
        """The session, None for a transport that consumes no durable queue."""
        runtime = self._runtime
        return runtime.session if runtime is not None and runtime.consumes else None

    @property
    def given_credit(self) -> int | None:
        """The credit that an operator has given each consumer, or None."""
        return None if self._runtime is None else self._runtime.session.command.credit

    def retire(self) -> None:
        """Claim no more; the session closes when what runs is settled."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.retire()

    # Which queues.

    def serve(self, worker: ServedWorker) -> None:
        """Claim for a Celery worker from now on, and show the session under its name."""
        self.worker = worker
        _follow(self.worker, self._durable(), self._declarations)

    def consume(self, consumer: TaskConsumer) -> None:
        """Claim for a consumer of a channel from now on. An earlier one of the queue receives no more."""
        elsewhere = consumer.queue in self._handled_elsewhere
        self._tasks[consumer.queue] = consumer.of_tasks_only() if elsewhere else consumer
        self._changed()

    def consumer_of(self, queue: str) -> TaskConsumer | None:
        """Return the consumer that receives the messages of a queue."""
        return self._tasks.get(queue)

    def cancel(self, queue: str) -> None:
        """Stop claiming from a queue, and give back what no callback has received."""
        self._put_back_taken(queue)
        self._tasks.pop(queue, None)
        self.buffer.release(queue)
        self._changed()
        if self._runtime is not None and told_to_stop():
            self._runtime.session.renew_soon()  # shows operators that the worker stops
        if queue in self._transient.inherited:
            self.note_left(queue)

    @apart_from_event_loops
    def note_left(self, queue: str) -> None:
        """Note that a queue has been left that may end now, also if no heartbeat has told of its use."""
        with suppress(StoreError):
            self._declarations.note_use(queue)

    def consume_native(self, queue: str, consumer: Consumer) -> None:
        """Claim from a queue for a native handler, together with the channels' queues."""
        self._declarations.ensure(queue)
        self._handlers[queue] = consumer
        self._changed()

    def leave_native(self, queues: Iterable[str]) -> None:
        """Claim only tasks from some queues, whose handlers run in another process. It is called once."""
        self._handled_elsewhere = frozenset(queues)
        for queue in self._handled_elsewhere & self._tasks.keys():
            self._tasks[queue] = self._tasks[queue].of_tasks_only()
        self._changed()

    def cancel_native(self) -> None:
        """Stop claiming for native handlers."""
        queues = list(self._handlers)
        self._handlers.clear()
        for queue in queues:
            self.buffer.release(queue)
        self._changed()

    def _changed(self) -> None:
        transient, tasks = self._consumed(self._transient.queues), self._durable()
        self._channels = frozenset(consumer.qos for consumer in tasks.values())
        durable = [*tasks, *self._handlers]
        if durable or transient or self.on_loop or self.consuming_session is not None:
            self.runtime.subscribe(
                durable, map(volatile_topic, [*transient, *self._consumed(self._transient.inherited)])
            )
            self._transient_look = True
        else:
            # A program that has received its replies keeps neither a listener nor a connection.
            self.retire()
        _follow(self.worker, self._durable(), self._declarations)

    def _durable(self) -> dict[str, TaskConsumer]:
        """Return the consumers of durable queues, without the handlers."""
        transient = self._transient.queues
        return {queue: consumer for queue, consumer in self._tasks.items() if queue not in transient}

    def _consumed(self, among: Container[str]) -> list[str]:
        return [queue for queue in self._tasks if queue in among]

    def describe(self) -> Workload:
        """Return what the operator sees of this transport's consumers."""
        if self.worker is not None and told_to_stop():
            consumers = self._shown  # Celery has cancelled them, and what they have received still runs
        else:
            shown = [*self._durable().values(), *list(self._handlers.values())]
            consumers = self._shown = tuple(consumer.describe() for consumer in shown)
        busy, slots = (None, None) if self.worker is None else self.worker.measure()
        return Workload(consumers=consumers, credit=window_of(self._channels), busy=busy, slots=slots)

    def _on_command(self, told: WorkerCommand) -> None:
        """End the worker if an operator says so. The heartbeat's thread calls this."""
        if told.mode is WorkerMode.STOP and self.worker is not None:
            self.worker.end()

    # Delivering.

    def work(self) -> int:
        """Claim, and deliver what credit allows for a moment; return how many. Raises StoreError."""
        self._note_turn()
        self._take_transient()
        delivered = 0
        while self._deliver_taken():
            delivered += 1
        self._claim_or_give_back()
        return delivered + self.buffer.portion()

    def work_once(self) -> bool:
        """Claim, and deliver one message if credit allows; return whether one was delivered. Raises StoreError."""
        self._note_turn()
        if not self._taken:
            self._take_transient()
        if self._deliver_taken():
            return True
        self._claim_or_give_back()
        return self.buffer.ready and not told_to_stop() and self.buffer.one()

    def _note_turn(self) -> None:
        self._driver = threading.get_ident()
        if self.worker is not None:
            self.worker.loop.turn()

    def _claim_or_give_back(self) -> None:
        if self._runtime is not None:
            self._runtime.recall(self._give_back)
            if self.worker is not None and (stops := self._runtime.session.stops):
                self.worker.stop(stops)
        self._claim()

    def _claim(self) -> None:
        """Claim if all claimed messages have been handed over or given back."""
        if self.buffer:
            self.buffer.give_back_stale()
            self.able = False  # enough is claimed already
            return
        runtime = self._runtime
        if runtime is None:
            return
        settled = sum(qos.settled for qos in self._channels)
        ahead = self._pace.amount(settled, time.monotonic()) if self._may_claim_ahead(runtime) else 0
        consumers = {**self._durable(), **self._handlers}
        limits, credit = credit_of(consumers, ahead)
        byte_credit = byte_credit_of({queue: consumers[queue] for queue in limits}, self._address.credit_bytes)
        limits = open_queues(limits, byte_credit)
        slots = credit if self.worker is None else self.worker.slots()
        refill = max(1, max(window_of(self._channels), ahead) // 2)
        self.able = credit > 0 and slots > 0
        wanted = {
            queue: (Wanted(selector, limit),)
            for queue, limit in limits.items()
            if (selector := consumers[queue].selector) is not None
        }
        claimed = runtime.claim(
            limits, credit=credit, slots=slots, refill=refill, byte_credit=byte_credit, wanted=wanted
        )
        if claimed:
            self._pace.claimed(settled, len(claimed), time.monotonic())
            self.buffer.add(claimed)
            # Settling may happen in signal handlers, where only what is remembered can be asked.
            self._declarations.refresh({message.queue_name for message in claimed})

    def _may_claim_ahead(self, runtime: ConsumerRuntime) -> bool:
        """Whether nothing but one prefetch count limits what is held: no handler, queue or operator."""
        selecting = any(consumer.selector for consumer in self._durable().values())
        limited = self._handlers or selecting or runtime.fetcher.last.constrained or self.given_credit is not None
        return len(self._channels) == 1 and not limited

    def receiver(self, queue: str) -> Consumer | None:
        """Return what receives the messages of a queue, None if it is consumed no more."""
        return self._handlers.get(queue) or self._tasks.get(queue)

    def has_credit(self, queue: str) -> bool:
        """Whether the channel that consumes a queue may be given a message; True where none does."""
        consumer = self._tasks.get(queue)
        return consumer is None or consumer.qos.credit() > 0

    def credit_now(self) -> int:
        """Return how many messages the channels may be given now."""
        return min((qos.credit() for qos in self._channels), default=MOST_AT_A_TIME)

    def _give_back(self, queues: Set[str]) -> None:
        """Give back what neither a callback has received nor a process of the pool has begun."""
        for queue in queues:
            self.buffer.release(queue)
        if self.worker is not None:
            self.worker.give_back(queues)

    def get_one(self, queue: str) -> dict[str, Any] | None:
        """Claim one message of a queue for ``basic_get``."""
        if queue in self._transient.queues:
            return next((message for _, message in self._transient.take([queue], limit=1)), None)
        self._declarations.refresh([queue])
        if self._declarations.as_last_read(queue).expires_seconds is not None:
            self._declarations.note_use(queue)
        request = ClaimRequest(queues=(queue,), credit=1)
        while claimed := self.session.settle_and_claim(request).claimed:
            if self.buffer.ends(claimed[0]):
                continue
            self._declarations.refresh([queue])
            payload = self.buffer.payload(claimed[0])
            if payload is not None:
                return payload
        return None

    def look_at_transient(self) -> None:
        """Look, at the next turn, whether transient queues have messages."""
        self._transient_look = True

    def _take_transient(self) -> None:
        """Take what waits in transient queues, to be delivered."""
        for lost in self._transient.renew():
            self.cancel(lost)
        if self._transient_look:
            self._transient_look = False
            if queues := self._consumed(self._transient.queues):
                self._taken.extend(self._transient.take(queues))
            if queues := self._consumed(self._transient.inherited):
                self._publisher.take_over(queues)

    def _deliver_taken(self) -> bool:
        """Deliver one message of a transient queue; return False if none was taken."""
        while self._taken:
            queue, message = self._taken.popleft()
            consumer = self._tasks.get(queue)
            if consumer is not None:
                consumer.callback(message)
                return True
        return False

    def _put_back_taken(self, queue: str) -> None:
        """Write again what was taken from a transient queue and not delivered."""
        waiting = [message for name, message in self._taken if name == queue]
        self._taken = deque(pair for pair in self._taken if pair[0] != queue)
        with suppress(StoreError):  # as if it had expired
            for message in waiting:
                self._transient.put([queue], message)

    def note_settled(self) -> None:
        """Make the driver look at the credit that came back, unless its own thread brings it."""
        runtime = self._runtime
        if runtime is not None and threading.get_ident() != self._driver:
            runtime.wake.set(CREDIT)


#: How long callbacks run, in seconds, until the worker's loop gets its turn.
PORTION_SECONDS = 0.02


def _follow(worker: ServedWorker | None, queues: Iterable[str], declarations: Declarations) -> None:
    """Let the rate limits of a worker know whose tasks are consumed now."""
    if worker is not None and worker.rates is not None:
        worker.rates.follow({queue: declarations.as_last_read(queue) for queue in queues})


class PrefetchBuffer:
    """The messages that one transport has claimed and no callback has received yet, in order.

    Callbacks receive them in small portions: with ``-P solo`` a callback runs the whole task, and between two
    tasks the loop must see its signals and write acknowledgements.
    """

    def __init__(self, deliveries: TransportConsumers, declarations: Declarations, *, redis_order: bool) -> None:
        self._deliveries = deliveries
        self._declarations = declarations
        self._redis_order = redis_order
        self._waiting: deque[Claimed] = deque()
        # When a message was last handed over, or came while none was waiting.
        self._moved_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, claimed: Iterable[Claimed]) -> None:
        """Add claimed messages."""
        if not self._waiting:
            self._moved_at = time.monotonic()
        self._waiting.extend(claimed)

    @property
    def ready(self) -> bool:
        """Whether the lease is certain, and the channel of the first message has credit for it."""
        try:
            if self._waiting and not self._deliveries.session.may_begin:
                return False  # the heartbeat confirms the lease, and then wakes the loop
            return self._deliveries.has_credit(self._waiting[0].queue_name)
        except IndexError:  # the heartbeat, or a signal's handler, gives back at any moment
            return False

    def portion(self) -> int:
        """Hand messages over, within the credit, for ``PORTION_SECONDS``; return how many."""
        until = time.monotonic() + PORTION_SECONDS
        count = 0
        while self.ready and not told_to_stop():
            self._moved_at = time.monotonic()
            count += self.one()
            if time.monotonic() >= until:
                break
        return count

    def one(self) -> bool:
        """Hand over the first message that can be; return False if there is none."""
        while True:
            try:
                claimed = self._waiting.popleft()
            except IndexError:  # perhaps because a signal's handler has just given everything back
                return False
            if self._hand_over(claimed):
                return True

    def _hand_over(self, claimed: Claimed) -> bool:
        if self.ends(claimed):
            return False
        rates = None if (worker := self._deliveries.worker) is None else worker.rates
        if rates is not None and rates.begins(claimed.queue_name, claimed.type):
            self._deliveries.session.release(claimed)
            self.release(claimed.queue_name)
            return False
        consumer = self._deliveries.receiver(claimed.queue_name)
        if consumer is None:
            self._deliveries.session.release(claimed)  # cancelled while the database answered
            return False
        return consumer.hand_over(claimed, partial(self.payload, claimed))

    def ends(self, claimed: Claimed) -> bool:
        """Settle the message if it has expired; return whether it has."""
        if not claimed.expired:
            return False
        self._deliveries.session.expire(claimed)
        return True

    def payload(self, claimed: Claimed) -> dict[str, Any] | None:
        """Return the message as Kombu has it. A corrupt one becomes a dead letter, and the result is None."""
        priority = 9 - claimed.priority if self._redis_order else claimed.priority
        try:
            return payload_of(claimed, self._deliveries.session, priority=priority)
        except CorruptMessage as error:
            logger.error("Message %s of queue %r is corrupt: %r", claimed.message_id, claimed.queue_name, error)  # noqa: TRY400 - the trace is our own
            policy = self._declarations.as_last_read(claimed.queue_name)
            dead = judged(claimed, ending_of(error), policy, f"corrupt: {error}", Failure.of(error))
            self._deliveries.session.settle(dead)
            return None

    def release(self, queue: str | None = None) -> None:
        """Give back, uncounted, the messages of a queue, or all."""
        others = []
        while self._waiting:
            try:
                claimed = self._waiting.popleft()
            except IndexError:  # the heartbeat has just given it back
                break
            if queue in (None, claimed.queue_name):
                self._deliveries.session.release(claimed)
            else:
                others.append(claimed)
        self._waiting.extend(others)

    def stale_seconds(self) -> float | None:
        """Return the seconds until messages beyond the credit go back, None if there are none."""
        if len(self._waiting) <= self._deliveries.credit_now():
            return None
        return max(0.0, self._moved_at + STALE_SECONDS - time.monotonic())

    def give_back_stale(self) -> None:
        """Give back messages beyond the credit if a slow task has blocked them. The heartbeat calls this, too."""
        if self.stale_seconds() != 0.0:
            return
        for _ in range(len(self._waiting) - self._deliveries.credit_now()):
            try:
                self._deliveries.session.release(self._waiting.pop())
            except IndexError:  # the task has just ended
                return


def told_to_stop() -> bool:
    """Whether this worker has received a signal that ends its loop at the next turn."""
    state = sys.modules.get("celery.worker.state")
    wishes = () if state is None else (state.should_stop, state.should_terminate)
    return any(wish is not None and wish is not False for wish in wishes)
