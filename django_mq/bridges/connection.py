"""The connection of a receiver to the other broker, and its errors in words without credentials."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from django_mq.bridges.declared import address_of
from django_mq.engine.decisions.bridges import told
from django_mq.stores.records import storable

if TYPE_CHECKING:
    from django_mq.engine.decisions.bridges import Bridge

#: A broker that has sent nothing for so long, in seconds, is away; RabbitMQ thinks the same of the receiver.
HEARTBEAT_SECONDS: Final = 20


def connection_to(bridge: Bridge) -> Any:
    """Return a connection of Kombu, which is not open yet. Raises ConfigurationError."""
    from kombu import Connection  # noqa: PLC0415 - projects without bridges need no Kombu

    options = bridge.options
    return Connection(
        address_of(bridge),
        ssl=options.ssl,
        connect_timeout=options.connect_seconds,
        heartbeat=HEARTBEAT_SECONDS,
        transport_options=dict(options.transport_options),
    )


def words_of(error: BaseException, bridge: Bridge) -> str:
    """Return what an error says, without the credentials of the bridge."""
    address = ""
    with suppress(Exception):  # an address that cannot be read is in no error
        address = address_of(bridge)
    return storable(told(error, address), 1000)
