"""Times and texts that any database can store.

An exception may name a file with a name that is no text, or quote a body with a zero byte in it. PostgreSQL
refuses both, and a verdict that cannot be written would be tried for ever.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

LAST = datetime.max.replace(tzinfo=UTC)


def time_of(value: Any) -> datetime:
    """Return the aware time that a column holds; SQLite's is a text."""
    time: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def time_or_none(value: Any) -> datetime | None:
    """Return the aware time that a column holds, None where it holds none."""
    return None if value is None else time_of(value)


def headers_in(text: str) -> Mapping[str, object]:
    """Return the headers in a stored text of JSON; none where the text is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}  # a row that was not written by a publisher
    return found if isinstance(found, dict) else {}


def later(now: datetime, seconds: float) -> datetime:
    """Return the time so many seconds ahead; the end of the calendar is far enough."""
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def storable(text: str, limit: int | None = None) -> str:
    """Return the text, cut to the limit, with escapes for characters that a database refuses."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return plain[:limit]


#: Characters kept of what an exception says, and of its traceback: it may quote a body of megabytes.
LONGEST = 20_000


def told(text: str) -> str:
    """Return what an exception says, or its traceback, as any database can store it and any page can show it.

    Of a longer text than ``LONGEST`` both ends are kept, as tracebacks say why at theirs.
    """
    plain = storable(text)
    if len(plain) <= LONGEST:
        return plain
    gap = f"\n[{len(plain) - LONGEST:,} characters left out]\n"
    half = (LONGEST - len(gap)) // 2
    return f"{plain[:half]}{gap}{plain[-half:]}"


def uuid_of(text: str) -> UUID | None:
    """Return the UUID that a text spells, None if it spells none."""
    try:
        return UUID(text)
    except ValueError:
        return None
