"""Arguments of commands, and the values that they take. A value out of range ends with exit code 2."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from math import isfinite
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

if TYPE_CHECKING:
    from argparse import _ActionsContainer
    from collections.abc import Callable

    #: Adds itself to a parser, or to a group of one.
    Argument = Callable[[_ActionsContainer], object]


class UsageError(CommandError):
    """A wrong command line that argparse accepts."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, returncode=2)


def argument(*flags: str, **options: Any) -> Argument:
    """Return an argument with the parameters of ``ArgumentParser.add_argument``."""
    return lambda container: container.add_argument(*flags, **options)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Return arguments of which the command line takes one."""

    def add(container: _ActionsContainer) -> None:
        group = container.add_mutually_exclusive_group(required=required)
        for each in arguments:
            each(group)

    return add


def at_least_one(text: str) -> int:
    """Read a whole number from 1 to the largest that a database and an iterator can count to."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError("must be 1 or more.")
    if number > sys.maxsize:
        raise ArgumentTypeError(f"must be at most {sys.maxsize}.")
    return number


def port(text: str) -> int:
    """Read the number of a port."""
    number = int(text)
    if not 1 <= number <= 65535:
        raise ArgumentTypeError("must be from 1 to 65535.")
    return number


def more_than_zero(text: str) -> float:
    """Read a number of seconds, more than 0 and finite."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ArgumentTypeError("must be more than 0.")
    return seconds


def finite(text: str) -> float:
    """Read a finite number: no number is larger than a NaN."""
    number = float(text)
    if not isfinite(number):
        raise ArgumentTypeError("must be a finite number.")
    return number


WHY = argument(
    "--why", default="", metavar="TEXT", help="Why; kept with what you do, and asked for many messages."
)
QUEUE = argument("queue", metavar="QUEUE")
ONLY_QUEUES = argument("queues", metavar="QUEUE", nargs="*", help="Only these.")
LIMIT = argument("--limit", type=at_least_one, metavar="N", help="At most so many, the oldest first.")
