"""Reckoning with times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

LAST = datetime.max.replace(tzinfo=UTC)


def time_of(value: Any) -> datetime:
    """Return the aware time that a column holds; SQLite's is a text."""
    time: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def later(now: datetime, seconds: float) -> datetime:
    """Return the time so many seconds ahead; the end of the calendar is far enough."""
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        return LAST
