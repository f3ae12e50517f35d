"""Bind queues to exchanges, with the checks of the admin's form."""

from __future__ import annotations

from django_mq.engine.names import NAME_LENGTH, is_name, is_storable
from django_mq.errors import ConfigurationError
from django_mq.models import Binding
from django_mq.stores.registry import shared_store

TYPES = tuple(Binding.ExchangeType.values)


def bind(exchange: str, queue: str, *, exchange_type: str | None = None, pattern: str = "", using: str) -> bool:
    """Bind a queue to an exchange; return whether that is new. The type is by default the exchange's, or direct.

    Raises UnknownQueue, and ConfigurationError for a name that cannot be stored or another type.
    """
    store = shared_store(using)
    with store.transaction():
        known = next((kind for kind, _, _ in store.bindings(exchange)), None)
        given = exchange_type or known or "direct"
        _check(exchange, given, known, pattern)
        pattern = "" if given == Binding.ExchangeType.FANOUT else pattern
        is_new = (given, pattern, queue) not in store.bindings(exchange)
        store.bind(exchange=exchange, exchange_type=given, pattern=pattern, queue=queue)
    return is_new


def unbind(exchange: str, queue: str, *, pattern: str = "", using: str) -> bool:
    """Remove a binding; return whether it existed."""
    return shared_store(using).unbind(exchange=exchange, pattern=pattern, queue=queue)


def is_bound(exchange: str, queue: str, *, pattern: str = "", using: str) -> bool:
    """Return whether this binding exists."""
    bound = shared_store(using).bindings(exchange)
    return any((has, name) == (pattern, queue) for _, has, name in bound)


def _check(exchange: str, given: str, known: str | None, pattern: str) -> None:
    if not is_name(exchange):
        raise ConfigurationError(f"The exchange cannot be called {exchange!r}: 1 to {NAME_LENGTH} characters.")
    if not is_storable(pattern, NAME_LENGTH):
        raise ConfigurationError(f"The pattern {pattern!r} cannot be stored: at most {NAME_LENGTH} characters.")
    if known not in {None, given}:
        raise ConfigurationError(f"{exchange!r} is a {known} exchange; all its bindings have that type.")
