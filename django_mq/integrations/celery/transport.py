"""The Kombu transport, which is one connection, and its channels: declare queues, publish and consume messages.

The transport puts together what one connection declares, publishes and consumes. Kombu's virtual channel emulates
AMQP. A channel here overrides the methods that run for every message, and those that must work differently on a
durable store.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections import defaultdict
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import django
from amqp.exceptions import RecoverableConnectionError
from amqp.protocol import queue_declare_ok_t
from celery.signals import worker_init, worker_shutdown
from django.apps import apps
from kombu.exceptions import ChannelError, OperationalError
from kombu.transport import virtual
from kombu.transport.virtual.base import UNDELIVERABLE_FMT, UndeliverableWarning

import django_mq
from django_mq import conf, outages
from django_mq.delivery.codecs import MESSAGE_ID, new_message_id
from django_mq.delivery.consumer.session import close_retired
from django_mq.delivery.queues import may_declare
from django_mq.delivery.validation import check_selector, plain, text
from django_mq.engine.decisions.routing import headers_selector
from django_mq.engine.decisions.verdict import Ending
from django_mq.engine.options import NAME_LENGTH
from django_mq.engine.selector import Selector
from django_mq.engine.states import REJECTED
from django_mq.errors import (
    BridgeMisused,
    BrokerURLError,
    ConfigurationError,
    SessionLost,
    StoreError,
    StoreUnavailable,
    TablesMissing,
)
from django_mq.integrations.celery.credit import ChannelQoS
from django_mq.integrations.celery.deliveries import TaskConsumer, TransportConsumers, told_to_stop
from django_mq.integrations.celery.loop_driver import LoopDriver, has_left
from django_mq.integrations.celery.message import (
    HIGHEST_PRIORITY,
    MAX_PRIORITY,
    ClaimedMessage,
    consumer_priority,
    given,
    has_more_priorities,
    judged,
    options_in,
    rejected,
    with_attributes,
)
from django_mq.integrations.celery.publisher import (
    ALTERNATE,
    Batch,
    Committing,
    Declarations,
    ExchangeTable,
    Publisher,
    not_found,
)
from django_mq.integrations.celery.transient_queues import (
    BINDING_SECONDS,
    GENERATED,
    TransientQueues,
    has_no_tasks,
    is_anonymous,
    is_id,
    is_reply,
    is_task,
    locked,
)
from django_mq.integrations.celery.url import Address, check_alias, current
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.records import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager

    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.decisions.verdict import Policy
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage

logger = logging.getLogger("django_mq.celery")

#: How many messages of a queue are counted at most: by a passive declaration, and by another declaration.
MOST_COUNTED, FEW_COUNTED = 1_000_000, 10_000


class Channel(virtual.Channel):
    """One channel of the transport; all channels of a transport share its session."""

    Message = ClaimedMessage
    QoS = ChannelQoS  # type: ignore[assignment]  # it has the methods that Kombu calls, but is not a subclass
    qos: ChannelQoS  # type: ignore[assignment]
    supports_fanout = True
    #: Bodies are stored as bytes, without base64.
    body_encoding: Any = None
    connection: Any

    def __init__(self, connection: Any, **options: Any) -> None:
        super().__init__(connection, **options)
        #: Kept when ``close()`` drops ``connection``, because running tasks are acknowledged later.
        self.transport: Transport = connection
        # The queues of the consumers, by tag. Kombu's own table is private, and for loops that do not run here.
        self._queues: dict[str, str] = {}
        #: Callbacks, as an AMQP channel has them: only ``basic_return`` is called.
        self.events: dict[str, set[Callable[..., Any]]] = defaultdict(set)

    @property
    def open_transport(self) -> Transport:
        """The transport. Raises RecoverableConnectionError on a closed channel, so that Kombu opens another."""
        if self.connection is None:
            raise RecoverableConnectionError("The channel is closed.")
        return self.transport

    # Declaring.

    @apart_from_event_loops
    def exchange_declare(  # noqa: PLR0917 - Kombu's signature
        self,
        exchange: str | None = None,
        type: str = "direct",  # noqa: A002 - as above
        durable: bool = False,  # noqa: ARG002 - as above
        auto_delete: bool = False,  # noqa: ARG002 - as above
        arguments: Mapping[str, Any] | None = None,
        nowait: bool = False,  # noqa: ARG002 - as above
        passive: bool = False,
    ) -> None:
        """Create an exchange unless it exists. It exists until it is deleted.

        Raises NotFound for one that is only asked for (``passive``), and as ``ExchangeTable.declare``.
        """
        kind = plain(type) or "direct"
        name = plain(exchange) or f"amq.{kind}"
        if passive:
            self.open_transport.exchanges.type_of(name, "Exchange.declare")
        else:
            alternate = plain((arguments or {}).get(ALTERNATE)) or ""
            self.open_transport.exchanges.declare(name, kind, alternate)

    def get_exchanges(self) -> list[str]:
        """Return the exchanges that this connection has declared."""
        return [*self.open_transport.exchanges.declared]

    def list_bindings(self) -> Generator[tuple[str, str, str], None, None]:
        """Yield queue, exchange and routing key of the durable bindings of these exchanges."""
        for exchange in self.get_exchanges():
            for key, _, queue in self.get_table(exchange):
                yield queue, exchange, key

    @apart_from_event_loops
    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        """Declare a queue. Queues without tasks are transient if they are auto-deleting or exclusive.

        RabbitMQ's arguments are used only if this creates the queue, see ``message.py``. Messages are counted up
        to a million if ``passive`` is set. Otherwise they are counted up to 10,000, because each process declares
        the queues that it publishes to.
        """
        name = text(queue, "The name of a queue") or f"{GENERATED}{new_message_id()}"
        transport, is_exclusive = self.open_transport, bool(options.get("exclusive"))
        ends = is_exclusive or bool(options.get("auto_delete"))
        if passive:
            if not (self._is_transient(name) or transport.declarations.exists(name)):
                raise ChannelError(f"There is no queue {queue!r}.", (50, 10), "Channel.queue_declare", 404)
            return queue_declare_ok_t(name, transport.declarations.size(name, MOST_COUNTED), 0)
        if ends and _becomes_transient(transport, name):
            transport.transient.declare(name, exclusive=is_exclusive)
            return queue_declare_ok_t(name, 0, 0)
        rules = options_in(options.get("arguments"))
        _note_priorities(name, options.get("arguments"))
        if ends:
            rules["auto_delete"] = True
            transport.transient.inherited.add(name)
            if is_anonymous(name):
                rules.setdefault("expires_seconds", BINDING_SECONDS)
        return queue_declare_ok_t(name, _declare_durable(transport, name, rules, is_exclusive=is_exclusive), 0)

    def prepare_queue_arguments(self, arguments: Any, **more: Any) -> Any:
        """Return the arguments, with the limits and the time to live that Kombu's ``Queue`` has as attributes."""
        return with_attributes(arguments, **more)

    def _is_transient(self, queue: str, *, to_publish: bool = False) -> bool:
        """Whether any connection has declared the queue transient.

        Raises ResourceLocked if it is exclusive to another connection, unless it is only ``to_publish``. A lasting
        queue that this process knows needs no statement: it is neither transient nor exclusive.
        """
        transport = self.open_transport
        if queue in transport.transient.queues:
            return True
        if not transport.declarations.knows(queue):
            return transport.transient.find(queue, to_publish=to_publish)
        if not (to_publish or transport.declarations.as_last_read(queue).is_lasting):
            transport.transient.check_access(queue)
        return False

    def _home(self, queue: str) -> TransientQueues | Declarations:
        """Return the object that can purge the queue. Raises ResourceLocked for another connection's queue."""
        return self.open_transport.transient if self._is_transient(queue) else self.open_transport.declarations

    @apart_from_event_loops
    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Bind a queue. The default binding of a queue, to its own name, needs no row.

        The argument ``x-selector`` is a condition on messages. A binding to a headers exchange takes AMQP's
        arguments. Raises NotFound for an exchange that was not declared, MalformedSelector, and ConfigurationError
        for arguments that cannot be a condition.
        """
        queue, exchange, routing_key = plain(queue), plain(exchange) or "amq.direct", plain(routing_key) or ""
        _check_binding(exchange, routing_key)
        transport, is_transient = self.open_transport, self._is_transient(queue)
        kind = transport.exchanges.type_of(exchange, "Queue.bind")
        selector = _selector_in(arguments or {}, exchange_type=kind)
        is_default = kind == "direct" and exchange == routing_key == queue and not selector
        transport.exchanges.note_change(exchange)
        if not is_transient:
            if not is_default:
                transport.declarations.bind(queue, exchange, kind, routing_key, selector)
        elif selector or kind == "headers":
            raise ConfigurationError(f"{queue!r} is a transient queue: bind it without a condition on headers.")
        else:
            transport.transient.bind(queue, exchange, kind, routing_key)

    @apart_from_event_loops
    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,  # noqa: ARG002 - AMQP's signature
        **_: Any,
    ) -> None:
        """Remove a binding."""
        queue, exchange, routing_key = plain(queue), plain(exchange) or "amq.direct", plain(routing_key) or ""
        _check_binding(exchange, routing_key)
        if self._is_transient(queue):
            self.open_transport.transient.unbind(queue, exchange, routing_key)
        else:
            self.open_transport.declarations.unbind(queue, exchange, routing_key)
        self.open_transport.exchanges.note_change(exchange)

    @apart_from_event_loops
    def exchange_bind(
        self,
        destination: str,
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,  # noqa: ARG002 - AMQP's signature
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Let an exchange pass messages on to another. Raises as ``queue_bind`` does."""
        destination, source, routing_key = plain(destination), plain(source), plain(routing_key) or ""
        _check_binding(destination, routing_key)
        _check_binding(source, routing_key)
        exchanges = self.open_transport.exchanges
        exchanges.type_of(destination, "Exchange.bind")
        kind = exchanges.type_of(source, "Exchange.bind")
        exchanges.bind(destination, source, routing_key, _selector_in(arguments or {}, exchange_type=kind))

    @apart_from_event_loops
    def exchange_unbind(
        self,
        destination: str,
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,  # noqa: ARG002 - AMQP's signature
        arguments: Mapping[str, Any] | None = None,  # noqa: ARG002 - as above
    ) -> None:
        """Remove a binding between exchanges."""
        self.open_transport.exchanges.unbind(plain(destination), plain(source), plain(routing_key) or "")

    @apart_from_event_loops
    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:  # noqa: ARG002 - Kombu's signature
        """Delete an exchange and its bindings. Its queues stay, unlike with Kombu's virtual transports.

        Nothing happens if queues are bound to it and ``if_unused`` is set.
        """
        exchange, transport = plain(exchange), self.open_transport
        found = transport.exchanges.find(exchange)
        if found is None or (if_unused and (found.routes or found.transient or found.exchanges)):
            return
        for route in found.transient:
            transport.transient.unbind(route.queue, exchange, route.pattern)
        transport.exchanges.delete(exchange)

    @apart_from_event_loops
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> int:
        """Delete a queue and return how many messages were in it.

        A durable queue stays if workers hold messages of it. A queue stays if it has messages and ``if_empty`` is
        set, or if it is consumed here and ``if_unused`` is set.
        """
        queue = plain(queue)
        if if_unused and queue in self._queues.values():
            return 0
        transport = self.open_transport
        if self._is_transient(queue):
            return transport.transient.delete(queue, if_empty=if_empty)
        removed = transport.declarations.delete(queue, force=not if_empty)
        if queue in transport.transient.inherited and not transport.declarations.exists(queue):
            transport.transient.delete(queue)
        return removed

    @apart_from_event_loops
    def get_table(self, exchange: str) -> list[tuple[str, str, str]]:
        """Return (routing key, pattern, queue) of the durable bindings of an exchange."""
        found = self.open_transport.exchanges.find(exchange)
        return [(route.pattern, route.pattern, route.queue) for route in (found.routes if found else ())]

    @apart_from_event_loops
    def queue_purge(self, queue: str, **_: Any) -> int:
        """Remove the messages of a queue that no worker holds; return how many there were."""
        return self._home(plain(queue)).purge(plain(queue))

    # Publishing.

    def prepare_message(  # noqa: PLR0917 - Kombu's signature, called by position
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the message as Kombu's method does, and with an id. Priority 0 differs from no priority.

        Kombu passes the same ``properties`` when it repeats a failed publish, so the id stays the same.
        """
        properties = {} if properties is None else properties
        properties.setdefault("delivery_info", {})
        properties.setdefault("priority", given(priority, headers))
        if MESSAGE_ID not in properties:
            properties[MESSAGE_ID] = new_message_id()
        return {
            "body": body,
            "content-encoding": content_encoding,
            "content-type": content_type,
            "headers": headers or {},
            "properties": properties,
        }

    @apart_from_event_loops
    def basic_publish(
        self,
        message: dict[str, Any] | str,
        exchange: str,
        routing_key: str,
        batch: Batch | None = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
        **_: Any,
    ) -> None:
        """Write the message into each queue that it is routed to, in the caller's transaction or with a batch.

        Raises NotFound for an exchange that was not declared. A ``mandatory`` message that no queue takes is
        returned: to the callbacks of ``events["basic_return"]``, or as a ChannelError if there are none. Kombu's
        transport option ``deadletter_queue`` names a queue that takes all messages without a route.
        """
        if isinstance(message, str):  # ``celery amqp`` passes only the text
            message = self.prepare_message(message, content_type="text/plain", content_encoding="utf-8")
        if immediate:
            raise ConfigurationError("immediate is not supported, nor is it by RabbitMQ. Publish without it.")
        exchange, routing_key = plain(exchange), plain(routing_key)
        message["properties"]["delivery_info"].update(exchange=exchange or "", routing_key=routing_key)
        durable, transient = self._routes(exchange, routing_key, message, mandatory=mandatory)
        if not (durable or transient) and self.deadletter_queue:
            undeliverable = UNDELIVERABLE_FMT.format(exchange=exchange, routing_key=routing_key)
            warnings.warn(UndeliverableWarning(undeliverable), stacklevel=2)
            durable = [self.deadletter_queue]
        if transient:
            self.open_transport.transient.put(transient, message)
        if durable:
            self.open_transport.publisher.publish(durable, message, batch=batch)
        elif mandatory and not transient:
            self._return(message, exchange, routing_key)

    def create_publish_batch(self, max_size: int) -> Batch:
        """Return a batch that collects the messages of ``Producer.batch()``."""

        def write(rows: list[NewMessage], *, again: bool) -> None:
            self.open_transport.publisher.write(rows, again=again)

        return Batch(self, max_size, publish=self.basic_publish, write=write)

    def _routes(
        self, exchange: str, routing_key: str, message: dict[str, Any], *, mandatory: bool
    ) -> tuple[list[str], list[str]]:
        """Return the durable and the transient queues that a message goes to."""
        transport = self.open_transport
        if not exchange:
            if self._is_transient_for(message, routing_key):
                return [], [routing_key]
            exists = not mandatory or transport.declarations.exists(routing_key) or may_declare(routing_key)
            return ([routing_key] if exists else []), []
        text(routing_key, "routing_key")
        as_message = partial(transport.publisher.as_message, message)
        reached = transport.exchanges.reached(exchange, routing_key, as_message, inside=is_task(message))
        if reached is None and not self.deadletter_queue:
            raise not_found(exchange, "Basic.publish")
        return reached or ([], [])

    def _is_transient_for(self, message: dict[str, Any], queue: str) -> bool:
        """Whether a message to the queue is transient. Raises ConfigurationError for a task to a queue of replies.

        No task is transient. The queue may be one of the previous version: a worker of this version reads both.
        """
        is_transient = self._is_transient(queue, to_publish=True) or (
            is_reply(message, queue) and not self.open_transport.declarations.knows(queue)
        )
        if not (is_transient and is_task(message)):
            return is_transient
        if has_no_tasks(queue):
            raise ConfigurationError(
                f"Queue {queue!r} is transient, so a task in it could be lost. Rename it: a UUID is for replies."
            )
        return False

    def _return(self, message: dict[str, Any], exchange: str, routing_key: str) -> None:
        """Return a message that no queue takes, as amqp does."""
        error = ChannelError("NO_ROUTE", (60, 50), "Basic.return", 312)
        if not self.events["basic_return"]:
            raise error
        returned = message | {"properties": message["properties"] | {"delivery_tag": None}}
        for callback in self.events["basic_return"]:
            callback(error, exchange, routing_key, self.Message(returned, channel=self))

    # Consuming.

    def basic_consume(
        self,
        queue: str,
        no_ack: bool = False,
        callback: Callable[[Any], Any] | None = None,
        consumer_tag: str | None = None,
        arguments: dict[str, Any] | None = None,
        **_: Any,
    ) -> str:
        """Consume a queue from now on, with RabbitMQ's ``x-priority`` and our ``x-selector`` if they are given.

        Raises ChannelError if the priority is not a whole number, ResourceLocked for another connection's queue,
        MalformedSelector, ConfigurationError for the selector of a transient queue, and BridgeMisused for a queue
        with a bridge.
        """
        queue, tag = plain(queue), consumer_tag or str(new_message_id())
        if not self._is_transient(queue):
            _refuse_bridge(queue, self.open_transport.declarations.options(queue).added.get("bridge"))
        selector = _selector_in(arguments or {})
        if self._is_transient(queue) and selector:
            raise ConfigurationError(f"{queue!r} is a transient queue: consume it without a selector.")
        consumer = TaskConsumer(
            queue=queue,
            tag=tag,
            qos=self.qos,
            callback=partial(self.deliver, callback=callback, no_ack=no_ack),
            priority=consumer_priority(arguments),
            selector=Selector(selector) if selector else None,
        )
        self._queues[tag] = queue
        self.open_transport.deliveries.consume(consumer)
        return tag

    def deliver(
        self, payload: dict[str, Any], callback: Callable[[Any], Any] | None, *, no_ack: bool = False
    ) -> str:
        """Pass a message to a consumer's callback and return its delivery tag.

        In a worker's event loop, an exception of the callback fails the message and does not end the loop.
        """
        message = self._received(payload, no_ack=no_ack)
        if callback is not None:
            try:
                callback(message)
            except self.transport.connection_errors:
                raise
            except Exception as error:
                if not self.transport.deliveries.on_loop:
                    raise
                logger.exception("Message %s could not be received", message.properties.get("correlation_id"))
                self._fail(message, error)
        return str(message.delivery_tag)

    def _received(self, payload: dict[str, Any], *, no_ack: bool) -> ClaimedMessage:
        message: ClaimedMessage = self.Message(payload, channel=self)
        if message.claimed is not None:
            self.qos.delivered[message.claimed.queue_name] += 1
        if not no_ack:
            self.qos.append(message, str(message.delivery_tag))
        elif message.claimed is not None:
            message.session.accept(message.claimed)
        return message

    def _fail(self, message: ClaimedMessage, error: Exception) -> None:
        if self.qos.take(str(message.delivery_tag)) is not None:
            claimed, policy = message.claimed, self.policy_of(message.claimed.queue_name)
            reason = f"could not be received: {error}"
            message.session.settle(judged(claimed, Ending.FAILED, policy, reason, Failure.of(error)))

    def basic_cancel(self, consumer_tag: str) -> None:
        """Stop consuming at once, unless a later consumer of the connection has taken the queue over."""
        queue = self._queues.pop(consumer_tag, None)
        if queue is None:
            return
        deliveries = self.open_transport.deliveries
        consumer = deliveries.consumer_of(queue)
        if consumer is not None and consumer.qos is self.qos and consumer.tag == consumer_tag:
            deliveries.cancel(queue)

    def close(self) -> None:
        """Cancel all consumers, and give back the messages that have not begun."""
        if not self.closed:
            for tag in list(self._queues):
                self.basic_cancel(tag)
        super().close()

    @apart_from_event_loops
    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """Claim one message, or return None. Raises ResourceLocked for another connection's queue."""
        queue = plain(queue)
        self._is_transient(queue)
        payload = self.open_transport.deliveries.get_one(queue)
        return None if payload is None else self._received(payload, no_ack=no_ack)

    # Settling.

    @property
    def given_credit(self) -> int | None:
        """The credit that an operator has given each consumer, or None."""
        return None if self.connection is None else self.transport.deliveries.given_credit

    def note_settled(self) -> None:
        """Let the loop learn, from any thread, that credit came back."""
        self.transport.deliveries.note_settled()

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Settle a message as done, with ``multiple`` also the messages that were delivered before it."""
        for tag in self.qos.delivered_until(delivery_tag) if multiple else [delivery_tag]:
            self.qos.ack(tag)

    def policy_of(self, queue: str) -> Policy:
        """Return the failure options of a queue as last read. This makes no query."""
        return self.transport.declarations.as_last_read(queue)

    def judge(self, message: ClaimedMessage, *, requeue: bool) -> None:
        """Settle a rejected message. It returns to its place with ``requeue``, otherwise it becomes a dead letter.

        It also becomes a dead letter if it has come back too often. This makes no query, because it may interrupt
        a claim, or run in another thread.
        """
        policy = self.policy_of(message.claimed.queue_name)
        message.session.settle(rejected(message.claimed, policy, _reason(message), requeue=requeue))


def _becomes_transient(transport: Transport, queue: str) -> bool:
    """Whether a queue that ends with its program is transient: without tasks, unless it is durable already."""
    if queue in transport.transient.queues:
        return True
    return has_no_tasks(queue) and not (is_id(queue) and transport.declarations.exists(queue))


def _declare_durable(transport: Transport, name: str, rules: dict[str, Any], *, is_exclusive: bool) -> int:
    """Create the queue unless it exists; return how many messages it has. Raises ResourceLocked."""
    transient, declarations = transport.transient, transport.declarations
    exists = declarations.exists(name)
    is_lasting = exists and declarations.as_last_read(name).is_lasting
    if is_exclusive:
        if is_lasting:
            raise locked(name, "it exists already, and is not exclusive")
        transient.lock(name)
    elif not is_lasting:
        transient.check_durable(name)
    declarations.declared[name] = rules
    if not exists:
        declarations.create(name)
        return 0
    if "expires_seconds" in rules:
        declarations.note_use(name)
    return declarations.size(name, FEW_COUNTED)


def _reason(message: ClaimedMessage) -> str:
    """Return why a message was rejected. Celery rejects tasks that it does not know."""
    state = sys.modules.get("celery._state")
    task = message.headers.get("task")
    app = state.get_current_app() if state is not None and "celery.worker.state" in sys.modules else None
    if app is not None and task is not None and task not in app.tasks:
        return f"unknown task {task}"
    return REJECTED


#: The queues of this process of which the log says that they have fewer priorities than they are declared with.
_noted: set[str] = set()


def _note_priorities(queue: str, arguments: Mapping[str, Any] | None) -> None:
    """Warn once of a queue that is declared with more priorities than there are here."""
    if has_more_priorities(arguments) and queue not in _noted:
        _noted.add(queue)
        logger.warning(
            "Queue %r is declared with %s=%s, but priorities end at %s here: larger ones count as %s, and such"
            " messages run in their order of arrival. Use priorities from 0 to %s",
            queue,
            MAX_PRIORITY,
            (arguments or {})[MAX_PRIORITY],
            *[HIGHEST_PRIORITY] * 3,
        )


def _refuse_bridge(queue: str, bridge: str | None) -> None:
    """Raise BridgeMisused for a queue with a bridge: its worker sends the tasks on."""
    if bridge:
        raise BridgeMisused(
            f"The queue {queue!r} has the bridge {bridge!r}: its tasks run on the workers of the other broker."
            " Leave it out of -Q and task_queues here, and start manage.py mq_worker, which forwards the tasks."
        )


def _selector_in(arguments: Mapping[str, Any], *, exchange_type: str = "") -> str:
    """Return the selector in the arguments of a consumer, or of a binding, blank if there is none."""
    selector = headers_selector(arguments) if exchange_type == "headers" else arguments.get("x-selector", "")
    return selector and check_selector(selector)


def _check_binding(exchange: Any, routing_key: Any) -> None:
    """Raise InvalidMessage if a binding cannot have this exchange or this routing key."""
    text(exchange, "The name of an exchange", limit=NAME_LENGTH)
    text(routing_key, "routing_key", limit=NAME_LENGTH)


#: A worker that has lost the database tries for so long, in seconds, before Celery tries, with longer pauses.
RECONNECT_SECONDS = 60.0


class WrongAddress(BrokerURLError, OperationalError):  # noqa: N818 - named as all errors of django_mq
    """The broker URL leads nowhere. To Kombu it is a connection error that it does not retry."""


class WrongAddressOfSeveral(BrokerURLError, OperationalError, ConnectionError):  # noqa: N818 - as above
    """The same where there are several URLs: Kombu tries the next."""


class Transport(virtual.Transport):
    """``django-mq://``; see ``url.py`` for the URL."""

    Channel = Channel
    driver_type = "django-mq"
    driver_name = "django_mq"
    can_parse_url = True
    connection_errors = (*virtual.Transport.connection_errors, StoreError)
    #: Kombu tries again, with a new connection, after these. It does not after other errors of the database, which
    #: would refuse the statement again, above all inside the caller's broken transaction.
    recoverable_connection_errors = (
        StoreUnavailable,
        SessionLost,
        TablesMissing,
        ConnectionError,
        RecoverableConnectionError,
    )
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
        self._committing = Committing(self.alias, self._consuming_session)
        self.transient = TransientQueues(self._committing, redis_order=redis_order)
        self.declarations = Declarations(self.alias, self._committing)
        self.exchanges = ExchangeTable(self._committing, self.declarations)
        self.publisher = Publisher(self.alias, self.declarations, self._committing, redis_order=redis_order)
        self.deliveries = TransportConsumers(
            self.alias,
            address,
            declarations=self.declarations,
            transient=self.transient,
            publisher=self.publisher,
        )
        self._driver = LoopDriver(self.deliveries)

    def _consuming_session(self) -> Session | None:
        return self.deliveries.consuming_session

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
                    store.queues.find("")
            except StoreUnavailable as error:
                if time.monotonic() > end or told_to_stop():
                    raise
                outages.database(self.alias).failed(self, error)
            else:
                return
            time.sleep(outages.pause_seconds(failures))

    @property
    def _is_reconnecting(self) -> bool:
        """Whether a worker that has left its loop connects again, and there is no other broker."""
        others = self.client is not None and len(self.client.alt or ()) > 1
        return not others and has_left()

    @apart_from_event_loops
    def close_connection(self, connection: Any) -> None:
        """Give back the messages that have not begun; running tasks may settle until they end."""
        self._driver.leave()
        self.deliveries.buffer.release()
        super().close_connection(connection)
        for unlocked in self.transient.close():
            self.deliveries.note_left(unlocked)
        self.deliveries.retire()
        self._committing.close()

    def driver_version(self) -> str:
        return django_mq.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:  # noqa: ARG002 - Kombu's signature
        """Return the URL, which has no password."""
        return uri

    def kept(self) -> AbstractContextManager[Store]:
        """Use a store that commits each statement."""
        return self._committing()

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:  # noqa: ARG002 - Kombu's signature
        """Deliver one message, as Kombu's own loops count. Raises TimeoutError if none comes in time."""
        self._driver.drain(timeout)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:  # noqa: ARG002 - Kombu's signature
        """Let the event loop of a worker drive this transport."""
        self._committing.enter_worker()
        self._driver.enter(loop)


@worker_init.connect(dispatch_uid="django_mq.step", weak=False)
def _install_step(sender: Any, **_: Any) -> None:
    """Add the worker step. A worker imports the transport of its broker before it sends this signal."""
    from django_mq.integrations.celery.step import install  # noqa: PLC0415 - other programs need no worker's modules

    install(sender)


@worker_shutdown.connect(dispatch_uid="django_mq.close", weak=False)
def _close_session(**_: Any) -> None:
    """Close the session of a worker whose pool has ended. After HUP, Celery does not come to our ``atexit``."""
    close_retired()


def read(client: Any) -> tuple[Address, BrokerURLError | None]:
    """Return where a Kombu connection leads, and the error to raise when it connects, if its URL is wrong."""
    try:
        address = current(client)
        check_alias(address)
    except BrokerURLError as error:
        several = len(client.alt or ()) > 1
        return Address(), (WrongAddressOfSeveral if several else WrongAddress)(str(error))
    return address, None
