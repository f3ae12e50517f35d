"""Connections to the other broker. A worker's thread has one, and no other thread uses it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from django_mq.bridges.alias_link import SCHEME, AliasLink
from django_mq.bridges.connection import connection_to
from django_mq.bridges.declared import address_of
from django_mq.engine.decisions.bridges import AMQP, in_turn, told
from django_mq.engine.decisions.forwarding import Answered, BrokerAnswer
from django_mq.errors import BridgeAway, UnfitForBridge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.bridges.outgoing import Outgoing
    from django_mq.engine.decisions.bridges import Bridge

#: How often an idle connection says that it lives, in seconds.
HEARTBEAT_SECONDS: Final = 60
#: How many bytes of messages are gathered at most, to be written together.
GATHERED_BYTES: Final = 65_536
#: The replies with which AMQP closes a channel because of a message, and not because of how the broker is set up.
BY_MESSAGE: Final = frozenset({311, 406})


class Link(Protocol):
    """A connection through which messages are published."""

    #: Whether the broker confirms what it has. Without, a message counts as confirmed when it was written.
    confirms: bool
    #: Whether the broker takes nothing for now.
    is_blocked: bool

    def publish(self, message: Outgoing, routing_key: str) -> int:
        """Publish, and return the number of the delivery. Raises UnfitForBridge, and BridgeAway."""

    def answers(self, seconds: float) -> list[Answered]:
        """Return what the broker has said, waiting so long for something. Raises BridgeAway."""

    def forget(self, tag: int) -> None:
        """Forget a delivery that was answered."""

    def close(self) -> None:
        """Close the connection. Never raises."""


def open_link(bridge: Bridge, queues: Iterable[str], turn: int = 0) -> Link:
    """Connect to the broker, or to the first one that answers, and declare what is to be declared there.

    Each ``turn`` begins with another address. Raises BridgeAway and ConfigurationError, which have no credentials.
    """
    queues, last = tuple(queues), BridgeAway(f"The bridge {bridge.name!r} has no URL.")
    for address in in_turn(address_of(bridge), turn):
        scheme = address.partition("://")[0]
        kind = AliasLink if scheme == SCHEME else AMQPLink if scheme in AMQP else KombuLink
        try:
            return kind(bridge, address, queues)
        except BridgeAway as error:
            last = error
    raise last


def routing_key_of(bridge: Bridge, queue: str) -> str:
    """Return the routing key of messages of a queue."""
    key = bridge.options.routing_key
    return queue if key is None else key


def _declare(bridge: Bridge, channel: Any, queues: Iterable[str]) -> None:
    """Declare the durable queues, and bind them, if the bridge says so."""
    from kombu import Exchange, Queue  # noqa: PLC0415 - as above

    options = bridge.options
    if not options.declare:
        return
    for name in dict.fromkeys(routing_key_of(bridge, queue) for queue in queues):
        # An exchange of the site may have any type: it is there, or the broker says that it is not.
        exchange = Exchange(options.exchange, passive=True, no_declare=not options.exchange)
        queue = Queue(name, exchange, routing_key=name, queue_arguments=dict(options.arguments) or None)
        queue(channel).queue_declare()
        if options.exchange:
            queue(channel).queue_bind()


class AMQPLink:
    """A channel of py-amqp with publisher confirms, many in flight."""

    confirms = True

    def __init__(self, bridge: Bridge, address: str, queues: Iterable[str]) -> None:
        self._bridge, self._address = bridge, address
        self.is_blocked = False
        self._tag = 0
        self._answers: list[Answered] = []
        # By message id and routing key, the deliveries on the way that may be returned, and the other way round.
        self._tags: dict[tuple[str, str], list[int]] = {}
        self._keys: dict[int, tuple[str, str]] = {}
        self._returned: dict[int, str] = {}
        self._beat_at = time.monotonic()
        self._gathered = bytearray()
        self._kombu: Any = None
        try:
            self._kombu = connection_to(
                bridge,
                address,
                HEARTBEAT_SECONDS,
                on_blocked=self._block,
                on_unblocked=self._unblock,
                write_timeout=max(1, int(bridge.options.confirm_seconds)),
            )
            self._amqp: Any = self._kombu.connection
            self._channel: Any = self._kombu.channel()
            _declare(bridge, self._channel, queues)
            self._channel.confirm_select()
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            raise self._away(error) from None
        self._write: Any = self._amqp.transport._write  # noqa: SLF001 - see ``publish``
        self._channel.events["basic_ack"].add(self._on_ack)
        self._channel.events["basic_nack"].add(self._on_nack)
        self._channel.events["basic_return"].add(self._on_return)

    def _away(self, error: BaseException) -> BridgeAway:
        self.close()
        code = getattr(error, "reply_code", None)
        words = told(error, self._address)
        by_message = code in BY_MESSAGE and self._tag > 0
        return BridgeAway(words, by_message=by_message)

    def _block(self, _reason: object = None) -> None:
        self.is_blocked = True

    def _unblock(self) -> None:
        self.is_blocked = False

    def publish(self, message: Outgoing, routing_key: str) -> int:
        """Publish, and return the number of the delivery. Raises UnfitForBridge, and BridgeAway.

        It is written at the next call of ``answers``, together with others.
        """
        from amqp import Message, spec  # noqa: PLC0415 - as above

        options = self._bridge.options
        content: Any = Message(message.body, application_headers=message.headers, **message.properties)
        try:
            properties = content._serialize_properties()  # noqa: SLF001 - before anything is sent
        except Exception as error:  # noqa: BLE001 - what AMQP cannot express
            raise UnfitForBridge(f"{type(error).__name__}: {error}") from None
        content._serialize_properties = lambda: properties  # noqa: SLF001 - it takes long, and is called again
        transport = self._amqp.transport
        transport._write = self._gathered.extend  # noqa: SLF001 - one system call for many messages
        try:
            self._channel.send_method(
                spec.Basic.Publish,
                "Bssbb",
                (0, options.exchange, routing_key, options.mandatory, False),
                content,
            )
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            raise self._away(error) from None
        finally:
            transport._write = self._write  # noqa: SLF001 - as above
        self._tag += 1
        if options.mandatory:
            key = self._keys[self._tag] = message.properties["message_id"], routing_key
            self._tags.setdefault(key, []).append(self._tag)
        if len(self._gathered) > GATHERED_BYTES:
            self._flush()
        return self._tag

    def _flush(self) -> None:
        """Write what was published. Raises BridgeAway."""
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            try:
                self._amqp.transport.write(gathered)
            except Exception as error:  # noqa: BLE001 - as above
                raise self._away(error) from None

    def answers(self, seconds: float) -> list[Answered]:
        """Return what the broker has said, waiting so long for something. Raises BridgeAway."""
        self._flush()
        try:
            self._read(seconds)
            if (now := time.monotonic()) - self._beat_at > HEARTBEAT_SECONDS / 4:
                self._beat_at = now
                self._amqp.heartbeat_tick()
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            raise self._away(error) from None
        answers, self._answers = self._answers, []
        return answers

    def _read(self, seconds: float) -> None:
        """Read what is there, at least one method if it comes in time."""
        with suppress(TimeoutError, socket.timeout):
            # A timeout of 0 would make the socket one that does not block, in which TLS fails.
            self._amqp.drain_events(timeout=max(seconds, 0.0005))
            while not self._is_drained():
                self._amqp.drain_events(timeout=0.0005)

    def _is_drained(self) -> bool:
        import select  # noqa: PLC0415 - as above

        transport = self._amqp.transport
        if transport._read_buffer:  # noqa: SLF001 - else select would wait for what was read
            return False
        pending = getattr(transport.sock, "pending", None)
        if pending is not None and pending():
            return False
        return not select.select([transport.sock], [], [], 0)[0]

    def _on_ack(self, tag: int, multiple: bool) -> None:
        if self._returned:
            for each in sorted(each for each in self._returned if each == tag or (multiple and each <= tag)):
                self._answers.append(Answered(BrokerAnswer.RETURNED, each, self._returned.pop(each)))
        self._answers.append(Answered(BrokerAnswer.CONFIRMED, tag, multiple=bool(multiple)))

    def _on_nack(self, tag: int, multiple: bool) -> None:
        words = "It does not take messages (basic.nack): a queue of it may be full, or most of its nodes away."
        self._answers.append(Answered(BrokerAnswer.NOT_NOW, tag, words, multiple=bool(multiple)))

    def _on_return(self, error: Any, exchange: str, routing_key: str, message: Any) -> None:
        tags = self._tags.get((message.properties.get("message_id", ""), routing_key), [])
        if tags:
            words = f"{error.reply_text} ({error.reply_code}), exchange {exchange!r}, routing key {routing_key!r}"
            self._returned[tags.pop(0)] = words

    def forget(self, tag: int) -> None:
        """Forget a delivery that was answered."""
        if (key := self._keys.pop(tag, None)) is None:
            return
        tags = self._tags[key]
        if tag in tags:
            tags.remove(tag)
        if not tags:
            del self._tags[key]

    def close(self) -> None:
        """Close the connection. Never raises."""
        with suppress(Exception):
            self._kombu.release()


class KombuLink:
    """Kombu's producer, for brokers without confirms: what was written counts as forwarded."""

    confirms = False
    is_blocked = False

    def __init__(self, bridge: Bridge, address: str, queues: Iterable[str]) -> None:
        self._bridge, self._address = bridge, address
        self._tag = 0
        self._answers: list[Answered] = []
        self._kombu: Any = None
        try:
            self._kombu = connection_to(bridge, address, HEARTBEAT_SECONDS)
            self._channel: Any = self._kombu.channel()
            self._producer = self._kombu.Producer(self._channel, auto_declare=False)
            _declare(bridge, self._channel, queues)
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            raise self._away(error) from None

    def _away(self, error: BaseException) -> BridgeAway:
        self.close()
        return BridgeAway(told(error, self._address))

    def publish(self, message: Outgoing, routing_key: str) -> int:
        """Publish, and return the number of the delivery. Raises UnfitForBridge, and BridgeAway."""
        try:
            self._producer.publish(
                message.body,
                routing_key=routing_key,
                exchange=self._bridge.options.exchange,
                headers=message.headers,
                retry=False,
                **message.properties,
            )
        except (TypeError, ValueError) as error:
            raise UnfitForBridge(f"{type(error).__name__}: {error}") from None
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            raise self._away(error) from None
        self._tag += 1
        self._answers.append(Answered(BrokerAnswer.CONFIRMED, self._tag))
        return self._tag

    def answers(self, seconds: float) -> list[Answered]:  # noqa: ARG002 - there is nothing to wait for
        """Return what was written since the last call."""
        answers, self._answers = self._answers, []
        return answers

    def forget(self, tag: int) -> None:
        """Do nothing: no message is returned."""

    def close(self) -> None:
        """Close the connection. Never raises."""
        with suppress(Exception):
            self._kombu.release()
