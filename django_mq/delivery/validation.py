"""Check what a caller gives, before anything is written. The errors say what to do."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_mq import conf
from django_mq.engine.decisions.routing import SELECTOR_LENGTH
from django_mq.engine.options import LONGEST_SECONDS, NAME_LENGTH, WHAT_A_NAME_IS, is_name, is_storable
from django_mq.engine.selector import Selector
from django_mq.errors import BodyTooLarge, ConfigurationError, InvalidMessage, UnknownQueue

#: Longest type, correlation id and group key, in characters: the length of the columns.
TEXT_LENGTH = 255
#: Earliest and latest time: beyond these, some time zone has no date.
EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
#: A null character or a surrogate in JSON. Pairs of surrogates are allowed.
UNSTORABLE_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def plain(value: Any) -> Any:
    """Return a text as a plain str: some drivers write a member of an enumeration in another way."""
    return str.__str__(value) if type(value) is not str and isinstance(value, str) else value


def check_target(queue: Any, exchange: Any) -> str:
    """Return the name of the queue, or of the exchange, to which a message goes."""
    target = exchange if exchange is not None else queue
    if not isinstance(target, str) or not target:
        raise InvalidMessage("Name the queue to publish to, or an exchange.")
    if exchange is not None and queue:
        raise InvalidMessage("Name a queue or an exchange, not both.")
    return text(target, "The name of a queue or an exchange", limit=NAME_LENGTH)


def queue_name(value: Any) -> str:
    """Return a name that a new queue can have."""
    if value is None or value == "":
        raise InvalidMessage("Name the queue: its name is empty.")
    return text(value, "The name of a queue", limit=NAME_LENGTH)


def existing(queue: Any) -> str:
    """Return the name of a queue that should exist. Raises UnknownQueue if no queue can have it."""
    if not is_name(queue):
        raise UnknownQueue(f"There is no queue {queue!r}: {WHAT_A_NAME_IS}.", queue=str(queue))
    name: str = plain(queue)
    return name


def priority(value: Any) -> int:
    """Return the priority, a whole number 0 to 9."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidMessage(f"priority must be a whole number from 0 to 9, not {value!r}.")
    if not 0 <= value <= 9:
        raise InvalidMessage(f"priority is {value}; use 0 to 9, 9 is delivered first.")
    return int(value)


def moment(at: Any, within: Any, at_name: str, within_name: str) -> tuple[datetime | None, float | None]:
    """Return an absolute time or seconds from now, never both."""
    if at is not None and within is not None:
        raise InvalidMessage(f"Give {at_name} or {within_name}, not both.")
    if at is not None:
        return aware(at, at_name), None
    return None, None if within is None else seconds(within, within_name)


def check_lifetime(due: Any, end: Any) -> None:
    """Refuse a message that expires before it is due: two times, or two spans of seconds, or None."""
    if due and end is not None and end <= due:
        raise InvalidMessage(
            "The message would expire before it is delivered: ttl and expires_at must be later than delay and"
            " deliver_at. ttl counts from publishing."
        )


def aware(value: Any, name: str) -> datetime:
    """Return an aware time, in UTC. Without ``USE_TZ``, a naive one is in the site's time zone."""
    if not isinstance(value, datetime):
        raise InvalidMessage(f"{name} must be a datetime, not {type(value).__name__}.")
    if timezone.is_naive(value) and conf.uses_time_zones():
        raise InvalidMessage(f"{name} is a naive datetime; use timezone.now() or timezone.make_aware().")
    value = conf.aware(value)
    if not EARLIEST <= value <= LATEST:
        raise InvalidMessage(f"{name} is {value}; that is beyond the calendar of some time zone.")
    time: datetime = value.astimezone(UTC)
    return time


