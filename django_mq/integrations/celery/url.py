"""The broker URL, ``django-mq://`` or ``django-mq:///ALIAS?option=value``, and how Kombu learns its scheme.

Kombu has no entry point for transports, so its table of names is told, by the first that comes: Kombu's entry
points for serializers (``known.py``), the Celery command line (``scheme.py``), or the Django app, which waits for
Kombu if need be. The alias is the path, because the hosts of URLs are lower-cased and aliases are not.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django_mq.errors import BrokerURLError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

logger = logging.getLogger("django_mq.celery")

SCHEME = "django-mq"
TRANSPORT = "django_mq.integrations.celery.transport:Transport"


def announce() -> None:
    """Make Kombu know the scheme, and register it in full when the first broker of ours is opened."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - only for those who use Celery

    TRANSPORT_ALIASES.setdefault(SCHEME, _when_used)  # type: ignore[arg-type]  # Kombu takes functions, its stubs do not


def _when_used() -> str:
    # A worker opens its broker before it sends worker_init. Where there is no Celery, there is no worker.
    if "celery" in sys.modules:
        _connect_worker_step()
    return TRANSPORT


def register() -> None:
    """Make Kombu know the scheme. Imports ``kombu.transport``, which imports no transport."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - only for those who use Celery

    TRANSPORT_ALIASES[SCHEME] = TRANSPORT
    _connect_worker_step()


def _connect_worker_step() -> None:
    from celery.signals import worker_init  # noqa: PLC0415 - as above

    worker_init.connect(_install_worker_step, dispatch_uid="django_mq.step", weak=False)


def _install_worker_step(sender: Any, **options: Any) -> None:
    """Add the worker step. Raises SystemExit, which ends the worker before it starts, if that fails."""
    try:
        # Only now is a worker about to be built: nobody else needs its machinery.
        from django_mq.integrations.celery.step import install  # noqa: PLC0415 - as above

        install(sender, **options)
    except Exception as error:
        # Celery logs any other exception of a signal's receiver and goes on, here without the step.
        why = f"The worker does not start, its handlers cannot be loaded: {type(error).__name__}: {error}"
        logger.critical(why, exc_info=True)
        raise SystemExit(why) from error


def register_if_used() -> None:
    """Register when Kombu is already imported or a setting names the scheme, else as soon as Kombu is imported.

    A project that uses neither Celery nor the scheme never pays for the import.
    """
    if "kombu" in sys.modules or any(_names_scheme(value) for value in _broker_settings()):
        register()
    elif not any(isinstance(finder, _AwaitKombu) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AwaitKombu())


class _AwaitKombu(MetaPathFinder):
    """Finds what Python itself would find: it only sees that Kombu's table is being made, and adds our line."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "kombu.transport":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            make = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self._made(make(module))  # type: ignore[method-assign]
        return spec

    def _made(self, nothing: None) -> None:  # noqa: ARG002 - what a loader returns; the table is there now
        sys.meta_path.remove(self)
        announce()


def _broker_settings() -> list[Any]:
    from django.conf import settings  # noqa: PLC0415 - Kombu comes by where there is no Django, and must not pay

    return [getattr(settings, name) for name in dir(settings) if name.upper().endswith("BROKER_URL")]


def _names_scheme(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(f"{SCHEME}:")


# Where a URL leads.

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
