"""The connection of a bridge to another database: what is published is written once by its id."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from django.db import connections

from django_mq import conf
from django_mq.bridges.inbox import BlockedError, take
from django_mq.bridges.incoming import Incoming
from django_mq.engine.decisions.forwarding import Answered, BrokerAnswer
from django_mq.engine.decisions.receivers import Receiver
from django_mq.errors import BridgeAway, ConfigurationError, MQError
from django_mq.stores.connections import translating
from django_mq.stores.registry import MEMORY, shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.bridges.outgoing import Outgoing
    from django_mq.engine.decisions.bridges import Bridge

SCHEME: Final = "django-mq"


class AliasLink:
    """Writes into the queues of another alias, many messages in a transaction. Its commit is the confirm."""

    confirms = True
    is_blocked = False

    def __init__(self, bridge: Bridge, address: str, queues: Iterable[str]) -> None:  # noqa: ARG002 - as other links
        self._bridge = bridge
        self._alias = address.partition("://")[2].strip("/") or conf.load().DATABASE
        if self._alias == MEMORY or self._alias not in connections:
            raise ConfigurationError(
                f"The bridge {bridge.name!r} leads to the database {self._alias!r}, which is not in DATABASES."
            )
        self._tag = 0
        self._waiting: list[tuple[int, str, Incoming]] = []
        try:
            with translating(connections[self._alias]):
                connections[self._alias].ensure_connection()
        except MQError as error:
            raise self._away(error) from None

    def _away(self, error: MQError) -> BridgeAway:
        self.close()
        return BridgeAway(f"The database {self._alias!r}: {error}")

    def publish(self, message: Outgoing, routing_key: str) -> int:
        """Take a message, to be written with others, and return the number of the delivery."""
        properties = message.properties
        came = Incoming(
            body=message.body,
            content_type=properties.get("content_type"),
            content_encoding=properties.get("content_encoding"),
            headers=message.headers,
            properties=properties,
            routing_key=routing_key,
        )
        self._tag += 1
        self._waiting.append((self._tag, routing_key, came))
        return self._tag

    def answers(self, seconds: float) -> list[Answered]:  # noqa: ARG002 - there is nothing to wait for
        """Write what was published since the last call. Raises BridgeAway."""
        waiting, self._waiting = self._waiting, []
        try:
            with translating(connections[self._alias]):
                for queue in dict.fromkeys(queue for _, queue, _ in waiting):
                    here = [came for _, name, came in waiting if name == queue]
                    take(shared_store(self._alias), self._receiver(queue, here), here)
        except (BlockedError, MQError) as error:
            raise self._away(error) from None
        return [Answered(BrokerAnswer.CONFIRMED, tag) for tag, _, _ in waiting]

    def _receiver(self, queue: str, incoming: list[Incoming]) -> Receiver:
        """Return the receiver that writes these: what is in a queue here may be in one there."""
        types = tuple({each.content_type or "" for each in incoming})
        return Receiver(
            name=self._bridge.name, bridge=self._bridge.name, source="", queue=queue, content_types=types
        )

    def forget(self, tag: int) -> None:
        """Do nothing: no message is returned."""

    def close(self) -> None:
        """Close the connection. Never raises."""
        with suppress(Exception):
            connections[self._alias].close()
