"""Which names and short texts every database can store, and a check of numbers."""

from math import inf
from typing import Final, TypeGuard

from django_mq.errors import OutOfRange

#: The longest name of a queue or an exchange, in characters.
NAME_LENGTH: Final = 200
WHAT_A_NAME_IS: Final = f"a queue's name is a text of 1 to {NAME_LENGTH} characters that a database can store"


def is_name(value: object) -> TypeGuard[str]:
    """Whether every database can store this as the name of a queue."""
    return isinstance(value, str) and value != "" and is_storable(value, NAME_LENGTH)


def is_storable(text: str, limit: int) -> bool:
    """Whether every database can store the text: no null, no half of a surrogate pair, and not too long."""
    if len(text) > limit or "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_bounds(least: float, most: float = inf, /, **numbers: float | None) -> None:
    """Raise OutOfRange for a number that is NaN or out of bounds; None is allowed."""
    for name, number in numbers.items():
        if number is not None and not least <= number <= most:
            raise OutOfRange(f"{name} is {number!r}; use {least} to {most}.")
