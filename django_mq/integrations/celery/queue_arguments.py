"""RabbitMQ's arguments of a queue, read as options of ours; those that mean nothing here are ignored.

They count where they create the queue; one that is there already stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Limits, and the options that they are.
LIMITS = {"x-max-length": "max_messages", "x-max-length-bytes": "max_bytes"}
#: What RabbitMQ does with a full queue, and what it is called here.
OVERFLOWS = {"drop-head": "ring", "reject-publish": "reject", "reject-publish-dlx": "reject"}
#: What it does if nothing is said.
USUAL_OVERFLOW = "drop-head"


def with_attributes(
    arguments: Mapping[str, Any] | None,
    *,
    message_ttl: float | None = None,
    max_length: int | None = None,
    max_length_bytes: int | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Return the arguments with those that Kombu's queue has attributes for; its time to live is in seconds."""
    milliseconds = None if message_ttl is None else int(message_ttl * 1000)
    named = {"x-message-ttl": milliseconds, "x-max-length": max_length, "x-max-length-bytes": max_length_bytes}
    return {**(arguments or {}), **{name: value for name, value in named.items() if value is not None}}


def options_in(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options that the arguments stand for. Raises ConfigurationError."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    options = {option: given[name] for name, option in LIMITS.items() if name in given}
    if options:
        options["overflow"] = _overflow(given.get("x-overflow", USUAL_OVERFLOW))
    if "x-message-ttl" in given:
        options["max_ttl_seconds"] = _seconds(given["x-message-ttl"])
    if given.get("x-single-active-consumer"):
        options["grouping"] = "sole"
    return options


def _overflow(value: Any) -> str:
    if not isinstance(value, str) or value not in OVERFLOWS:
        raise ConfigurationError(f"x-overflow is {value!r}; use one of {', '.join(OVERFLOWS)}.")
    return OVERFLOWS[value]


def _seconds(milliseconds: Any) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        raise ConfigurationError(f"x-message-ttl is {milliseconds!r}; give milliseconds, a number.")
    return milliseconds / 1000
