"""A vhost of its own in the session's RabbitMQ would need its tools: tests use names of their own instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from kombu import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator


class OtherBroker:
    """The session's RabbitMQ, with one connection, and the queues of one test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = Connection(url)
        self.channel: Any = self.connection.default_channel
        self._names: list[str] = []

    def name(self, beginning: str = "bridged") -> str:
        """Return a name for a queue that is deleted after the test."""
        self._names.append(f"{beginning}.{uuid4().hex[:8]}")
        return self._names[-1]

    def queue(self, name: str = "", **arguments: Any) -> str:
        """Declare a durable queue, and return its name."""
        name = name or self.name()
        self.channel.queue_declare(name, durable=True, auto_delete=False, arguments=arguments or None)
        return name

    def depth(self, name: str) -> int:
        """Return how many messages a queue holds."""
        depth: int = self.channel.queue_declare(name, passive=True).message_count
        return depth

    def taken(self, name: str) -> list[Any]:
        """Take and return all messages that a queue holds, as py-amqp has them."""
        found = []
        while (message := self.channel.basic_get(name, no_ack=True)) is not None:
            found.append(message)
        return found

    def close(self) -> None:
        """Delete the queues of the test."""
        with self.connection.channel() as channel:
            for name in self._names:
                channel.queue_delete(name)
        self.connection.release()


@pytest.fixture
def other_broker(rabbitmq_url: str) -> Iterator[OtherBroker]:
    """The session's RabbitMQ; the queues that the test names are deleted after it."""
    broker = OtherBroker(rabbitmq_url)
    try:
        yield broker
    finally:
        broker.close()
