"""The level of an entry, and its place inside the level. An INSERT of the SQL stores computes the same.

The formula of levels is Qpid's: the levels of a queue are centred on the middle of the scale 0..9,
and priorities outside belong to the outermost level. With two levels the default
priority 4 is low; with three it has the middle level to itself.

Ordinary entries all have place 0 and stand in order of arrival. In a queue that serves due
messages first (Artemis), a message with a delivery time has a negative place that grows with
that time: at the head of its level, earliest due first. In a queue that keeps places (Qpid)
it waits for its time and then stands where it arrived. The place depends on the row alone,
so it is the same after a restart.
"""

from typing import Final

from django_mq.errors import OutOfRange

#: A queue has 1 to this many levels.
MOST_LEVELS: Final = 10
#: Kinds of list that ignore the priority.
ONE_LEVEL: Final = frozenset({"fifo", "sorted"})


def check_levels(levels: int) -> int:
    """Return ``levels``; raise OutOfRange unless it is a whole number in 1..10."""
    if not isinstance(levels, int) or not 1 <= levels <= MOST_LEVELS:
        raise OutOfRange(f"A queue has 1 to {MOST_LEVELS} levels, not {levels!r}.")
    return levels


def levels_of(kind: str, levels: int) -> int:
    """Return how many levels a queue of this kind has; ``levels`` is its option."""
    return 1 if kind in ONE_LEVEL else levels


def level_of(priority: int, levels: int) -> int:
    """Return the level, 0 the lowest, of a message of this priority in a queue of so many levels.

    >>> [level_of(priority, 3) for priority in range(10)]
    [0, 0, 0, 0, 1, 2, 2, 2, 2, 2]
    """
    offset = 5 - (levels + 1) // 2
    return max(0, min(levels - 1, priority - offset))


#: Larger than any time in microseconds, so that the place of a due message is below 0,
#: and small enough that the result fits a 64-bit column.
PLACE_OFFSET: Final = 2**62
ORDINARY_PLACE: Final = 0


def place_at(microseconds: int | None, *, due_first: bool) -> int:
    """Return the place of a message that is due so many microseconds after 1970, None for no time.

    ``due_first``: whether its queue serves due messages first.

    >>> place_at(1, due_first=True) < place_at(2, due_first=True) < ORDINARY_PLACE
    True
    """
    if microseconds is None or not due_first:
        return ORDINARY_PLACE
    return microseconds - PLACE_OFFSET


def place_of(deliver_at: float | None, *, due_first: bool) -> int:
    """Return the place of a message that is due at this time in seconds, None for no time.

    The time is rounded, not cut, to whole microseconds: a float cannot hold them exactly, and
    a database, which can, would otherwise compute one more. Until the year 2106 the result
    is exactly the database's; from then on a float of seconds is too coarse for that.
    """
    return place_at(None if deliver_at is None else round(deliver_at * 1_000_000), due_first=due_first)
