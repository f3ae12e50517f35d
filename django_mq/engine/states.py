"""The states of an entry and the one table of moves between them.

The numbers of the first four are stored in database rows and never change meaning. The
others exist only inside the engine: a row that is gone has been deleted.
"""

from enum import IntEnum
from typing import Final


class State(IntEnum):
    """Where an entry stands in its life."""

    SCHEDULED = 0
    READY = 1
    CLAIMED = 2
    DEAD = 3
    #: Stands in line, but may not be taken before its time (Qpid).
    HELD = 4
    GONE = 5
    #: Claimed, but the queue may still take it back, until its settlement begins.
    STEALABLE = 6


# Plain names, because looking a member up on its class costs as much as a whole move.
SCHEDULED: Final = State.SCHEDULED
READY: Final = State.READY
CLAIMED: Final = State.CLAIMED
DEAD: Final = State.DEAD
HELD: Final = State.HELD
GONE: Final = State.GONE
STEALABLE: Final = State.STEALABLE

#: Each state with the states that may follow it. A store claims a due row straight from
#: ``scheduled``, so that no message ever waits for somebody to promote it.
MOVES: Final[dict[State, frozenset[State]]] = {
    SCHEDULED: frozenset({READY, CLAIMED, DEAD, GONE}),
    READY: frozenset({CLAIMED, DEAD, GONE}),
    CLAIMED: frozenset({READY, SCHEDULED, DEAD, GONE, STEALABLE}),
    STEALABLE: frozenset({CLAIMED, GONE}),
    DEAD: frozenset({READY, GONE}),
    HELD: frozenset({READY, GONE}),
    GONE: frozenset(),
}
