"""Values on a command line: what is out of range makes no sense, and ends with exit code 2."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from math import isfinite
from typing import TYPE_CHECKING

from django.core.management.base import CommandError

if TYPE_CHECKING:
    from argparse import ArgumentParser


class UsageError(CommandError):
    """A command line that makes no sense, found out after argparse was content with it."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, returncode=2)


def at_least_one(text: str) -> int:
    """Read a whole number, 1 or more, that a database and an iterator can count to."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError("must be 1 or more.")
    if number > sys.maxsize:
        raise ArgumentTypeError(f"must be at most {sys.maxsize}.")
    return number


def more_than_zero(text: str) -> float:
    """Read a number of seconds that takes some time."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError("must be more than 0.")
    return seconds


def finite(text: str) -> float:
    """Read a number that others can be compared with: with a NaN, none is larger."""
    number = float(text)
    if not isfinite(number):
        raise ArgumentTypeError("must be a finite number.")
    return number


def add_json(parser: ArgumentParser, *, what: str = "a JSON object") -> None:
    """Add the option for scripts."""
    parser.add_argument("--json", action="store_true", help=f"Print {what}.")


def add_dry_run(parser: ArgumentParser, *, what: str) -> None:
    """Add the option for the careful."""
    parser.add_argument("--dry-run", action="store_true", help=f"Only say {what}; nothing is changed.")


def add_pause(parser: ArgumentParser) -> None:
    """Add what a pause may say."""
    parser.add_argument("--reason", default="", help="Shown to everybody who wonders why nothing moves.")
    parser.add_argument("--seconds", type=more_than_zero, help="Resume by itself after so long.")
