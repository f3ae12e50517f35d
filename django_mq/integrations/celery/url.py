"""The broker URL, ``django-mq://`` or ``django-mq:///ALIAS?option=value``, and the registration of its scheme.

The alias is the path, because the hosts of URLs are lower-cased and aliases are not.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from django_mq.engine.decisions.claim import is_byte_credit
from django_mq.errors import BrokerURLError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

SCHEME = "django-mq"
#: The header in which celery beat names its entry: django-celery-beat does so itself.
BEAT_ENTRY = "periodic_task_name"
TRANSPORT = "django_mq.integrations.celery.transport:Transport"


def register() -> None:
    """Add the scheme to Kombu's table of transports. The transport itself is imported when a broker is opened."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - only programs that use Kombu pay for it

    TRANSPORT_ALIASES[SCHEME] = TRANSPORT


def register_if_used() -> None:
    """Register now if Kombu is imported, else as soon as it is: other projects do not pay for the import."""
    if "kombu.transport" in sys.modules:
        register()
    elif not any(isinstance(finder, _AwaitKombu) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AwaitKombu())


class _AwaitKombu(MetaPathFinder):
    """Find what Python itself would find, and register when Kombu's table of transports is there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "kombu.transport":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self._register(execute(module))  # type: ignore[method-assign]
        return spec

    def _register(self, _: None) -> None:
        sys.meta_path.remove(self)
        register()


class URLOption(NamedTuple):
    """What to use for an option of the URL, and whether a value is possible."""

    use: str
    is_possible: Callable[[str], bool]


def _one_of(*words: str) -> URLOption:
    return URLOption(" or ".join(words), words.__contains__)


def _is_byte_credit(value: str) -> bool:
    return value.isdecimal() and len(value) < 20 and is_byte_credit(int(value))


#: The options of the URL and of ``broker_transport_options``. The first of several words is the default.
OPTIONS = {
    #: ``amqp``: 9 first. ``redis``: 0 first, for projects that come from the Redis transport.
    "priority_order": _one_of("amqp", "redis"),
    #: ``fair``: queues whose first messages are equally urgent take turns. ``listed``: the order of -Q is strict.
    "queue_order": _one_of("fair", "listed"),
    #: How many bytes of bodies a worker holds at most for each queue; the default is the setting CREDIT_BYTES.
    "credit_bytes": URLOption("a whole number of bytes, 1 or more", _is_byte_credit),
}

#: The host of a Kombu connection that names the transport instead of a URL. Its virtual host is the alias.
NO_URL = "localhost"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the queues are, and how the transport behaves there."""

    #: The database alias; None means ``DJANGO_MQ["DATABASE"]``.
    alias: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def redis_order(self) -> bool:
        return self.options.get("priority_order") == "redis"

    @property
    def listed(self) -> bool:
        return self.options.get("queue_order") == "listed"

    @property
    def credit_bytes(self) -> int | None:
        given = self.options.get("credit_bytes")
        return None if given is None else int(given)


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


def check_alias(address: Address) -> None:
    """Raise BrokerURLError if no queues can be under the alias of an address."""
    from django.db import connections  # noqa: PLC0415 - Kombu registers the scheme before Django is set up

    from django_mq.stores.registry import has_store  # noqa: PLC0415 - as above

    if address.alias is not None and not has_store(address.alias):
        known = ", ".join(sorted(connections))
        raise BrokerURLError(f"There is no database alias {address.alias!r}; DATABASES has {known}.")


def current(client: Any) -> Address:
    """Return where a Kombu connection leads now. Raises BrokerURLError.

    Kombu passes the first URL as it is. It parses the URL of an alternate itself, and if that URL names no
    alias, the connection still has the path of the URL before it.
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
    if unknown := sorted(set(given) - set(OPTIONS)):
        raise BrokerURLError(
            f"Unknown options in the broker URL: {', '.join(unknown)}; use {', '.join(sorted(OPTIONS))}."
        )
    known = {name: str(value) for name, value in transport_options.items() if name in OPTIONS} | given
    for name, value in known.items():
        if not OPTIONS[name].is_possible(value):
            raise BrokerURLError(f"{name}={value} is not possible; use {OPTIONS[name].use}.")
    return known
