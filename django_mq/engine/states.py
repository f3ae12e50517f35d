"""The states of an entry, the table of moves between them, and what a settlement does.

The numbers of the first four states and of parked are stored in database rows and never change their meaning. The
others exist only inside the engine: a row that is gone has been deleted.
"""

from enum import Enum, IntEnum
from typing import Final


class State(IntEnum):
    """The state of an entry."""

    SCHEDULED = 0
    READY = 1
    CLAIMED = 2
    DEAD = 3
    #: Stands in line, but cannot be claimed before its time (Qpid).
    HELD = 4
    GONE = 5
    #: Claimed, but the queue may still take it back, until its settlement begins.
    STEALABLE = 6
    #: Waits until its key is freed, or for a time; no claim reads it. Its place and its attempts stay.
    PARKED = 7


# Plain names, because looking a member up on its class costs as much as a whole move.
SCHEDULED: Final = State.SCHEDULED
READY: Final = State.READY
CLAIMED: Final = State.CLAIMED
DEAD: Final = State.DEAD
HELD: Final = State.HELD
GONE: Final = State.GONE
STEALABLE: Final = State.STEALABLE
PARKED: Final = State.PARKED
#: Each state with the states that may follow it. A store claims a due row straight from
#: ``scheduled``, so that no message waits for maintenance to promote it.
MOVES: Final[dict[State, frozenset[State]]] = {
    SCHEDULED: frozenset({READY, CLAIMED, DEAD, GONE}),
    READY: frozenset({CLAIMED, PARKED, DEAD, GONE}),
    CLAIMED: frozenset({READY, SCHEDULED, PARKED, DEAD, GONE, STEALABLE}),
    STEALABLE: frozenset({CLAIMED, DEAD, GONE}),
    DEAD: frozenset({READY, GONE}),
    HELD: frozenset({READY, GONE}),
    PARKED: frozenset({READY, DEAD, GONE}),
    GONE: frozenset(),
}


def is_retrying(state: int, attempts: int) -> bool:
    """Return whether a message has failed and waits for its next attempt: it is scheduled, with failed attempts.

    No row stores this state. The filter of the message list and ``counts`` of the stores state it in SQL.
    """
    return state == SCHEDULED and attempts > 0


def is_delivered_before(state: int, *, redelivered: bool) -> bool:
    """Return whether a message counts as delivered before when it is moved: dead messages do.

    SQL says the same in ``_delivered_before``. A redrive marks every message.
    """
    return redelivered or state == DEAD


def is_dead_letter(state: int, reason: str) -> bool:
    """Return whether a message is a dead letter: dead in its queue, or ready where its queue has sent it.

    The reason tells them from messages that were published to a dead-letter queue: it is written when the message
    dies or expires and goes along to the other queue; a redrive and a move remove it. ``dead_letters`` of the
    models states this in SQL.
    """
    return state == DEAD or (state == READY and reason != "")


#: The reason of a dead letter for which no other reason was given.
REJECTED: Final = "rejected"
#: The reason of a dead letter from a deleted queue.
QUEUE_DELETED: Final = "queue deleted"


class Fate(IntEnum):
    """The effect of a settlement. ``VOID`` is false, every other fate is true."""

    #: No effect: the consumer did not hold the entry any longer.
    VOID = 0
    ACCEPTED = 1
    #: Back in its place, ready at once or later.
    RETURNED = 2
    #: Kept aside in this queue, as ``dead``.
    DEAD = 3
    #: Gone from here; a copy is in the dead-letter queue.
    DEAD_LETTERED = 4
    #: Gone for good: replaced, purged meanwhile, or dead in a queue that keeps no dead letters.
    DISCARDED = 5


# Plain names, as above.
VOID: Final = Fate.VOID
ACCEPTED: Final = Fate.ACCEPTED
RETURNED: Final = Fate.RETURNED
DISCARDED: Final = Fate.DISCARDED


class Cause(Enum):
    """Why an entry is gone. Each has a counter of that name, or counts as killed."""

    ACCEPTED = "accepted"
    EXPIRED = "expired"
    KILLED = "killed"
    #: Killed by an operator: one message, or all of the queue.
    CANCELLED = "cancelled"
    PURGED = "purged"
    #: Killed as a dead letter that goes to another queue.
    DEAD = "dead"
    REPLACED = "replaced"
    #: Killed by a limit that drops what is over it.
    LIMITED = "limited"
    #: Moved to another queue: counts as dequeued only.
    MOVED = "moved"
    #: Replaced by a copy in the same queue: counts as dequeued only.
    COPIED = "copied"
