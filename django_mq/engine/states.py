"""The states of an entry, the one table of moves between them, and what a settlement does.

The numbers of the first four states are stored in database rows and never change meaning. The
others exist only inside the engine: a row that is gone has been deleted.
"""

from enum import Enum, IntEnum
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

#: Why a message is dead whose queue was deleted.
QUEUE_DELETED: Final = "queue deleted"


class Fate(IntEnum):
    """The effect of a settlement. ``VOID`` is false, every other fate is true."""

    #: Nothing happened: the entry was no longer the consumer's.
    VOID = 0
    ACCEPTED = 1
    #: Back in its place, ready at once or at a time.
    RETURNED = 2
    #: Kept aside in this queue, as ``dead``.
    DEAD = 3
    #: Gone from here; a copy stands in the dead-letter queue.
    DEAD_LETTERED = 4
    #: Gone for good: superseded, purged meanwhile, or dead with nowhere to go.
    DISCARDED = 5


# Plain names, as above.
VOID: Final = Fate.VOID
ACCEPTED: Final = Fate.ACCEPTED
RETURNED: Final = Fate.RETURNED
DISCARDED: Final = Fate.DISCARDED


class Cause(Enum):
    """Why an entry is gone; each has a counter of that name, or counts as killed."""

    ACCEPTED = "accepted"
    EXPIRED = "expired"
    KILLED = "killed"
    #: Killed by an operator, message by message or all of them.
    CANCELLED = "cancelled"
    PURGED = "purged"
    REPLACED = "replaced"
    #: Moved to another queue, or replaced by a copy: only its departure counts.
    MOVED = "moved"
