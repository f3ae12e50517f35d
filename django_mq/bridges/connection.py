"""The connection of a receiver to the other broker, and its errors in words without credentials."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from django_mq.bridges.declared import address_of
from django_mq.engine.decisions.bridges import HIDDEN
from django_mq.stores.records import storable

if TYPE_CHECKING:
    from django_mq.engine.decisions.bridges import Bridge

#: A broker that has sent nothing for so long, in seconds, is away; RabbitMQ thinks the same of the receiver.
HEARTBEAT_SECONDS: Final = 20
#: An address in the text of an error.
ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*@")


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
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    for secret in _secrets(bridge):
        text = text.replace(secret, HIDDEN)
    return storable(ADDRESS.sub(f"{HIDDEN}@", text), 1000)


def _secrets(bridge: Bridge) -> list[str]:
    found: list[str] = []
    with suppress(Exception):  # an address that cannot be read is in no error
        for each in address_of(bridge).split(";"):
            password = urlsplit(each).password or ""
            found += [each, password, unquote(password)]
    return sorted({each for each in found if len(each) > 2}, key=len, reverse=True)
