"""The channel: queues declared, messages published and consumed, over the store.

Kombu's virtual channel carries the AMQP emulation; here are the methods on the hot path,
and those whose meaning a durable store changes.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp.exceptions import RecoverableConnectionError
from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.transport import virtual

from django_mq.delivery.codecs import new_message_id
from django_mq.delivery.validation import plain, text
from django_mq.engine.names import NAME_LENGTH
from django_mq.engine.verdict import Ending
from django_mq.integrations.celery.message import MESSAGE_ID, consumer_priority, given, options_in, with_attributes
from django_mq.integrations.celery.message import Message as ClaimedMessage
from django_mq.integrations.celery.publisher import Batch
from django_mq.integrations.celery.qos import ChannelQoS, judged
from django_mq.integrations.celery.transient_queues import is_mailbox, locked
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.records import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.verdict import Policy
    from django_mq.integrations.celery.transport import Transport

logger = logging.getLogger("django_mq.celery")


class Channel(virtual.Channel):
    """One channel of the transport; all channels of a transport share its session."""

    Message = ClaimedMessage
    QoS = ChannelQoS  # type: ignore[assignment]  # stands in for it without being one
    qos: ChannelQoS  # type: ignore[assignment]
    supports_fanout = True
    #: Bodies are stored as the bytes they are.
    body_encoding: Any = None
    do_restore = True
    connection: Transport

    def __init__(self, connection: Transport, **options: Any) -> None:
        super().__init__(connection, **options)
        # Kept beyond close(), which cuts the connection: acknowledgements of running tasks come later.
        self._transport = connection
        #: Queue to the priority of its consumer, as AMQP's argument gave it.
        self._priorities: dict[str, int] = {}

    @property
    def open_transport(self) -> Transport:
        """The transport. Raises RecoverableConnectionError on a closed channel, so that Kombu opens another."""
        if self.connection is None:  # close() itself still uses it
            raise RecoverableConnectionError("The channel is closed.")
        return self._transport

    # Declaring.

    @apart_from_event_loops
    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        """Declare a queue: durable ones become rows, the others are transient queues.

        RabbitMQ's arguments count where they create the queue, see ``message.py``.
        """
        name = text(queue, "The name of a queue") or f"amq.gen-{new_message_id()}"
        if passive:
            if not self._has_queue(name):
                raise ChannelError(f"There is no queue {queue!r}.", (50, 10), "Channel.queue_declare", 404)
        elif _is_volatile(options):
            self._declare_volatile(name, exclusive=bool(options.get("exclusive")))
            return queue_declare_ok_t(name, 0, 0)
        else:
            self._declare_durable(name, options.get("arguments"))
        return queue_declare_ok_t(name, self._size(name), 0)

    def _declare_volatile(self, name: str, *, exclusive: bool) -> None:
        if exclusive and not is_mailbox(name) and self.open_transport.declarations.exists(name):
            raise locked(name, "it is there already, and not exclusive")
        self.open_transport.transient.declare(name, exclusive=exclusive)

    def _declare_durable(self, name: str, arguments: Any) -> None:
        rules = options_in(arguments)
        if not self.open_transport.declarations.exists(name):
            self.open_transport.transient.refuse_others_queue(name)
        self.open_transport.declarations.ensure(name, rules=rules)

    def prepare_queue_arguments(self, arguments: Any, **more: Any) -> Any:
        """Return the arguments with what Kombu's queue has attributes for: limits and a time to live."""
        return with_attributes(arguments, **more)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self._is_transient(queue) or self.open_transport.declarations.exists(queue)

    def _is_transient(self, queue: str) -> bool:
        """Whether a queue is volatile, whoever declared it. Raises ResourceLocked if it is another connection's.

        No statement is made for a durable queue whose name is known: no transient queue has it.
        """
        transient = self.open_transport.transient
        return queue in transient.queues or (
            not self.open_transport.declarations.knows(queue) and transient.find(queue)
        )

    @apart_from_event_loops
    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Bind a queue. The binding every queue has by default, to its own name, needs no row."""
        queue, exchange, routing_key = plain(queue), plain(exchange) or "amq.direct", plain(routing_key)
        _check_binding(exchange, routing_key)
        kind = self._type_of(exchange)
        self.state.binding_declare(queue, exchange, routing_key, arguments)
        if queue in self.open_transport.transient.queues:
            self.open_transport.transient.bind(queue, exchange, kind, routing_key or "")
        elif kind == "direct" and exchange == routing_key == queue:
            return
        elif self._is_transient(queue):
            self.open_transport.transient.bind(queue, exchange, kind, routing_key or "")
        else:
            self.open_transport.declarations.bind(queue, exchange, kind, routing_key or "")

    def _type_of(self, exchange: str) -> str:
        declared = (self.state.exchanges or {}).get(exchange)
        return str(declared["type"]) if declared else "direct"

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
        queue, exchange, routing_key = plain(queue), plain(exchange), plain(routing_key)
        _check_binding(exchange, routing_key)
        self.state.binding_delete(queue, exchange or "", routing_key)
        self.open_transport.declarations.unbind(queue, exchange or "amq.direct", routing_key or "")

    @apart_from_event_loops
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> int:
        """Delete a queue and return how many messages went with it.

        One whose messages are held stays, as do one with messages if ``if_empty`` and one
        that is consumed here if ``if_unused``.
        """
        queue = plain(queue)
        if if_unused and queue in self._active_queues:
            return 0
        is_transient = self._is_transient(queue)
        self.state.queue_bindings_delete(queue)
        if is_transient:
            return self.open_transport.transient.drop(queue)
        return self.open_transport.declarations.delete(queue, force=not if_empty)

    @apart_from_event_loops
    def after_reply_message_received(self, queue: str) -> None:
        """Forget a reply queue; its next message would have nobody to go to."""
        self.open_transport.transient.drop(queue)

    @apart_from_event_loops
    def get_table(self, exchange: str) -> list[tuple[str, str, str]]:
        """Return (routing key, pattern, queue) of the durable bindings of an exchange."""
        bindings = self.open_transport.declarations.bindings(exchange)
        return [(pattern, pattern, queue) for _, pattern, queue in bindings]

    @apart_from_event_loops
    def _size(self, queue: str) -> int:
        return self.open_transport.declarations.size(queue)

    @apart_from_event_loops
    def _purge(self, queue: str) -> int:
        queue = plain(queue)
        if self._is_transient(queue):
            return self.open_transport.transient.purge(queue)
        return self.open_transport.declarations.purge(queue)

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
        """As Kombu's, but a priority of 0 differs from none, and the message gets its id here.

        Kombu passes the same ``properties`` again when it retries a publish, so the id is
        made once for all tries.
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
        self, message: dict[str, Any] | str, exchange: str, routing_key: str, batch: Batch | None = None, **_: Any
    ) -> None:
        """Write the message into every queue it is routed to, in the caller's transaction, or with a batch."""
        if isinstance(message, str):  # ``celery amqp`` says no more
            message = self.prepare_message(message, content_type="text/plain", content_encoding="utf-8")
        exchange, routing_key = plain(exchange), plain(routing_key)
        message["properties"]["delivery_info"].update(exchange=exchange or "", routing_key=routing_key)
        if not exchange and self._leads_to_transient(routing_key):
            self.open_transport.transient.put([routing_key], message)
            return
        durable, volatile = self._routes(exchange, routing_key)
        if volatile:
            self.open_transport.transient.put(volatile, message)
        if durable:
            self.open_transport.publisher.publish(durable, message, batch=batch)

    def _leads_to_transient(self, queue: str) -> bool:
        """Whether the name is that of a transient queue. For a known durable queue, no statement is made."""
        transient = self.open_transport.transient
        return queue in transient.queues or (
            not self.open_transport.declarations.knows(queue) and transient.reaches(queue)
        )

    def create_publish_batch(self, max_size: int) -> Batch:
        """Return what gathers the messages of ``Producer.batch()``."""
        return Batch(self, max_size)

    def _routes(self, exchange: str, routing_key: str) -> tuple[list[str], list[str]]:
        if not exchange:
            return [routing_key], []
        text(routing_key, "routing_key")
        kind = self._type_of(exchange)
        durable = self.open_transport.declarations.bound_queues(exchange, routing_key)
        volatile = self.open_transport.transient.bound_queues(exchange, kind, routing_key)
        if not durable and not volatile and kind == "direct" and exchange == routing_key:
            durable = [routing_key]
        return durable, volatile

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
        """Add the queue to those this transport claims from, with RabbitMQ's ``x-priority`` if it is given.

        Raises ChannelError if that is no whole number, and ResourceLocked for another connection's queue.
        """
        queue = plain(queue)
        self._is_transient(queue)
        self._priorities[queue] = consumer_priority(arguments)
        consumer_tag = consumer_tag or str(new_message_id())
        self._tag_to_queue[consumer_tag] = queue
        self._active_queues.append(queue)
        self._consumers.add(consumer_tag)

        self.open_transport.consume(queue, self, partial(self.deliver, callback=callback, no_ack=no_ack))
        return consumer_tag

    def deliver(
        self, payload: dict[str, Any], callback: Callable[[Any], Any] | None, *, no_ack: bool = False
    ) -> str:
        """Give a message to a consumer's callback; return its delivery tag."""
        message = self.Message(payload, channel=self)
        tag = str(message.delivery_tag)
        if no_ack:
            self.settle_at_once(message)
        else:
            self.qos.append(message, tag)
        if callback is not None:
            self._receive(message, callback)
        return tag

    def _receive(self, message: ClaimedMessage, callback: Callable[[Any], Any]) -> Any:
        """Give a message to its consumer. On a worker's loop no message may end the worker."""
        try:
            return callback(message)
        except self._transport.connection_errors:
            raise
        except Exception as error:
            if not self._transport.on_loop:
                raise
            logger.exception("Message %s could not be received", message.properties.get("correlation_id"))
            self._try_again(message, error)

    def _try_again(self, message: ClaimedMessage, error: Exception) -> None:
        claimed = message.claimed
        if claimed is not None and self.qos.take(str(message.delivery_tag)) is not None:
            reason = f"could not be received: {error}"
            policy = self.policy_of(claimed.queue_name)
            message.session.settle(judged(claimed, Ending.FAILED, policy, reason, Failure.of(error)))

    def priority_of(self, queue: str) -> int:
        """Return the priority of the consumer of a queue."""
        return self._priorities.get(queue, 0)

    def settle_at_once(self, message: Any) -> None:
        """Accept a message whose consumer asked for no acknowledgements."""
        if message.claimed is not None:
            message.session.accept(message.claimed)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Stop claiming from the consumer's queue, at once."""
        if consumer_tag not in self._consumers:
            return
        self._consumers.remove(consumer_tag)
        queue = self._tag_to_queue.pop(consumer_tag, None)
        if queue in self._active_queues:
            self._active_queues.remove(queue)
        self.open_transport.cancel(queue)

    @apart_from_event_loops
    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """Claim one message, or return None. Raises ResourceLocked for another connection's queue."""
        queue = plain(queue)
        self._is_transient(queue)
        payload = self.open_transport.get_one(queue)
        if payload is None:
            return None
        message = self.Message(payload, channel=self)
        if no_ack:
            self.settle_at_once(message)
        else:
            self.qos.append(message, str(message.delivery_tag))
        return message

    def _reset_cycle(self) -> None:
        """Nothing cycles: the transport claims for all channels at once."""

    # Settling.

    def wake_driver(self) -> None:
        """Tell the transport's loop that credit came back, where another thread settled."""
        self._transport.wake_from_other_thread()

    def policy_of(self, queue: str) -> Policy:
        """Return what was last read of a queue, without asking the database."""
        return self._transport.declarations.remembered(queue)

    def judge(self, message: ClaimedMessage, *, requeue: bool) -> None:
        """Settle a rejected message: back to its place, or dead when it may not or has come back too often.

        Nothing is asked of the database: this may interrupt a claim, or run in another thread.
        """
        ending, reason = (Ending.FAILED, "requeued too often") if requeue else (Ending.REJECTED, _reason(message))
        policy = self.policy_of(message.claimed.queue_name)
        message.session.settle(judged(message.claimed, ending, policy, reason, delay_seconds=0.0))


def _reason(message: ClaimedMessage) -> str:
    """Say why a message was rejected: Celery does it to tasks it does not know."""
    state = sys.modules.get("celery._state")
    task = message.headers.get("task")
    app = state.get_current_app() if state is not None and "celery.worker.state" in sys.modules else None
    if app is not None and task is not None and task not in app.tasks:
        return f"unknown task {task}"
    return "rejected"


def _check_binding(exchange: Any, routing_key: Any) -> None:
    """Raise InvalidMessage for what cannot be written into a binding."""
    text(exchange, "The name of an exchange", limit=NAME_LENGTH)
    text(routing_key, "routing_key", limit=NAME_LENGTH)


def _is_volatile(options: dict[str, Any]) -> bool:
    """Whether a queue goes with whoever reads it. One that is only not durable keeps its messages: we can."""
    return bool(options.get("auto_delete") or options.get("exclusive"))
