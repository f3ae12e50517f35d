"""A check of numbers."""

from math import inf

from django_mq.errors import OutOfRange


def check_bounds(least: float, most: float = inf, /, **numbers: float | None) -> None:
    """Raise OutOfRange for a number that is NaN or out of bounds; None is allowed."""
    for name, number in numbers.items():
        if number is not None and not least <= number <= most:
            raise OutOfRange(f"{name} is {number!r}; use {least} to {most}.")
