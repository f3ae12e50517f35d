"""Acts of operators: what is remembered of them, and what an undo puts back."""

from __future__ import annotations

from enum import Enum
from typing import Final

from django_mq.engine.states import CLAIMED, DEAD, State

#: The most messages of an act that are remembered one by one.
MOST_REMEMBERED: Final = 10_000
#: The most characters of a reason.
MOST_CHARACTERS: Final = 200
#: The acts that can be undone, as far as their messages are remembered.
UNDONE: Final = frozenset({"move", "redrive"})


class WayBack(Enum):
    """What an undo does with a message."""

    #: It goes to the tail of the queue that it came from.
    MOVE = "move"
    #: It is in its queue, and is made a dead letter again.
    BURY = "bury"
    #: A worker has it now, and it stays.
    HELD = "held"
    #: It is dead, and stays.
    DEAD = "dead"


def way_back(state: State, *, came_from: str, is_in: str) -> WayBack:
    """Return how a message goes back that is in this state and queue now."""
    if state is CLAIMED:
        return WayBack.HELD
    if state is DEAD:
        return WayBack.DEAD
    return WayBack.BURY if came_from == is_in else WayBack.MOVE
