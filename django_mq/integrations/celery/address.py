"""The broker URL: ``django-mq://`` or ``django-mq:///ALIAS?option=value``.

The alias is the path because the hosts of URLs are lower-cased and aliases are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.db import connections
from kombu.exceptions import OperationalError

from django_mq.errors import BrokerURLError
from django_mq.integrations.celery.alias import SCHEME
from django_mq.stores.registry import has_store

#: Options of the URL and of ``broker_transport_options``.
OPTIONS = ("priority_order", "queue_order")
CHOICES = {
    #: ``amqp``: 9 first. ``redis``: 0 first, for projects that come from the Redis transport.
    "priority_order": ("amqp", "redis"),
    #: ``fair``: queues with heads of equal priority take turns. ``listed``: the order of -Q is strict.
    "queue_order": ("fair", "listed"),
}

#: The host of a Kombu connection that was given no URL, but the transport: its virtual host is the alias.
NO_URL = "localhost"


class WrongAddress(BrokerURLError, OperationalError):  # noqa: N818 - named as all errors of django_mq
    """The broker URL leads nowhere; a Kombu connection error that trying again does not mend."""


class WrongAddressOfSeveral(BrokerURLError, OperationalError, ConnectionError):  # noqa: N818 - as above
    """The same where there are other URLs: Kombu goes on to the next."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the queues are, and how the transport behaves there."""

    #: The database alias; None means ``DJANGO_MQ["DATABASE"]``.
    alias: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def redis_order(self) -> bool:
        return self.options.get("priority_order", "amqp") == "redis"

    @property
    def listed(self) -> bool:
        return self.options.get("queue_order", "fair") == "listed"


def parse(url: str | None, transport_options: dict[str, Any] | None = None) -> Address:
    """Read a broker URL. Raises BrokerURLError, which says what to write instead."""
    # Kombu strips the scheme of transports that parse their own URLs when nothing follows it.
    text = url or f"{SCHEME}://"
    parts = urlsplit(text if "://" in text else f"{SCHEME}:///{text}")
    if parts.scheme != SCHEME:
        raise BrokerURLError(f"The broker URL must start with {SCHEME}://, not {parts.scheme}://.")
    if parts.netloc:
        raise BrokerURLError(
            f"{parts.netloc!r} stands in the place of a host, but there is none: "
            f"write {SCHEME}:///{parts.netloc} for the database alias of that name."
        )
    alias = unquote(parts.path.strip("/")) or None
    if alias is not None and "/" in alias:
        raise BrokerURLError(f"{alias!r} is not a database alias: write {SCHEME}:///ALIAS.")
    return Address(alias, _options(dict(parse_qsl(parts.query)), transport_options or {}))


def current(client: Any) -> Address:
    """Return where a Kombu connection is now. Raises BrokerURLError.

    Kombu hands the first URL over whole. The URL of an alternate it has taken apart, and where
    that one names no alias, the path of the URL before it still stands in its place.
    """
    path = (client.virtual_host or "").strip("/")
    if client.hostname == NO_URL:
        return parse(f"{SCHEME}:///{path}", client.transport_options)
    if client.hostname or not path:
        return parse(client.hostname, client.transport_options)
    ours = [url for url in client.alt or () if url.startswith(f"{SCHEME}:")]
    named = path in {urlsplit(url).path.strip("/") for url in ours}
    return parse(f"{SCHEME}:///{path}" if named else None, client.transport_options)


def _options(given: dict[str, str], transport_options: dict[str, Any]) -> dict[str, str]:
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise BrokerURLError(
            f"Unknown options in the broker URL: {', '.join(unknown)}; use {', '.join(sorted(OPTIONS))}."
        )
    known = {name: str(value) for name, value in transport_options.items() if name in OPTIONS} | given
    for name, value in known.items():
        if value not in CHOICES[name]:
            raise BrokerURLError(f"{name}={value} is not possible; use {' or '.join(CHOICES[name])}.")
    return known


def check_alias(alias: str | None) -> None:
    """Raise BrokerURLError for an alias that is none."""
    if alias is not None and not has_store(alias):
        known = ", ".join(sorted(connections))
        raise BrokerURLError(f"There is no database alias {alias!r}; DATABASES has {known}.")


def read(client: Any) -> tuple[Address, BrokerURLError | None]:
    """Return where a Kombu connection leads, and what is wrong with its URL: told when somebody connects."""
    try:
        address = current(client)
        check_alias(address.alias)
    except BrokerURLError as error:
        several = len(client.alt or ()) > 1
        return Address(), WrongAddressOfSeveral(str(error)) if several else WrongAddress(str(error))
    return address, None
