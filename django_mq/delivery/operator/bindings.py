"""Bind queues to exchanges, with the checks of the admin's form."""

from __future__ import annotations

import logging

from django_mq.delivery.operator.cycles import find_cycles
from django_mq.delivery.validation import check_selector
from django_mq.engine.decisions.routing import WITHOUT_PATTERN, Route
from django_mq.engine.options import NAME_LENGTH, is_name, is_storable
from django_mq.errors import ConfigurationError
from django_mq.models import Binding
from django_mq.stores.registry import shared_store

logger = logging.getLogger("django_mq.delivery")

TYPES = tuple(Binding.ExchangeType.values)


def bind(
    exchange: str,
    queue: str,
    *,
    exchange_type: str | None = None,
    pattern: str = "",
    selector: str = "",
    using: str,
) -> bool:
    """Bind a queue to an exchange, or change the selector of the binding; return whether that changed anything.

    The type is by default the exchange's, or direct. The log warns if dead letters come back by a new binding.
    Raises UnknownQueue, MalformedSelector, and ConfigurationError for a name or selector that cannot be stored or
    another type.
    """
    store = shared_store(using)
    with store.database.transaction():
        found = store.exchanges.find(exchange)
        known, routes = (None, ()) if found is None else (found.type, found.routes)
        given = exchange_type or known or "direct"
        _check(exchange, given, known, pattern, selector)
        pattern = "" if given in WITHOUT_PATTERN else pattern
        is_new = Route(given, pattern, queue, selector) not in routes
        store.exchanges.bind(
            exchange=exchange, exchange_type=given, pattern=pattern, queue=queue, selector=selector
        )
    for cycle in find_cycles(through=queue, using=using) if is_new else ():
        logger.warning("%s", cycle)
    return is_new


def unbind(exchange: str, queue: str, *, pattern: str = "", using: str) -> bool:
    """Remove a binding; return whether it existed."""
    return shared_store(using).exchanges.unbind(exchange=exchange, pattern=pattern, queue=queue)


def is_bound(exchange: str, queue: str, *, pattern: str = "", using: str) -> bool:
    """Return whether this binding exists."""
    routes = shared_store(using).exchanges.bindings(exchange)
    return any((route.pattern, route.queue) == (pattern, queue) for route in routes)


def _check(exchange: str, given: str, known: str | None, pattern: str, selector: str) -> None:
    if not is_name(exchange):
        raise ConfigurationError(f"The exchange cannot be called {exchange!r}: 1 to {NAME_LENGTH} characters.")
    if not is_storable(pattern, NAME_LENGTH):
        raise ConfigurationError(f"The pattern {pattern!r} cannot be stored: at most {NAME_LENGTH} characters.")
    check_selector(selector)
    if known not in {None, given}:
        raise ConfigurationError(f"{exchange!r} is a {known} exchange; all its bindings have that type.")
