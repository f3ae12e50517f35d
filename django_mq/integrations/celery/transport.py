"""The Kombu transport, which is one connection: on the worker's event loop, or blocking in ``drain_events``.

The first consumer gives it a consumer runtime, which claims for all channels with one statement per wake-up, and
settles with the next claim. A transport that only publishes has none.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import django
from amqp.exceptions import RecoverableConnectionError as Disconnected
from celery.signals import worker_init, worker_shutdown
from django.apps import apps
from kombu.asynchronous import get_event_loop, set_event_loop
from kombu.exceptions import OperationalError
from kombu.transport import virtual

import django_mq
from django_mq import conf, outages
from django_mq.delivery.consumer.driver import Driver, Workload
from django_mq.delivery.consumer.runtime import CREDIT, ConsumerRuntime
from django_mq.delivery.consumer.session import close_retired
from django_mq.engine.decisions.arbiter import MOST_AT_A_TIME
from django_mq.engine.decisions.claim import ByteCredit
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import BrokerURLError, SessionLost, StoreError, StoreUnavailable, TablesMissing
from django_mq.integrations.celery.channel import Channel as MQChannel
from django_mq.integrations.celery.exchanges import ExchangeTable
from django_mq.integrations.celery.publisher import Committing, Declarations, Publisher
from django_mq.integrations.celery.qos import AdaptivePrefetch, PrefetchBuffer, told_to_stop
from django_mq.integrations.celery.transient_queues import TransientQueues
from django_mq.integrations.celery.url import Address, check_alias, current
from django_mq.notifications.base import ANY, volatile_topic
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.records import ClaimRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set
    from contextlib import AbstractContextManager

    from django_mq.delivery.consumer.driver import Loop
    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.selector import Selector
    from django_mq.integrations.celery.native import NativeConsumer
    from django_mq.stores.base import Store
    from django_mq.stores.records import ConsumerInfo, WorkerCommand


#: A worker that has lost the database tries for so long, in seconds, before Celery tries, with longer pauses.
RECONNECT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWorker:
    """What a transport has to know of the Celery worker that it serves."""

    name: str
    #: How many tasks the pool could start now.
    slots: Callable[[], int]
    #: How many tasks run, and how many can run; called by the heartbeat's thread.
    measure: Callable[[], tuple[int | None, int | None]]
    #: Ends the worker in order; called by the heartbeat's thread.
    end: Callable[[], None]
    #: Gives back the tasks of some queues that wait for a process of the pool.
    give_back: Callable[[Set[str]], None]
    #: The worker's loop, whatever connection it has.
    loop: Loop


class WrongAddress(BrokerURLError, OperationalError):  # noqa: N818 - named as all errors of django_mq
    """The broker URL leads nowhere. To Kombu it is a connection error that it does not retry."""


class WrongAddressOfSeveral(BrokerURLError, OperationalError, ConnectionError):  # noqa: N818 - as above
    """The same where there are several URLs: Kombu tries the next."""


class Transport(virtual.Transport):
    """``django-mq://``; see ``url.py`` for the URL."""

    Channel = MQChannel
    _callbacks: dict[str, Callable[[dict[str, Any]], Any]]
    driver_type = "django-mq"
    driver_name = "django_mq"
    can_parse_url = True
    connection_errors = (*virtual.Transport.connection_errors, StoreError)
    #: Kombu tries again, with a new connection, after these. It does not after other errors of the database, which
    #: would refuse the statement again, above all inside the caller's broken transaction.
    recoverable_connection_errors = (StoreUnavailable, SessionLost, TablesMissing, ConnectionError, Disconnected)
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=True,
        exchange_type=frozenset(["direct", "topic", "fanout", "headers"]),
        heartbeats=False,
        batch_publish=True,
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        address, self._wrong = read(client)
        redis_order = address.redis_order
        self.alias = address.alias or conf.load().DATABASE
        self._listed = address.listed
        self._credit_bytes = address.credit_bytes
        self._runtime: ConsumerRuntime | None = None
        self._committing = Committing(self.alias, self._consuming_session)
        self.transient = TransientQueues(self._committing, redis_order=redis_order)
        self.declarations = Declarations(self._committing)
        self.exchanges = ExchangeTable(self._committing, self.declarations)
        self.publisher = Publisher(self.alias, self.declarations, self._committing, redis_order=redis_order)
        self.buffer = PrefetchBuffer(self, redis_order=redis_order)
        self._adaptive_prefetch = AdaptivePrefetch()
        # The channel and the tag of the consumer of each queue.
        self._channel_of: dict[str, MQChannel] = {}
        self._tag_of: dict[str, str] = {}
        # Those of them that consume durable queues.
        self._consuming: frozenset[MQChannel] = frozenset()
        #: Queues of native handlers, with the consumers that take their messages.
        self.native: dict[str, NativeConsumer] = {}
        # The Celery worker that this transport serves, None outside of one, and the consumers that it last showed.
        self._worker: ServedWorker | None = None
        self._shown: tuple[ConsumerInfo, ...] = ()
        # The worker's event loop, and its timers: for polls, and for what is due before the next poll.
        self._loop: Any = None
        self._poll_timer: Any = None
        self._alarm: Any = None
        self._alarm_at = 0.0
        # Whether transient queues may have messages, and those that were taken from them and not delivered yet.
        self._transient_look = True
        self._taken: deque[tuple[str, dict[str, Any]]] = deque()
        # Whether messages of the last claim could begin at once.
        self._able = False
        # Whether a message was delivered that the pool may not have written to its processes yet.
        self._pool_is_next = False
        # The thread that drives this transport.
        self._driver: int | None = None

    # Connecting.

    @apart_from_event_loops
    def establish_connection(self) -> Any:
        """Check that the tables can be read, and return the transport. Raises StoreError and BrokerURLError."""
        if not apps.ready and not apps.loading:
            django.setup()  # the Celery command line does not call it
        if self._wrong is not None:
            raise self._wrong
        self._reach()
        if outages.ongoing:
            outages.database(self.alias).succeeded(self)
        return super().establish_connection()

    def _reach(self) -> None:
        """Read the tables; a worker that has lost the database waits for it. Raises StoreError."""
        end = time.monotonic() + (RECONNECT_SECONDS if self._is_reconnecting else 0.0)
        for failures in count():
            try:
                with self._committing() as store:
                    store.queue("")
            except StoreUnavailable as error:
                if time.monotonic() > end or told_to_stop():
                    raise
                outages.database(self.alias).failed(self, error)
            else:
                return
            time.sleep(outages.pause_seconds(failures))

    @property
    def _is_reconnecting(self) -> bool:
        """Whether this is the thread of a worker that has left its loop, and there is no other broker."""
        others = self.client is not None and len(self.client.alt or ()) > 1
        return not others and threading.get_ident() in _left.values()

    @apart_from_event_loops
    def close_connection(self, connection: Any) -> None:
        """Give back the messages that have not begun; running tasks may settle until they end."""
        self._leave_loop()
        self.buffer.release()
        super().close_connection(connection)
        for unlocked in self.transient.close():
            self._note_left(unlocked)
        self._retire()

    def driver_version(self) -> str:
        return django_mq.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:  # noqa: ARG002 - Kombu's signature
        """Return the URL, which has no password."""
        return uri

    # The runtime.

    @property
    def runtime(self) -> ConsumerRuntime:
        """The consumer runtime, made at the first use, and again after it was retired."""
        if self._runtime is None:
            driver = Driver(
                name=lambda: "" if self._worker is None else self._worker.name,
                describe=self._describe,
                on_command=self._on_command,
                loop=lambda: None if self._worker is None else self._worker.loop,
                leaves=told_to_stop,
                on_round=self.buffer.give_back_stale,  # the loop may be blocked
            )
            self._runtime = ConsumerRuntime(self.alias, kind="celery", driver=driver, listed=self._listed)
        return self._runtime

    @property
    def session(self) -> Session:
        return self.runtime.session

    def _consuming_session(self) -> Session | None:
        """Return the session, None for a transport that consumes no durable queue."""
        runtime = self._runtime
        return runtime.session if runtime is not None and runtime.consumes else None

    @property
    def given_credit(self) -> int | None:
        """The credit that an operator has given each consumer, or None."""
        return None if self._runtime is None else self._runtime.session.command.credit

    def _retire(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.retire()
        self._committing.close()

    # Which queues.

    def consume(self, queue: str, channel: MQChannel, tag: str, callback: Callable[[dict[str, Any]], Any]) -> None:
        """Claim from a queue for a consumer of a channel, from now on. An earlier consumer receives no more."""
        self._callbacks[queue] = callback
        self._channel_of[queue] = channel
        self._tag_of[queue] = tag
        self._changed()

    def is_consumed_by(self, queue: str, channel: MQChannel, tag: str) -> bool:
        """Whether this consumer of the channel is the one that receives the messages of the queue."""
        return self._channel_of.get(queue) is channel and self._tag_of.get(queue) == tag

    def cancel(self, queue: str) -> None:
        """Stop claiming from a queue, and give back what no callback has received."""
        self._put_back_taken(queue)
        self._callbacks.pop(queue, None)
        self._channel_of.pop(queue, None)
        self._tag_of.pop(queue, None)
        self.buffer.release(queue)
        self._changed()
        if self._runtime is not None and told_to_stop():
            self._runtime.session.renew_soon()  # shows operators that the worker stops
        if queue in self.transient.inherited:
            self._note_left(queue)

    def kept(self) -> AbstractContextManager[Store]:
        """Use a store that commits each statement."""
        return self._committing()

    @apart_from_event_loops
    def _note_left(self, queue: str) -> None:
        """Note that a queue has been left that may end now, also if no heartbeat has told of its use."""
        with suppress(StoreError):
            self.declarations.note_use(queue)

    def serve(self, worker: ServedWorker) -> None:
        """Claim for a Celery worker from now on, and show the session under its name."""
        self._worker = worker

    def consume_native(self, queue: str, consumer: NativeConsumer) -> None:
        """Claim from a queue for a native handler, together with the channels' queues."""
        self.declarations.ensure(queue)
        self.native[queue] = consumer
        self._changed()

    def cancel_native(self) -> None:
        """Stop claiming for native handlers."""
        queues = list(self.native)
        self.native.clear()
        for queue in queues:
            self.buffer.release(queue)
        self._changed()

    def _changed(self) -> None:
        transient, channels = self._transient_queues(), self._durable()
        self._consuming = frozenset(channels.values())
        durable = [*channels, *self.native]
        if durable or transient or self.on_loop or self._consuming_session() is not None:
            self.runtime.subscribe(durable, map(volatile_topic, [*transient, *self._inherited_queues()]))
            self._transient_look = True
        else:
            # A program that has received its replies keeps neither a listener nor a connection.
            self._retire()

    def _durable(self) -> dict[str, MQChannel]:
        """Return the durable queues that channels consume."""
        transient = self.transient.queues
        return {queue: channel for queue, channel in self._channel_of.items() if queue not in transient}

    def _transient_queues(self) -> list[str]:
        return [queue for queue in self._channel_of if queue in self.transient.queues]

    def _inherited_queues(self) -> list[str]:
        return [queue for queue in self._channel_of if queue in self.transient.inherited]

    @property
    def on_loop(self) -> bool:
        """Whether a worker's event loop drives this transport: no message may end it."""
        return self._loop is not None

    def _describe(self) -> Workload:
        """Return what the operator sees of this transport's consumers."""
        if self._worker is not None and told_to_stop():
            consumers = self._shown  # Celery has cancelled them, and what they have received still runs
        else:
            tasks = [channel.qos.describe(queue) for queue, channel in self._durable().items()]
            consumers = (*tasks, *(consumer.describe() for consumer in list(self.native.values())))
            self._shown = consumers
        busy, slots = (None, None) if self._worker is None else self._worker.measure()
        return Workload(consumers=consumers, credit=self._window(), busy=busy, slots=slots)

    def _on_command(self, told: WorkerCommand) -> None:
        """End the worker if an operator says so. The heartbeat's thread calls this."""
        if told.mode is WorkerMode.STOP and self._worker is not None:
            self._worker.end()

    def callback(self, queue: str) -> Callable[[dict[str, Any]], Any] | None:
        """Return the callback of the queue's consumer, None if there is no consumer any more."""
        return self._callbacks.get(queue)

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

    def _work_once(self) -> bool:
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
        if self._worker is not None:
            self._worker.loop.turn()

    def _claim_or_give_back(self) -> None:
        if self._runtime is not None:
            self._runtime.recall(self._give_back)
        self._claim()

    def _claim(self) -> None:
        """Claim if all claimed messages have been handed over or given back."""
        if self.buffer:
            self.buffer.give_back_stale()
            self._able = False  # enough is claimed already
            return
        runtime = self._runtime
        if runtime is None:
            return
        settled = sum(channel.qos.settled for channel in self._consuming)
        ahead = self._adaptive_prefetch.amount(settled) if self._may_claim_ahead(runtime) else 0
        limits, credit = self._credit(ahead)
        byte_credit = self._byte_credit(limits)
        closed = {queue for queue, given in byte_credit.items() if not given.is_open}
        limits = {queue: left for queue, left in limits.items() if queue not in closed}
        slots = credit if self._worker is None else self._worker.slots()
        refill = max(1, max(self._window(), ahead) // 2)
        self._able = credit > 0 and slots > 0
        wanted = {
            queue: (Wanted(selector, limit),)
            for queue, limit in limits.items()
            if (selector := self._selector_of(queue)) is not None
        }
        claimed = runtime.claim(
            limits, credit=credit, slots=slots, refill=refill, byte_credit=byte_credit, wanted=wanted
        )
        if claimed:
            self._adaptive_prefetch.claimed(settled, len(claimed))
            self.buffer.add(claimed)
            # Settling may happen in signal handlers, where only what is remembered can be asked.
            self.declarations.refresh({message.queue_name for message in claimed})

    def _selector_of(self, queue: str) -> Selector | None:
        """Return the selector of the queue's consumer, if it has one."""
        native = self.native.get(queue)
        return self._channel_of[queue].selectors.get(queue) if native is None else native.selector

    def _give_back(self, queues: Set[str]) -> None:
        """Give back what neither a callback has received nor a process of the pool has begun."""
        for queue in queues:
            self.buffer.release(queue)
        if self._worker is not None:
            self._worker.give_back(queues)

    def _may_claim_ahead(self, runtime: ConsumerRuntime) -> bool:
        """Whether nothing but one prefetch count limits what is held: no handler, queue or operator."""
        selecting = any(channel.selectors for channel in self._consuming)
        limited = self.native or selecting or runtime.fetcher.constrained or self.given_credit is not None
        return len(self._consuming) == 1 and not limited

    def has_credit(self, queue: str) -> bool:
        """Whether the channel that consumes a queue may be given a message; True where none does."""
        channel = self._channel_of.get(queue)
        return channel is None or channel.qos.credit() > 0

    def credit_now(self) -> int:
        """Return how many messages the channels may be given now."""
        return min((channel.qos.credit() for channel in self._consuming), default=MOST_AT_A_TIME)

    def _credit(self, ahead: int) -> tuple[dict[str, int], int]:
        """Return the credit of each queue that has some, and of the channels together; ``ahead`` is the least."""
        credit = {queue: max(channel.qos.credit(), ahead) for queue, channel in self._channel_of.items()}
        credit |= {queue: consumer.credit() for queue, consumer in self.native.items()}
        able = {queue: left for queue, left in credit.items() if left > 0 and queue not in self.transient.queues}
        # A handler's messages use the credit of its channel, too.
        channels = {channel for queue, channel in self._channel_of.items() if queue in able}
        channels |= {consumer.channel for queue, consumer in self.native.items() if queue in able}
        return able, sum(max(channel.qos.credit(), ahead) for channel in channels)

    def _byte_credit(self, queues: Iterable[str]) -> dict[str, ByteCredit]:
        """Return the byte credit of those queues that have a limit."""
        most = self._credit_bytes or conf.load().CREDIT_BYTES
        found = {}
        for queue in queues:
            native = self.native.get(queue)
            limit = most if native is None else native.credit_bytes or most
            if limit is not None:
                channel = self._channel_of[queue] if native is None else native.channel
                found[queue] = ByteCredit(limit, channel.qos.held_bytes(queue))
        return found

    def _window(self) -> int:
        return min((channel.qos.limit or 1 for channel in self._consuming), default=1)

    def get_one(self, queue: str) -> dict[str, Any] | None:
        """Claim one message of a queue for ``basic_get``."""
        if queue in self.transient.queues:
            return next((message for _, message in self.transient.take([queue], limit=1)), None)
        self.declarations.refresh([queue])
        if self.declarations.remembered(queue).expires_seconds is not None:
            self.declarations.note_use(queue)
        request = ClaimRequest(queues=(queue,), credit=1)
        while claimed := self.session.settle_and_claim(request).claimed:
            if self.buffer.ends(claimed[0]):
                continue
            self.declarations.refresh([queue])
            payload = self.buffer.payload(claimed[0])
            if payload is not None:
                return payload
        return None

    def _take_transient(self) -> None:
        """Take what waits in transient queues, to be delivered."""
        for lost in self.transient.renew():
            self.cancel(lost)
        if self._transient_look:
            self._transient_look = False
            if queues := self._transient_queues():
                self._taken.extend(self.transient.take(queues))
            if queues := self._inherited_queues():
                self.publisher.take_over(queues)

    def _deliver_taken(self) -> bool:
        """Deliver one message of a transient queue; return False if none was taken."""
        while self._taken:
            queue, message = self._taken.popleft()
            callback = self.callback(queue)
            if callback is not None:
                callback(message)
                return True
        return False

    def _put_back_taken(self, queue: str) -> None:
        """Write again what was taken from a transient queue and not delivered."""
        waiting = [message for name, message in self._taken if name == queue]
        self._taken = deque(pair for pair in self._taken if pair[0] != queue)
        with suppress(StoreError):  # as if it had expired
            for message in waiting:
                self.transient.put([queue], message)

    def wake_from_other_thread(self) -> None:
        """Make the driver look at the credit that came back, unless its own thread brings it."""
        runtime = self._runtime
        if runtime is not None and threading.get_ident() != self._driver:
            runtime.wake.set(CREDIT)

    # Blocking.

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:  # noqa: ARG002 - Kombu's signature
        """Deliver one message, as Kombu's own loops count. Raises TimeoutError if none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._work_once():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._wait(left)

    def _wait(self, left: float | None) -> None:
        if not self._settle_down():
            return
        waits = (left, self.runtime.wait_seconds(), self.buffer.stale_seconds())
        self.runtime.wait(min(seconds for seconds in waits if seconds is not None))
        self._hear()
        self._poll()

    def _settle_down(self) -> bool:
        return self.runtime.settle_down(self.runtime.fetcher.queues, able=self._able)

    def _hear(self) -> None:
        topics = self.runtime.hear()
        if ANY in topics or any(topic.startswith("v:") for topic in topics):
            self._transient_look = True

    def _poll(self) -> None:
        if self.runtime.poll():
            self._transient_look = True

    # On the worker's event loop.

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:  # noqa: ARG002 - Kombu's signature
        """Watch the wake, work before every wait of the loop, and poll by a timer."""
        self._loop = loop
        _left.pop(loop, None)
        # After a pause of the process no task begins that another worker may have: SessionLost ends the loop.
        before_events(loop, self.session.ensure_certain)
        self._committing.enter_worker()
        loop.add_reader(self.runtime.wake.fileno(), self._on_wake)
        loop.on_tick.add(self._on_tick)
        self._poll_timer = loop.call_repeatedly(self.runtime.poll_interval_seconds, self._poll)

    def _on_wake(self) -> None:
        """Claim at once: the pool's tick follows in the loop's next turn, before the loop waits."""
        self._hear()
        if not told_to_stop() and self.work():
            self._pool_is_next = True

    def _on_tick(self) -> None:
        """Work before a wait of the loop: in constant time if there is nothing to do."""
        if self.work() or self.buffer.ready:
            # The pool writes to its processes after its own tick, which may have run before this one (ticks are a
            # set): without another turn the task waits for the next event.
            self._pool_is_next = True
            self._turn_again()
        elif self._pool_is_next:
            # The pool writes after this tick: registering as idle in Redis waits for the next turn.
            self._pool_is_next = False
            self._turn_again()
        elif not self._settle_down():
            self._turn_again()
        else:
            self._arm_timer()

    def _turn_again(self) -> None:
        self.runtime.wake.set("turn")

    def _arm_timer(self) -> None:
        """Make the loop turn when something is due before the next poll. There is one timer at a time.

        A timer for a far-off due time would stay in the loop's heap until then, even if it is cancelled.
        """
        times = [self.runtime.seconds_until_due(), self.buffer.stale_seconds()]
        seconds = min((seconds for seconds in times if seconds is not None), default=None)
        if seconds is None or seconds > self.runtime.poll_interval_seconds or self._loop is None:
            return
        when = time.monotonic() + seconds
        if self._alarm is not None and when >= self._alarm_at:
            return
        self._cancel_alarm()
        self._alarm, self._alarm_at = self._loop.call_later(seconds, self._on_time), when
        # The loop has chosen how long it waits before it ticks.
        self._turn_again()

    def _cancel_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()

    def _on_time(self) -> None:
        self._alarm = None  # the loop turns, which is all that is needed

    def _leave_loop(self) -> None:
        """Leave the loop, which does not forget its ticks by itself: a dead transport must not go on."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        after_events(loop)
        _left[loop] = threading.get_ident()
        loop.on_tick.discard(self._on_tick)
        self._cancel_alarm()
        loop.remove_reader(self.runtime.wake.fileno())
        if self._poll_timer is not None:
            self._poll_timer.cancel()


@worker_init.connect(dispatch_uid="django_mq.step", weak=False)
def _install_step(sender: Any, **_: Any) -> None:
    """Add the worker step. A worker imports the transport of its broker before it sends this signal."""
    from django_mq.integrations.celery.step import install  # noqa: PLC0415 - other programs need no worker's modules

    install(sender)


@worker_shutdown.connect(dispatch_uid="django_mq.close", weak=False)
def _close_session(**_: Any) -> None:
    """Close the session of a worker whose pool has ended. After HUP, Celery does not come to our ``atexit``."""
    close_retired()


# The event loops that workers of this process have entered and left.
#
# Kombu before 5.6 keeps the loop of a worker that has ended, and a second worker of the process, as tests have
# them, would enter it. That loop turns with the timer of the first worker: what the second one schedules, such as
# tasks with an ETA, would never begin.


class _Poller:
    """A loop's poller that calls a function after each wait."""

    def __init__(self, poller: Any, before: Callable[[], None]) -> None:
        self.poller = poller
        self._before = before

    def poll(self, timeout: float | None = None) -> Any:
        events = self.poller.poll(timeout)
        self._before()
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self.poller, name)


# Each with the thread that has left it.
_left: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def before_events(loop: Any, function: Callable[[], None]) -> None:
    """Call the function after each wait of the loop, during which the process may have been suspended."""
    after_events(loop)
    loop.poller = _Poller(loop.poller, function)


def after_events(loop: Any) -> None:
    """Undo ``before_events``."""
    if isinstance(loop.poller, _Poller):
        loop.poller = loop.poller.poller


def forget_left() -> None:
    """Let a new worker make a loop of its own if an earlier worker has left the present one."""
    if get_event_loop() in _left:
        set_event_loop(None)


def read(client: Any) -> tuple[Address, BrokerURLError | None]:
    """Return where a Kombu connection leads, and the error to raise when it connects, if its URL is wrong."""
    try:
        address = current(client)
        check_alias(address)
    except BrokerURLError as error:
        several = len(client.alt or ()) > 1
        return Address(), (WrongAddressOfSeveral if several else WrongAddress)(str(error))
    return address, None
