"""Reckoning with times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

LAST = datetime.max.replace(tzinfo=UTC)


def later(now: datetime, seconds: float) -> datetime:
    """Return the time so many seconds ahead; the end of the calendar is far enough."""
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        return LAST
