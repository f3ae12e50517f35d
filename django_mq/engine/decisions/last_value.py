"""Of the messages with one key, which replaces which: the one that arrived later is the later value."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from django_mq.engine.states import CLAIMED, Cause
from django_mq.errors import InvalidMessage

#: The mark of a held message that a later value has replaced.
BY_LATER_VALUE: Final[str] = Cause.REPLACED.value

#: The longest key in characters, which is the size of the column.
KEY_LENGTH: Final = 255


class Replaced(NamedTuple):
    """The older values of one key: those removed at once, and those removed when they are returned."""

    gone: list[int]
    held: list[int]


def is_outdone(arrival: int, others: Iterable[int]) -> bool:
    """Whether a value that becomes ready again is replaced by one of ``others``, the arrivals of the live ones.

    A value that was replaced itself replaces none.
    """
    return any(other >= arrival for other in others)


def replaced(others: Iterable[tuple[int, int]]) -> Replaced:
    """Return what a later value replaces; ``others`` gives (arrival, state) of the other values of its key.

    A session keeps a value that it holds until it settles it.
    """
    found = Replaced([], [])
    for arrival, state in others:
        (found.held if state == CLAIMED else found.gone).append(arrival)
    return found


def check_value(queue: str, header: str, key: str, *, is_later: bool) -> None:
    """Raise InvalidMessage for a key that is too long, and for a scheduled value.

    Until a scheduled value is due, the queue would have to keep the older one, and replace it then.
    """
    if len(key) > KEY_LENGTH:
        raise InvalidMessage(f"The header {header!r} is {len(key)} characters long; at most {KEY_LENGTH} fit.")
    if is_later:
        raise InvalidMessage(
            f"Queue {queue!r} keeps the last value of each {header!r}, and takes none in advance: "
            "publish it when it is due."
        )
