"""What became of an entry that was settled."""

from enum import IntEnum
from typing import Final

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

    @property
    def kept(self) -> bool:
        """Whether the entry is still here, dead."""
        return self is Fate.DEAD


# Plain names, as in ``states``.
VOID: Final = Fate.VOID
ACCEPTED: Final = Fate.ACCEPTED
RETURNED: Final = Fate.RETURNED
DISCARDED: Final = Fate.DISCARDED
