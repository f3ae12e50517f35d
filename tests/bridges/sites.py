"""A site with a receiver, and the queue of the other broker that it consumes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from amqp import Message as Sent
from kombu import Connection

from django_mq.bridges.receiver_state import ReceiverState
from django_mq.bridges.receiving import receivers_on, receiving
from django_mq.models import Message
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.bridges.conftest import OtherBroker

QUEUES = {"orders": {"dedup_seconds": 3600.0}, "unread": {}}


class Site:
    """It receives into the queue "orders"."""

    def __init__(self, settings: Settings, broker: OtherBroker, alias: str) -> None:
        self.settings, self.broker, self.alias = settings, broker, alias
        self.source = broker.queue()
        self.declare()

    def declare(self, *, bridge: dict[str, Any] | None = None, **options: Any) -> None:
        """Declare the receiver with these options."""
        receiver = {"bridge": "other", "source": self.source, "queue": "orders", **options}
        self.settings.DJANGO_MQ = {
            **self.settings.DJANGO_MQ,
            "SESSION_SECONDS": 2,
            "QUEUES": QUEUES,
            "BRIDGES": {"other": {"url": self.broker.url, "pause_seconds": 0.2, **(bridge or {})}},
            "RECEIVERS": {"in": receiver},
        }

    def send(self, body: Any, **properties: Any) -> None:
        """Send a message of JSON with an id, unless the properties say something else."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content_type": "application/json", "message_id": str(uuid4()), **properties}
        said = {name: value for name, value in given.items() if value is not None}
        self.broker.channel.basic_publish(Sent(raw, **said), routing_key=self.source)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the receivers of the settings in this process."""
        with receiving(receivers_on(self.alias), self.alias):
            yield

    @contextmanager
    def holding(self, number: int) -> Iterator[Connection]:
        """Let another consumer hold so many messages, and ask for no more, until its connection is closed."""
        held: list[Any] = []
        with Connection(self.broker.url) as connection:
            channel: Any = connection.default_channel
            channel.basic_qos(0, number, False)
            channel.basic_consume(self.source, callback=held.append)
            while len(held) < number:
                connection.drain_events(timeout=PATIENCE_SECONDS)
            yield connection

    def rows(self) -> Any:
        """Return the messages that are there."""
        return Message.objects.using(self.alias).select_related("queue").order_by("id")

    def state(self) -> ReceiverState:
        """Return what is shown of the receiver."""
        return ReceiverState.objects.using(self.alias).get(name="in")

    def receive(self, number: int) -> None:
        """Run the receiver until so many messages have come."""
        with self.running():
            wait_until(lambda: self.counted() >= number)
        assert self.broker.depth(self.source) == 0

    def counted(self) -> int:
        """Return how many messages have come, as the row says."""
        shown = ReceiverState.objects.using(self.alias).filter(name="in").first()
        return 0 if shown is None else shown.received + shown.duplicates + shown.kept

    def shows(self, state: str) -> bool:
        """Whether the row of the receiver says this."""
        return ReceiverState.objects.using(self.alias).filter(name="in", state=state).exists()
