"""What differs between a queue in one process and a queue that sessions share through a table.

Both follow the same rules. The choices below are all that a table makes different: what a worker of
another process has begun cannot be taken from it, its death is noticed later, and rows are changed
by statements, not by one thread.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """The choices of one kind of queue; each comment says what the choice means, and what its absence means."""

    #: A message's id stands in a queue once, and a second message with it is refused; else ids are not looked at.
    ids_once: bool = False
    #: A scheduled message expires where it is; else it becomes due first.
    expires_scheduled: bool = False
    #: An expired message may be delivered, marked, until maintenance removes it; else no delivery meets it.
    delivers_expired: bool = False
    #: A ring is trimmed when messages are published or moved into it, and by maintenance; else whenever a message
    #: comes to stand in it.
    trims_for_arrivals: bool = False
    #: A message is moved into a full ring, and drives out another; else no limit is passed by a move.
    moves_into_rings: bool = False
    #: A moved message keeps its end; else the other queue's rules give it one.
    keeps_end: bool = False
    #: A dead message that is made ready again lives for ever; else until its end.
    redrives_for_ever: bool = False
    #: A scheduled message may get another priority; else only a ready one.
    reprioritises_scheduled: bool = False
    #: A full queue whose producers are to wait refuses the message until there is room; else it takes the message,
    #: and its producer waits before the next.
    refuses_while_full: bool = False
    #: A replaced value is over, even if the later one is gone when it is given back, and one that waits for its
    #: next attempt is replaced at once; else a value counts as long as no later one is here.
    replaces_for_good: bool = False
    #: What was settled in a unit of work that is rolled back is held as before; else it has failed.
    holds_on_rollback: bool = False
    #: A consumer takes a slot with its first message, or when it asks for one, and keeps its slot and its groups
    #: until it leaves, even if the queue's options change; else it takes a slot when it comes, too many are cut
    #: at once, and other groups begin without owners.
    owns_until_it_leaves: bool = False
    #: Duplicate ids are remembered at least so long, and forgotten by maintenance; else exactly so long.
    remembers_at_least: bool = False


#: A queue in the memory of one process, which decides everything at once.
IN_PROCESS: Final = QueuePolicy()

#: A queue that worker sessions share through a table, or as if through one.
SHARED_TABLE: Final = QueuePolicy(
    ids_once=True,
    expires_scheduled=True,
    delivers_expired=True,
    trims_for_arrivals=True,
    moves_into_rings=True,
    keeps_end=True,
    redrives_for_ever=True,
    reprioritises_scheduled=True,
    refuses_while_full=True,
    replaces_for_good=True,
    holds_on_rollback=True,
    owns_until_it_leaves=True,
    remembers_at_least=True,
)
