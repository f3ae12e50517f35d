"""Receive from one queue of another broker: consume, write, acknowledge after the commit.

A message is acknowledged when its row, or its dead letter, is committed. What is not acknowledged when the process
or a connection ends is sent again by the broker, and is dropped by its id if it was written. While the database is
away, the receiver has no connection to the broker, which would count each new delivery.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from django_mq import outages
from django_mq.bridges import direct, inbox
from django_mq.bridges.connection import connection_to, words_of
from django_mq.bridges.declared import address_of, bridge_named, shown_address
from django_mq.bridges.inbox import BlockedError, Taken
from django_mq.bridges.incoming import Incoming
from django_mq.bridges.tenure import Tenure
from django_mq.delivery.codecs import new_message_id
from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.bridges import in_turn
from django_mq.engine.decisions.receivers import ReceiverCondition, is_complete
from django_mq.errors import ConfigurationError, StoreError
from django_mq.outages import Outage
from django_mq.stores.connections import translating
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from django_mq.engine.decisions.receivers import Receiver

logger = logging.getLogger("django_mq.bridges")

#: A broker that has sent nothing for so long, in seconds, is away; RabbitMQ thinks the same of the receiver.
HEARTBEAT_SECONDS: Final = 20
#: How long another consumer of the queue is waited for, in seconds: one that has died is gone by then, as RabbitMQ
#: ends a connection that was silent for two heartbeats.
OTHERS_SECONDS: Final = 3.0 * HEARTBEAT_SECONDS
OTHERS_PAUSE_SECONDS: Final = 0.1
#: How long a batch waits for another message, and how long an idle receiver waits for the first one, in seconds.
LINGER_SECONDS: Final = 0.005
IDLE_SECONDS: Final = 0.5
#: Time between two tries to write what is blocked.
BLOCKED_PAUSES: Final = Backoff(base_seconds=0.1, multiplier=2.0, cap_seconds=5.0)


class Reception:
    """One receiver in one process."""

    def __init__(
        self, receiver: Receiver, alias: str, *, stopping: threading.Event, until_empty: bool = False
    ) -> None:
        self._receiver, self._alias = receiver, alias
        self._until_empty, self._is_over = until_empty, False
        self._bridge = bridge_named(receiver.bridge)
        self._stopping = stopping
        #: How many tries to receive have failed: after each, another address of the broker comes first.
        self._turn = 0
        holder = f"{socket.gethostname()}:{os.getpid()} {new_message_id().hex[-8:]}"
        self._tenure = Tenure(receiver, alias, holder)
        self._outage = Outage(
            f"The broker of the receiver {receiver.name!r}, {shown_address(self._bridge)},", logger
        )
        self._pauses = Backoff(base_seconds=0.25, multiplier=2.0, cap_seconds=self._bridge.options.pause_seconds)

    def run(self) -> None:
        """Receive until told to stop, or until the queue is empty."""
        failures = 0
        while not (self._stopping.is_set() or self._is_over):
            try:
                with translating(connections[self._alias]):
                    if not self._tenure.is_held():
                        self._stopping.wait(self._tenure.renewal_seconds)
                        continue
                    outages.database(self._alias).succeeded(self)
                    self._receive()
                failures = 0
            except StoreError as error:
                outages.database(self._alias).failed(self, error)
                connections[self._alias].close()
                self._stopping.wait(outages.pause_seconds(failures))
                failures += 1
            except Exception as error:  # noqa: BLE001 - each transport has errors of its own
                self._turn += 1
                self._note_away(error)
                self._pause(self._pauses.spread(failures + 1))
                failures += 1
        self._leave()

    def _leave(self) -> None:
        outages.database(self._alias).leave(self)
        with suppress(StoreError), translating(connections[self._alias]):
            self._tenure.end()
        connections[self._alias].close()

    def _note_away(self, error: Exception) -> None:
        words = words_of(error, self._bridge)
        # A setting that is wrong: no other try succeeds before the process begins anew.
        is_setting = isinstance(error, ConfigurationError)
        if is_setting:
            if self._tenure.show(ReceiverCondition.BLOCKED, str(error)):
                logger.error("The receiver %r cannot receive: %s", self._receiver.name, error)
            return
        self._tenure.show(ReceiverCondition.AWAY, words)
        self._outage.failed(self, _InWords(words))

    def _pause(self, seconds: float) -> None:
        """Wait, and keep the receiver meanwhile."""
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            with suppress(StoreError), translating(connections[self._alias]):
                self._tenure.is_held()
            self._stopping.wait(min(left, self._tenure.renewal_seconds))

    # With a connection.

    def _receive(self) -> None:
        handler = direct.handler_for(self._receiver) if self._receiver.direct else None
        source = self._connected()
        try:
            self._outage.succeeded(self)
            if not self._wait_for_others(source):
                return
            source.consume(self._receiver.prefetch)
            self._tenure.show(ReceiverCondition.RECEIVES)
            failures = 0
            # What was told to stop still writes what has come.
            while self._tenure.is_held() and (not self._stopping.is_set() or source.waiting):
                most = min(self._receiver.together, self._receiver.prefetch)
                batch = source.gather(1 if handler else most, is_ending=self._stopping.is_set())
                if not batch:
                    self._is_over = self._until_empty and source.is_empty()
                    if self._is_over:
                        return
                    continue
                done, blocked = self._write(batch, handler)
                source.acknowledge(batch[:done])
                if blocked is None:
                    failures = 0
                    self._tenure.show(ReceiverCondition.RECEIVES)
                    continue
                if self._tenure.show(ReceiverCondition.BLOCKED, blocked):
                    logger.warning("The receiver %r waits: %s", self._receiver.name, blocked)
                if self._stopping.is_set():
                    return
                source.put_back(batch[done:])
                failures += 1
                source.wait(BLOCKED_PAUSES.delay(failures), self._stopping)
        finally:
            source.close()

    def _wait_for_others(self, source: Source) -> bool:
        """Wait until other consumers have left the queue; return whether this one may begin.

        It may be the receiver of a process that has lost its tenure and does not know yet. What it holds comes
        back to the queue when it leaves, and must come before the rest.
        """
        until = time.monotonic() + OTHERS_SECONDS
        while self._tenure.is_held() and not self._stopping.is_set():
            if not source.consumers():
                return True
            if time.monotonic() > until:
                logger.warning(
                    "The receiver %r receives beside another consumer of %r: what comes may be out of order",
                    self._receiver.name,
                    self._receiver.source,
                )
                return True
            words = f"Another consumer takes from the queue {self._receiver.source!r}; it is waited for."
            self._tenure.show(ReceiverCondition.AWAY, words)
            source.wait(OTHERS_PAUSE_SECONDS, self._stopping)
        return False

    def _connected(self) -> Source:
        """Return the source at the first address that has it. Raises the errors of the transport."""
        addresses = in_turn(address_of(self._bridge), self._turn)
        for address in addresses[:-1]:
            with suppress(Exception):  # each transport has errors of its own
                return Source(connection_to(self._bridge, address, HEARTBEAT_SECONDS), self._receiver)
        return Source(connection_to(self._bridge, addresses[-1], HEARTBEAT_SECONDS), self._receiver)

    def _write(self, batch: Sequence[Incoming], handler: Any) -> tuple[int, str | None]:
        """Return how many of the batch may be acknowledged, and why the others may not."""
        store = shared_store(self._alias)
        try:
            if handler is not None:
                taken = sum((direct.handle(store, self._receiver, handler, each) for each in batch), Taken())
            else:
                taken = inbox.take(store, self._receiver, batch)
        except BlockedError as error:
            self._tenure.count(error.taken)
            return error.done, str(error)
        self._tenure.count(taken)
        return len(batch), None


class _InWords(Exception):  # noqa: N818 - it stands for another error
    """An error of the broker, in words without credentials."""


class Source:
    """The open connection of a receiver, and what has come over it."""

    def __init__(self, connection: Any, receiver: Receiver) -> None:
        """Find the queue. Raises the errors of the transport, and closes the connection then."""
        self._connection = connection
        #: What has come, and was not gathered yet.
        self.waiting: list[Incoming] = []
        self._beat_at = 0.0
        try:
            self._find(receiver)
        except BaseException:
            self.close()
            raise

    def _find(self, receiver: Receiver) -> None:
        from kombu import Queue  # noqa: PLC0415 - only where there are bridges

        self._channel = self._connection.channel()
        arguments = dict(receiver.arguments) or None
        self._queue = Queue(receiver.source, durable=True, queue_arguments=arguments).bind(self._channel)
        if receiver.declare:
            self._queue.queue_declare()
        # Only AMQP acknowledges all messages up to one.
        self._together = self._connection.transport.driver_type == "amqp"

    def consume(self, prefetch: int) -> None:
        """Let messages come, at most so many at once. Raises the errors of the transport."""
        from kombu import Consumer  # noqa: PLC0415 - only where there are bridges

        consumer = Consumer(
            self._channel,
            queues=[self._queue],
            auto_declare=False,
            on_message=lambda message: self.waiting.append(Incoming.of(message)),
            on_decode_error=lambda message, error: self.waiting.append(Incoming.of(message, error)),
        )
        consumer.qos(prefetch_count=prefetch)
        consumer.consume()

    def close(self) -> None:
        """Close the connection. Never raises."""
        with suppress(Exception):  # the broker may be away
            self._connection.release()

    def gather(self, most: int, *, is_ending: bool = False) -> list[Incoming]:
        """Return the next messages, at most so many, or none if none comes for a moment."""
        is_idle = is_ending
        while not is_complete(len(self.waiting), most, is_idle=is_idle):
            is_idle = not self._drain(LINGER_SECONDS if self.waiting else IDLE_SECONDS)
            if is_idle and not self.waiting:
                return []
        batch, self.waiting[:] = self.waiting[:most], self.waiting[most:]
        self._beat()
        return batch

    def is_empty(self) -> bool:
        """Return whether the queue of the broker has no message that it may send."""
        return self._seen().message_count == 0 and not self.waiting

    def consumers(self) -> int:
        """Return how many consumers the queue of the broker has; 0 if the broker does not say."""
        number: int = self._seen().consumer_count
        return number

    def _seen(self) -> Any:
        return self._queue.queue_declare(passive=True)

    def put_back(self, arrivals: Sequence[Incoming]) -> None:
        """Take these again first."""
        self.waiting[:0] = arrivals

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Wait, and keep the connection meanwhile."""
        until = time.monotonic() + seconds
        while not stopping.is_set() and (left := until - time.monotonic()) > 0:
            self._drain(min(left, IDLE_SECONDS))

    def acknowledge(self, arrivals: Sequence[Incoming]) -> None:
        """Tell the broker that these, and all before them, are done."""
        if not arrivals:
            return
        if self._together:
            self._channel.basic_ack(arrivals[-1].tag, multiple=True)
        else:
            for arrival in arrivals:
                self._channel.basic_ack(arrival.tag)

    def _drain(self, seconds: float) -> bool:
        """Wait for an event of the connection; return whether one came."""
        self._beat()
        try:
            self._connection.drain_events(timeout=seconds)
        except TimeoutError:
            return False
        return True

    def _beat(self) -> None:
        if self._connection.supports_heartbeats and time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + 1.0
            self._connection.heartbeat_check(rate=2)
