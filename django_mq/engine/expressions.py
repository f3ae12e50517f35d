"""The expressions of a selector, over truth values, numbers, texts, and None for "no value".

Headers have any values. They are converted to exact ``bool``, ``int``,
``float`` or ``str`` when they are read, so that later code can compare exact types:
True is then never taken for the number 1, and no operator of a subclass can raise.

As a truth value, None is unknown, and so is a text or a number in place of a condition. Numbers
compare with numbers; texts and truth values have no order, they are equal or not. An expression that
cannot be calculated has no value, and never raises.
"""

import operator
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from django_mq.engine.message import Message

#: None is SQL's NULL, and as a truth: unknown.
Value: TypeAlias = bool | int | float | str | None
#: A part of a selector: returns its value for a message, and never raises.
Expression: TypeAlias = Callable[[Message], Value]
#: The pairs of types that have an order.
ORDERED: Final = frozenset({(int, int), (int, float), (float, int), (float, float)})
#: The pairs of types that can be compared for equality.
EQUATABLE: Final = ORDERED | {(str, str), (bool, bool)}
#: The largest number is that of a double. Without a limit for whole numbers a chain of
#: products could take any time and memory.
LARGEST: Final = sys.float_info.max


def number(value: int | float) -> int | float | None:
    """Return the number itself; None if it is too large, infinite or NaN."""
    return value if -LARGEST <= value <= LARGEST else None


def value_of(raw: object) -> Value:
    """Return a property or header as a value of expressions; None if its type is not supported."""
    if type(raw) is str or type(raw) is bool:
        return raw
    if type(raw) is int or type(raw) is float:
        return number(raw)
    if isinstance(raw, str):  # such as a member of a StrEnum
        return str.__str__(raw)
    if isinstance(raw, int):
        return number(int.__int__(raw))
    return number(float.__float__(raw)) if isinstance(raw, float) else None


def literal(value: Value) -> Expression:
    """Return an expression with the same value for every message."""
    return lambda _: value


def named(name: str) -> Expression:
    """Return an expression for the property of this name, or the header if there is no such property."""
    read = PROPERTIES.get(name)
    if read is None:
        return lambda message: value_of(message.headers.get(name))
    return lambda message: value_of(read(message))


def _milliseconds(seconds: object) -> object:
    """Return a time in milliseconds, as JMS counts it; None if it is no number."""
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
    # JMS has 0 for "never", and selectors written for JMS compare with it.
    return 0 if message.expires_at is None else _milliseconds(message.expires_at)


#: The properties by their names in a selector: those of JMS and, with AMQ in front, of Artemis. A selector cannot
#: read a header that has one of these names.
PROPERTIES: Final[Mapping[str, Callable[[Message], object]]] = {
    "JMSMessageID": operator.attrgetter("id"),
    "JMSPriority": operator.attrgetter("priority"),
    "JMSTimestamp": _published,
    "JMSDeliveryTime": _deliverable,
    "JMSExpiration": _expires,
    "JMSDestination": lambda message: message.queue or None,
    "JMSType": lambda message: message.type or None,
    "JMSCorrelationID": operator.attrgetter("correlation_id"),
    "JMSReplyTo": operator.attrgetter("reply_to"),
    "AMQUserID": operator.attrgetter("id"),
    "AMQPriority": operator.attrgetter("priority"),
    "AMQTimestamp": _published,
    "AMQExpiration": _expires,
    "AMQAddress": lambda message: message.queue or None,
    "AMQSize": operator.attrgetter("size"),
}


def every(parts: list[Expression]) -> Expression:
    """AND: false as soon as a part is false."""
    return _junction(parts, decisive=False)


def some(parts: list[Expression]) -> Expression:
    """OR: true as soon as a part is true."""
    return _junction(parts, decisive=True)


def _junction(parts: list[Expression], *, decisive: bool) -> Expression:
    otherwise = not decisive

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
    """NOT: unknown stays unknown."""

    def value(message: Message) -> Value:
        truth = part(message)
        return not truth if truth is True or truth is False else None

    return value


def absence(part: Expression) -> Expression:
    """IS NULL: never unknown."""
    return lambda message: part(message) is None


