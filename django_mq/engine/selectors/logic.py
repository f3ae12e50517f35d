"""AND, OR, NOT and IS NULL in three values: true, false and unknown.

What is no truth, as text or a number where a condition should stand, counts as unknown.
"""

from django_mq.engine.message import Message
from django_mq.engine.selectors.values import Expression, Value


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
