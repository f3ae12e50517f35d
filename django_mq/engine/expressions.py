"""What a selector calculates with: truth, numbers, text, and None for "no value".

Headers hold whatever the publisher put there. They are brought to exact ``bool``, ``int``,
``float`` or ``str`` where they are read, so that what comes after may go by the exact type:
True is then never taken for the number 1, and no subclass can bring an operator that raises.

As a truth, None is unknown, and so is a text or a number where a condition should stand. Numbers
compare with numbers; text and truth have no order, they are equal or they are not. What cannot be
calculated has no value, and never raises.
"""

import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

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


def named(name: str) -> Expression:
    """Reads the property of this name, or the header if there is no such property."""
    read = PROPERTIES.get(name)
    return _header(name) if read is None else _property(read)


def _header(name: str) -> Expression:
    def value(message: Message) -> Value:
        return value_of(message.headers.get(name))

    return value


def _property(read: Callable[[Message], object]) -> Expression:
    def value(message: Message) -> Value:
        return value_of(read(message))

    return value


def _milliseconds(seconds: object) -> object:
    """A time as JMS counts it; None for what is none."""
    time = value_of(seconds)
    if type(time) is not int and type(time) is not float:
        return None
    milliseconds = number(time * 1000)
    return None if milliseconds is None else round(milliseconds)


def _published(message: Message) -> object:
    return _milliseconds(message.published_at)


def _deliverable(message: Message) -> object:
    return _milliseconds(message.published_at if message.deliver_at is None else message.deliver_at)


def _expires(message: Message) -> object:
    # JMS has 0 for "never", and selectors written for JMS ask for it.
    return 0 if message.expires_at is None else _milliseconds(message.expires_at)


#: From the name in the selector to what reads it: JMS' names and, with AMQ in front, Artemis'. A header that has
#: one of these names cannot be asked for.
PROPERTIES: Final[Mapping[str, Callable[[Message], object]]] = {
    "JMSMessageID": operator.attrgetter("id"),
    "JMSPriority": operator.attrgetter("priority"),
    "JMSTimestamp": _published,
    "JMSDeliveryTime": _deliverable,
    "JMSExpiration": _expires,
    "JMSDestination": lambda message: message.queue or None,
    "JMSType": lambda message: message.type or None,
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSReplyTo": lambda message: message.reply_to,
    "AMQUserID": operator.attrgetter("id"),
    "AMQPriority": operator.attrgetter("priority"),
    "AMQTimestamp": _published,
    "AMQExpiration": _expires,
    "AMQAddress": lambda message: message.queue or None,
    "AMQSize": lambda message: message.size,
}


def every(parts: list[Expression]) -> Expression:
    """AND: false as soon as a part is false."""
    return _junction(parts, decisive=False)


def some(parts: list[Expression]) -> Expression:
    """OR: true as soon as a part is true."""
    return _junction(parts, decisive=True)


def _junction(parts: list[Expression], *, decisive: bool) -> Expression:
    otherwise = not decisive

    # A loop, not a tree of pairs: a thousand parts must not be a thousand calls deep.
    def value(message: Message) -> Value:
        result: Value = otherwise
        for part in parts:
            truth = part(message)
            if truth is decisive:
                return decisive
            if truth is not otherwise:
                result = None
        return result

    return value


def negation(part: Expression) -> Expression:
    """NOT: the unknown stays unknown."""

    def value(message: Message) -> Value:
        truth = part(message)
        return not truth if truth is True or truth is False else None

    return value


def absence(part: Expression) -> Expression:
    """IS NULL: never unknown."""

    def value(message: Message) -> Value:
        return part(message) is None

    return value


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
    return chain(literal(0), [(sign, part)])


#: Answers a match, or None, for the whole of a text.
Matcher: TypeAlias = Callable[[str], object]


def like(part: Expression, matcher: Matcher) -> Expression:
    """LIKE: unknown for anything that is not text."""

    def value(message: Message) -> Value:
        text = part(message)
        return matcher(text) is not None if type(text) is str else None

    return value


def escapes_well(pattern: str, escape: str) -> bool:
    """Whether every escape character stands before ``%``, ``_`` or another of its kind."""
    mark = re.escape(escape)
    return re.fullmatch(f"(?:{mark}[{mark}%_]|[^{mark}])*+", pattern) is not None


def matcher_of(pattern: str, escape: str = "") -> Matcher:
    """What matches this pattern, which must be one that ``escapes_well``: ``%`` any text, ``_`` any character.

    The pattern is cut at its ``%``. A run between two of them is looked for once, at the first
    place where it fits, and that choice is never taken back: an earlier fit leaves all later
    runs more room, so nothing is missed. A match therefore takes at most as many steps as
    pattern times text; the usual translation into ``.*`` tries every way to cut the text.
    """
    first, *others = _runs(pattern, escape)
    if not others:
        return re.compile(first, re.DOTALL).fullmatch
    *inner, last = others
    # (?>...) is what forbids a second choice.
    searched = "".join(f"(?>.*?{run})" for run in inner if run)
    return re.compile(f"{first}{searched}.*{last}", re.DOTALL).fullmatch


def _runs(pattern: str, escape: str) -> list[str]:
    """The pieces between the ``%`` signs, as regular expressions of a fixed length."""
    runs: list[list[str]] = [[]]
    for step in _steps(pattern, escape):
        if step:
            runs[-1].append(step)
        else:
            runs.append([])
    return ["".join(run) for run in runs]


def _steps(pattern: str, escape: str) -> Iterator[str]:
    """A regular expression for each character; an empty one for ``%``."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield re.escape(next(characters))
        elif character in "%_":
            yield "" if character == "%" else "."
        else:
            yield re.escape(character)
