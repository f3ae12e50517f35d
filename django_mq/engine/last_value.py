"""Of the messages with one key, which replaces which: what arrived later is the later value."""

from collections.abc import Iterable
from typing import NamedTuple

from django_mq.engine.states import CLAIMED


class Replaced(NamedTuple):
    """The older values of one key: those that go at once, and those that go when they are given back."""

    gone: list[int]
    held: list[int]


def is_outdone(arrival: int, others: Iterable[int]) -> bool:
    """Whether a value that comes to stand in its queue again is worthless, given the arrivals of the others."""
    return any(other >= arrival for other in others)


def replaced(others: Iterable[tuple[int, int]]) -> Replaced:
    """Return what a later value does to the others of its key, of which the arrivals and the states are given.

    What a session holds is its until it is settled.
    """
    found = Replaced([], [])
    for arrival, state in others:
        (found.held if state == CLAIMED else found.gone).append(arrival)
    return found
