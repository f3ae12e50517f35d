"""Comparisons, BETWEEN and IN: unknown unless the types suit each other.

Numbers compare with numbers. Text and truth have no order, they are equal or they are not.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from django_mq.engine.message import Message
from django_mq.engine.selectors.values import EQUATABLE, ORDERED, Expression, Value

#: Of every sign: what it does, and which pairs of types it does it to.
_COMPARISONS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], frozenset[tuple[type, type]]]]] = {
    "=": (operator.eq, EQUATABLE),
    "<>": (operator.ne, EQUATABLE),
    "<": (operator.lt, ORDERED),
    "<=": (operator.le, ORDERED),
    ">": (operator.gt, ORDERED),
    ">=": (operator.ge, ORDERED),
}

COMPARISON_SIGNS: Final = frozenset(_COMPARISONS)


def comparison(sign: str, left: Expression, right: Expression) -> Expression:
    """One of the six comparisons."""
    compare, suitable = _COMPARISONS[sign]

    def value(message: Message) -> Value:
        one, other = left(message), right(message)
        return compare(one, other) if (type(one), type(other)) in suitable else None

    return value


def between(part: Expression, low: Expression, high: Expression) -> Expression:
    """BETWEEN, both ends included: false if one end is missed, whatever the other may be."""

    def value(message: Message) -> Value:
        middle = part(message)
        above, below = _at_most(low(message), middle), _at_most(middle, high(message))
        if above is False or below is False:
            return False
        return above and below

    return value


def _at_most(low: Any, high: Any) -> bool | None:
    return bool(low <= high) if (type(low), type(high)) in ORDERED else None


def membership(part: Expression, members: list[Value]) -> Expression:
    """IN: what a row of ``=`` joined by OR would say."""
    answers = {kind: _answers(kind, members) for kind in (int, float, str, bool)}

    def value(message: Message) -> Value:
        one = part(message)
        if one is None:
            return None
        suitable, otherwise = answers[type(one)]
        return True if one in suitable else otherwise

    return value


def _answers(kind: type, members: list[Value]) -> tuple[frozenset[Value], bool | None]:
    """The members a value of this type may equal, and the answer if it equals none of them."""
    suitable = [member for member in members if (kind, type(member)) in EQUATABLE]
    return frozenset(suitable), False if len(suitable) == len(members) else None