def _divide(left: Any, right: Any) -> Any:
    """Divide whole numbers to a whole number, cut towards zero; Python would round down."""
    if type(left) is float or type(right) is float:
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


#: The operator of every sign, and the pairs of types that it applies to.
_OPERATIONS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], frozenset[tuple[type, type]]]]] = {
    "=": (operator.eq, EQUATABLE),
    "<>": (operator.ne, EQUATABLE),
    "<": (operator.lt, ORDERED),
    "<=": (operator.le, ORDERED),
    ">": (operator.gt, ORDERED),
    ">=": (operator.ge, ORDERED),
    "+": (operator.add, ORDERED),
    "-": (operator.sub, ORDERED),
    "*": (operator.mul, ORDERED),
    "/": (_divide, ORDERED),
}
COMPARISON_SIGNS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})


def comparison(sign: str, left: Expression, right: Expression) -> Expression:
    """Return one of the six comparisons."""
    compare, suitable = _OPERATIONS[sign]

    def value(message: Message) -> Value:
        one, other = left(message), right(message)
        return compare(one, other) if (type(one), type(other)) in suitable else None

    return value


def chain(first: Expression, steps: list[tuple[str, Expression]]) -> Expression:
    """Return a sum or a product of any length, calculated from left to right."""
    row = [(*_OPERATIONS[sign], part) for sign, part in steps]

    def value(message: Message) -> Value:
        result: Any = first(message)
        for operation, suitable, part in row:
            other = part(message)
            if (type(result), type(other)) not in suitable:
                return None
            try:
                result = number(operation(result, other))
            except ZeroDivisionError:
                return None
        return result  # type: ignore[no-any-return]

    return value


def membership(part: Expression, members: list[Value]) -> Expression:
    """IN: the same as ``=`` for each member, joined by OR."""
    answers = {kind: _answers(kind, members) for kind in (int, float, str, bool)}

    def value(message: Message) -> Value:
        one = part(message)
        if one is None:
            return None
        suitable, otherwise = answers[type(one)]
        return True if one in suitable else otherwise

    return value


def _answers(kind: type, members: list[Value]) -> tuple[frozenset[Value], bool | None]:
    """Return the members that a value of this type may equal, and the result if it equals none of them."""
    suitable = [member for member in members if (kind, type(member)) in EQUATABLE]
    return frozenset(suitable), False if len(suitable) == len(members) else None


#: Returns a match of the whole text, or None.
Matcher: TypeAlias = Callable[[str], object]


def like(part: Expression, pattern: str, escape: str = "") -> Expression:
    """LIKE: unknown for a value that is not text."""
    matcher = matcher_of(pattern, escape)

    def value(message: Message) -> Value:
        text = part(message)
        return matcher(text) is not None if type(text) is str else None

    return value


def escapes_well(pattern: str, escape: str) -> bool:
    """Whether every escape character stands before ``%``, ``_`` or another escape character."""
    mark = re.escape(escape)
    return re.fullmatch(f"(?:{mark}[{mark}%_]|[^{mark}])*+", pattern) is not None


def matcher_of(pattern: str, escape: str = "") -> Matcher:
    """Return a matcher of this pattern, for which ``escapes_well`` holds: ``%`` any text, ``_`` any character.

    The pattern is cut at its ``%``. Each run between two of them is searched once, and the first match is
    final, without backtracking: an earlier match leaves more room for all later
    runs, so nothing is missed. A match therefore takes at most as many steps as
    pattern times text; the usual translation into ``.*`` tries every way to cut the text.
    """
    runs = [""]
    characters = iter(pattern)
    for character in characters:
        if character == "%" != escape:
            runs.append("")
        elif character == "_" != escape:
            runs[-1] += "."
        else:
            runs[-1] += re.escape(next(characters) if character == escape else character)
    first, *others = runs
    if not others:
        return re.compile(first, re.DOTALL).fullmatch
    *inner, last = others
    # (?>...) prevents backtracking.
    searched = "".join(f"(?>.*?{run})" for run in inner if run)
    return re.compile(f"{first}{searched}.*{last}", re.DOTALL).fullmatch
