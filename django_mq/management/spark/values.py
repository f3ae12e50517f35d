"""Days and times on the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import date, timedelta
from math import nan


def day_of(text: str) -> date:
    """Return the day. Raises ArgumentTypeError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no day; write it as 2026-03-02") from None


def hours_of(text: str) -> float:
    """Return a number of hours, -1 or more. Raises ArgumentTypeError."""
    return _number(text, "hours", most=timedelta.max / timedelta(hours=1), least=-1.0)


def lease_of(text: str) -> float:
    """Return a number of seconds, from one to a day. Raises ArgumentTypeError."""
    return _number(text, "seconds", most=86400.0, least=1.0)


def seconds_of(text: str) -> float:
    """Return a number of seconds. Raises ArgumentTypeError."""
    return _number(text, "seconds", most=timedelta.max.total_seconds(), least=0.0)


def _number(text: str, unit: str, *, most: float, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not least <= value < most:
        raise ArgumentTypeError(f"{text!r} is no number of {unit}, or out of range")
    return value
