"""Between which bounds a number of the engine's rules lies."""

from math import inf

from django_mq.errors import OutOfRange


def check_bounds(least: float, most: float = inf, /, **numbers: float | None) -> None:
    """Raise OutOfRange for a number that does not lie between the bounds, which NaN never does; None fits."""
    for name, number in numbers.items():
        if number is not None and not least <= number <= most:
            raise OutOfRange(f"{name} is {number!r}; use {least} to {most}.")
