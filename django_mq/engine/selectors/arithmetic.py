"""Sums, products and signs. What cannot be calculated has no value, and never raises."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from django_mq.engine.message import Message
from django_mq.engine.selectors.values import ORDERED, Expression, Value, number

#: A sign and what stands to the right of it.
Step: TypeAlias = tuple[str, Expression]


def _divide(left: Any, right: Any) -> Any:
    """Whole numbers give a whole number, cut towards zero: Python alone would round down."""
    if type(left) is float or type(right) is float:
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


_OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


def chain(first: Expression, steps: list[Step]) -> Expression:
    """A sum or a product of any length, calculated from left to right."""
    row = [(_OPERATIONS[sign], part) for sign, part in steps]

    def value(message: Message) -> Value:
        total = first(message)
        for operation, part in row:
            total = _calculate(operation, total, part(message))
        return total

    return value


def _calculate(operation: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    if (type(left), type(right)) not in ORDERED:
        return None
    try:
        return number(operation(left, right))
    except ZeroDivisionError:
        return None


def signed(sign: str, part: Expression) -> Expression:
    """A number with a sign before it; anything else has no value."""
    return chain(_zero, [(sign, part)])


def _zero(_: Message) -> Value:
    return 0
