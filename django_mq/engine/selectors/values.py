"""What a selector calculates with: truth, numbers, text, and None for "no value".

Headers hold whatever the publisher put there. They are brought to exact ``bool``, ``int``,
``float`` or ``str`` where they are read, so that what comes after may go by the exact type:
True is then never taken for the number 1, and no subclass can bring an operator that raises.
"""

import sys
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from django_mq.engine.message import Message

#: None is SQL's NULL, and as a truth: unknown.
Value: TypeAlias = bool | int | float | str | None
#: A piece of a selector, ready to be asked of messages. It never raises.
Expression: TypeAlias = Callable[[Message], Value]

#: The pairs of types that have an order; one with itself: is a number.
ORDERED: Final = frozenset({(int, int), (int, float), (float, int), (float, float)})
#: The pairs of types that may be asked whether they are equal.
EQUATABLE: Final = ORDERED | {(str, str), (bool, bool)}

#: Numbers end where those of a double end. Without a limit for whole numbers a chain of
#: products could take any time and memory.
LARGEST: Final = sys.float_info.max


def number(value: int | float) -> int | float | None:
    """The number itself; None for one that is too large, is infinite or is "not a number"."""
    return value if -LARGEST <= value <= LARGEST else None


def value_of(raw: object) -> Value:
    """What a selector makes of anything found in a message; None if it is of no use to it."""
    kind = type(raw)
    if kind is str or kind is bool:
        return cast("Value", raw)
    if kind is int or kind is float:
        return number(cast("float", raw))
    return _plain(raw)


def _plain(raw: object) -> Value:
    if isinstance(raw, str):  # a member of a text enumeration, for one
        return str.__str__(raw)
    if isinstance(raw, int):
        return number(int.__int__(raw))
    if isinstance(raw, float):
        return number(float.__float__(raw))
    return None


def literal(value: Value) -> Expression:
    """The same value for every message."""

    def same(_: Message) -> Value:
        return value

    return same
