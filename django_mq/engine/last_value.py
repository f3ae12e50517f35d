"""Of the messages with one key, which replaces which: what arrived later is the later value."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from django_mq.engine.states import CLAIMED, Cause
from django_mq.errors import InvalidMessage

#: The mark of a held message that a later value has replaced.
BY_LATER_VALUE: Final[str] = Cause.REPLACED.value

#: Longest key, in characters: what fits into a column.
KEY_LENGTH: Final = 255


class Replaced(NamedTuple):
    """The older values of one key: those that go at once, and those that go when they are given back."""

    gone: list[int]
    held: list[int]


def is_outdone(arrival: int, others: Iterable[int]) -> bool:
    """Whether a value that comes to stand in its queue again is worthless.

    Given are the arrivals of the others that are alive. A value that was replaced itself outdoes none.
    """
    return any(other >= arrival for other in others)


def replaced(others: Iterable[tuple[int, int]]) -> Replaced:
    """Return what a later value does to the others of its key, of which the arrivals and the states are given.

    What a session holds is its until it is settled.
    """
    found = Replaced([], [])
    for arrival, state in others:
        (found.held if state == CLAIMED else found.gone).append(arrival)
    return found


def check_value(queue: str, header: str, key: str, *, is_later: bool) -> None:
    """Raise InvalidMessage for a key that is too long, and for a value that is to come later.

    Until then the value it replaces would have to be kept, and then be taken back.
    """
    if len(key) > KEY_LENGTH:
        raise InvalidMessage(f"The header {header!r} is {len(key)} characters long; at most {KEY_LENGTH} fit.")
    if is_later:
        raise InvalidMessage(
            f"Queue {queue!r} keeps the last value of each {header!r}, and takes none in advance: "
            "publish it when it holds."
        )
