"""Connections to the other broker, and their errors in words without credentials."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django_mq.bridges.declared import address_of
from django_mq.engine.decisions.bridges import tls_of, told
from django_mq.stores.records import storable

if TYPE_CHECKING:
    from django_mq.engine.decisions.bridges import Bridge


def connection_to(bridge: Bridge, address: str, heartbeat_seconds: int, **transport_options: Any) -> Any:
    """Return an open connection of Kombu to one address. Raises the errors of the transport."""
    from kombu import Connection  # noqa: PLC0415 - projects without bridges need no Kombu

    options = bridge.options
    connection = Connection(
        address,
        ssl=tls_of(options.ssl, address),
        connect_timeout=options.connect_seconds,
        heartbeat=heartbeat_seconds,
        transport_options={**options.transport_options, **transport_options},
    )
    # One try: Kombu's other ways to connect wait two seconds and try again, and the caller tries again itself.
    return connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)


def words_of(error: BaseException, bridge: Bridge) -> str:
    """Return what an error says, without the credentials of the bridge."""
    address = ""
    with suppress(Exception):  # an address that cannot be read is in no error
        address = address_of(bridge)
    return storable(told(error, address), 1000)
