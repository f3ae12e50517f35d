"""On a worker's event loop a task goes to the pool before anything else is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kombu import Connection, Consumer, Producer, Queue
from kombu.asynchronous import Hub
from redis import Redis as Client

from django_mq.integrations.celery import publisher
from django_mq.models import Message
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.services.redis import Redis

pytestmark = pytest.mark.on("sqlite")

THINGS = Queue("things")


class Loop:
    """A worker's event loop, turned by hand."""

    def __init__(self, connection: Connection) -> None:
        self._hub = Hub()
        self._transport = connection.transport
        connection.register_with_event_loop(self._hub)

    def turn(self) -> None:
        next(self._hub.loop)

    def tick(self) -> None:
        """Do what a turn does before it waits for events."""
        for each in list(self._hub.on_tick):
            each()

    def hear(self) -> None:
        self._transport._driver._hear()

    @property
    def turns_at_once(self) -> bool:
        """Whether the next wait for events ends at once."""
        return self._transport.deliveries.runtime.wake.wait(0, clear=False)

    def turn_until(self, condition: Any) -> None:
        wait_until(lambda: self.turn() or condition())

    @property
    def is_idle(self) -> bool:
        """Whether others count on the session to take what comes next."""
        return not self._transport.deliveries.runtime.at_work

    def is_told_of(self, queue: str) -> bool:
        """Whether the session is told of what comes next in a queue."""
        return queue in self._transport.deliveries.runtime._registration._queues

    def close(self) -> None:
        self._hub.close()


@pytest.fixture
def loop(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """The loop of the connection; this process counts as a worker while it is there."""
    monkeypatch.setattr(publisher, "_workers", set())
    made = Loop(connection)
    yield made
    made.close()


def test_nobody_is_told_that_we_are_idle_before_the_pool_has_its_task(connection: Connection, loop: Loop) -> None:
    received: list[Any] = []
    channel = connection.default_channel
    THINGS(channel).declare()
    consumer = Consumer(channel, [THINGS], on_message=received.append)
    consumer.qos(prefetch_count=4)
    consumer.consume()
    loop.turn_until(lambda: loop.is_idle)

    Producer(channel).publish("now", routing_key="things")
    loop.turn_until(lambda: received)

    loop.turn()  # in which the pool's descriptors are found writable
    assert not loop.is_idle
    loop.turn()
    assert loop.is_idle


def test_the_loop_turns_again_at_once_after_a_delivery_for_the_pool_to_write(
    connection: Connection, loop: Loop
) -> None:
    received: dict[str, Any] = {}
    consume(connection, THINGS, received)
    loop.turn_until(lambda: loop.is_idle)
    Producer(connection.default_channel).publish("now", routing_key="things")

    wait_until(lambda: loop.hear() or loop.tick() or received)

    assert loop.turns_at_once


def test_an_exception_of_a_callback_fails_its_message_and_does_not_end_the_loop(
    connection: Connection, loop: Loop, committed_database: str
) -> None:
    def fail(_: Any) -> None:
        raise ValueError("not for me")

    channel = connection.default_channel
    THINGS(channel).declare()
    Consumer(channel, [THINGS], on_message=fail).consume()
    Producer(channel).publish("now", routing_key="things")

    loop.turn_until(Message.objects.using(committed_database).filter(attempts=1).exists)


def test_a_key_that_another_program_wrote_to_redis_does_not_end_the_loop(
    url: str, settings: Settings, redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": redis_server.url, "SAFETY_POLL_SECONDS": 0.1}
    monkeypatch.setattr(publisher, "_workers", set())
    with Client.from_url(redis_server.url) as client, Connection(url) as connection:
        client.set("{django_mq}:missed:things", "abc")
        loop = Loop(connection)
        received: list[Any] = []
        THINGS(connection.default_channel).declare()
        consumer = Consumer(connection.default_channel, [THINGS], on_message=received.append)
        consumer.consume()
        loop.turn_until(lambda: loop.is_idle and client.get("{django_mq}:missed:things").isdigit())

        client.set("{django_mq}:missed:things", "abc")
        Producer(connection.default_channel).publish("now", routing_key="things")
        loop.turn_until(lambda: received)
        loop.close()


def test_a_consumer_that_is_added_later_counts_with_its_priority(
    url: str, settings: Settings, redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": redis_server.url}
    monkeypatch.setattr(publisher, "_workers", set())
    with Client.from_url(redis_server.url) as client, Connection(url) as one, Connection(url) as other:
        first, second = Loop(one), Loop(other)
        received: dict[str, Any] = {}

        def idle() -> int:
            return client.zcard("{django_mq}:idle:things")

        consume(one, Queue("others"), received)
        first.turn_until(lambda: first.is_idle)
        consume(other, Queue("things", consumer_arguments={"x-priority": 3}), received, name="lower")
        second.turn_until(lambda: second.is_idle and idle() == 1)
        consume(one, Queue("things", consumer_arguments={"x-priority": 5}), received, name="higher")
        first.turn_until(lambda: first.is_told_of("things") and idle() == 2)

        Producer(one.default_channel).publish("now", routing_key="things")
        wait_until(lambda: first.turn() or second.turn() or received)
        first.close()
        second.close()

    assert list(received) == ["higher"]


def consume(connection: Connection, queue: Queue, received: dict[str, Any], *, name: str = "") -> None:
    channel = connection.default_channel
    queue(channel).declare()
    consumer = Consumer(channel, [queue], on_message=lambda message: received.update({name: message}))
    consumer.qos(prefetch_count=1)
    consumer.consume()
