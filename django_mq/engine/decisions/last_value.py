"""Of the messages with one key, which replaces which: the one that arrived later is the later value.

A message that is published for a later time replaces nothing, and is not replaced, until it is due. In a shared
table it arrives anew when it is due, so the greatest (due time, arrival) holds. A value without a time of delivery
is due when it is published. When a store notices that a value is due makes no difference: due values arrive before
a claim, and before any other message arrives in their queue.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from django_mq.engine.decisions.unique import Standing, Step, step_of_second
from django_mq.engine.states import CLAIMED, SCHEDULED, Cause, State
from django_mq.errors import InvalidMessage

#: The mark of a held message that a later value has replaced.
BY_LATER_VALUE: Final[str] = Cause.REPLACED.value

#: The longest key in characters, which is the size of the column.
KEY_LENGTH: Final = 255


class Replaced(NamedTuple):
    """The older values of one key: those removed at once, and those removed when they are returned."""

    gone: list[int]
    held: list[int]


def is_in_advance(state: State, *, redelivered: bool) -> bool:
    """Whether a value is yet to arrive. One that waits for its next attempt has arrived."""
    return state is SCHEDULED and not redelivered


def is_outdone(arrival: int, others: Iterable[int]) -> bool:
    """Whether a value that becomes ready again is replaced by one of ``others``, the arrivals of the live ones.

    A value that was replaced itself replaces none.
    """
    return any(other >= arrival for other in others)


def replaced(others: Iterable[tuple[int, int]]) -> Replaced:
    """Return what a later value replaces; ``others`` gives (arrival, state) of the other values of its key.

    A session keeps a value that it holds until it settles it. A value that waits for its next attempt is replaced.
    """
    found = Replaced([], [])
    for arrival, state in others:
        standing = Standing.BEGUN if state == CLAIMED else Standing.WAITING
        is_replaced = step_of_second("replace", standing) is Step.REPLACE
        (found.gone if is_replaced else found.held).append(arrival)
    return found


def check_value(header: str, key: str) -> None:
    """Raise InvalidMessage for a key that is too long."""
    if len(key) > KEY_LENGTH:
        raise InvalidMessage(f"The header {header!r} is {len(key)} characters long; at most {KEY_LENGTH} fit.")
