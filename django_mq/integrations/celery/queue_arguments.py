"""RabbitMQ's arguments of a queue, read as options of ours; those that mean nothing here are ignored.

They count where they create the queue; one that is there already stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.options import OPTIONS, shown
from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.engine.options import Argument

#: What RabbitMQ does with a full queue if nothing is said; without a limit no queue is full.
OVERFLOW, USUAL_OVERFLOW = "x-overflow", "drop-head"
LIMITS = ("x-max-length", "x-max-length-bytes")


def with_attributes(
    arguments: Mapping[str, Any] | None,
    *,
    message_ttl: float | None = None,
    max_length: int | None = None,
    max_length_bytes: int | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Return the arguments with those that Kombu's queue has attributes for; its time to live is in seconds."""
    milliseconds = None if message_ttl is None else message_ttl * 1000
    named = {"x-message-ttl": milliseconds, "x-max-length": max_length, "x-max-length-bytes": max_length_bytes}
    return {**(arguments or {}), **{name: value for name, value in named.items() if value is not None}}


def options_in(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options that the arguments stand for. Raises ConfigurationError."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    if given.keys().isdisjoint(LIMITS):
        given.pop(OVERFLOW, None)
    else:
        given.setdefault(OVERFLOW, USUAL_OVERFLOW)
    meant = {
        name: _meaning(option.argument, given[option.argument.name])
        for name, option in OPTIONS.items()
        if option.argument is not None and option.argument.name in given
    }
    return {name: value for name, value in meant.items() if value is not None}


def _meaning(argument: Argument, value: Any) -> Any:
    """Return the option's value, None where the argument changes nothing."""
    if argument.values:
        if not isinstance(value, str | bool) or value not in argument.values:
            known = ", ".join(map(str, argument.values))
            raise ConfigurationError(f"{argument.name} is {shown(value)}; use one of {known}.")
        return argument.values[value]
    if argument.units is None:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{argument.name} is {shown(value)}; give a number.")
    try:
        return value / argument.units
    except OverflowError:
        return value  # the option's bounds refuse it