def seconds(value: Any, name: str) -> float:
    """Return a time span in seconds, less than a century."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidMessage(f"{name} must be a timedelta or a number of seconds, not {value!r}.")
    # Databases can store the sum with the current time.
    if not 0 <= value < LONGEST_SECONDS:
        raise InvalidMessage(f"{name} is {value}; use 0 or more seconds, less than a century.")
    return float(value)


def count_of(value: Any, name: str) -> int:
    """Return a number of messages, 1 or more, that every database can store."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise InvalidMessage(f"{name} must be a whole number from 1 to {2**31 - 1}, not {value!r}.")
    return int(value)


def message_id(value: Any) -> UUID | None:
    """Return the id as a UUID."""
    if value is None or isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise InvalidMessage(f"message_id must be a UUID, not {value!r}.") from None


def text(value: Any, name: str, *, limit: int = TEXT_LENGTH) -> str:
    """Return a short text that every database can store; empty for None."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidMessage(f"{name} must be a string, not {type(value).__name__}.")
    if len(value) > limit:
        raise InvalidMessage(f"{name} is {len(value)} characters long; at most {limit} fit.")
    if not value.isascii() or "\x00" in value:
        _check_storable(value, name)
    return value if type(value) is str else str.__str__(value)


def _check_storable(value: str, name: str) -> None:
    if "\x00" in value:
        raise InvalidMessage(f"{name} contains a null character, which databases cannot store.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"{name} contains half a surrogate pair, which is no text: {error}") from None


def check_json(encoded: str, what: str) -> None:
    """Refuse null characters and halves of surrogate pairs, which JSON columns cannot store."""
    if may_be_unstorable(encoded):
        _check_storable(_joined(json.loads(encoded)), what)


def may_be_unstorable(encoded: str) -> bool:
    """Return whether JSON in ASCII has a null character or a surrogate."""
    return "\\u" in encoded and UNSTORABLE_ESCAPE.search(encoded) is not None


def _joined(value: Any) -> str:
    """Return all texts of a JSON value, joined."""
    if isinstance(value, dict):
        return "\n".join([*value, *map(_joined, value.values())])
    if isinstance(value, list):
        return "\n".join(map(_joined, value))
    return value if isinstance(value, str) else ""


def check_size(encoded: bytes | str, what: str = "body") -> None:
    """Refuse a body, or headers in ASCII, over the limit."""
    limit = conf.load().MAX_BODY_BYTES
    if len(encoded) > limit:
        verb = "have" if what == "headers" else "has"
        raise BodyTooLarge(
            f"The {what} {verb} {len(encoded)} bytes; DJANGO_MQ['MAX_BODY_BYTES'] allows {limit}. "
            "Store large data elsewhere and publish a reference to it."
        )


def oversize(encoded: bytes | str, what: str, *, setting: str = "MAX_RESULT_BYTES") -> str | None:
    """Return why a result, or something else in ASCII, is too large, as a sentence; None if it is not."""
    size, most = len(encoded), getattr(conf.load(), setting)
    return f"{what} has {size:,} bytes; DJANGO_MQ['{setting}'] allows {most:,}." if size > most else None


def read_time(text: str, name: str) -> datetime:
    """Return the time in UTC; without an offset it is in the site's time zone. Raises InvalidMessage."""
    try:
        time = parse_datetime(text)
    except ValueError as error:
        raise InvalidMessage(f"{name} {text!r} is not a valid date and time: {error}.") from None
    if time is None:
        raise InvalidMessage(f"{name} {text!r} is not a valid date and time; write it as 2031-01-31T09:00+01:00.")
    return aware(timezone.make_aware(time) if timezone.is_naive(time) else time, name)


def check_selector(selector: object) -> str:
    """Return a selector that can be stored. Raises MalformedSelector, and ConfigurationError if it cannot."""
    if not isinstance(selector, str) or len(selector) > SELECTOR_LENGTH:
        raise ConfigurationError(f"The selector has to be a text of at most {SELECTOR_LENGTH} characters.")
    if not is_storable(selector, SELECTOR_LENGTH):
        raise ConfigurationError("The selector has a null or half of a surrogate pair: no database can store it.")
    return Selector(selector).text
