"""From a message's priority to the level it stands in.

The formula is Qpid's: the levels of a queue are centred on the middle of the scale 0..9,
and what lies outside is pressed into the outermost level. With two levels the default
priority 4 is low; with three it has the middle level to itself.
"""

from typing import Final

from django_mq.errors import OutOfRange

#: A queue has 1 to this many levels.
MOST_LEVELS: Final = 10
#: Kinds of list that know no priority.
ONE_LEVEL: Final = frozenset({"fifo", "sorted"})


def check_levels(levels: int) -> int:
    """Answer ``levels``; raise OutOfRange unless it is a whole number in 1..10."""
    if not isinstance(levels, int) or not 1 <= levels <= MOST_LEVELS:
        raise OutOfRange(f"A queue has 1 to {MOST_LEVELS} levels, not {levels!r}.")
    return levels


def levels_of(kind: str, levels: int) -> int:
    """Return how many levels a queue of this kind has; ``levels`` is what its options say."""
    return 1 if kind in ONE_LEVEL else levels


def level_of(priority: int, levels: int) -> int:
    """The level, 0 the lowest, of a message of this priority in a queue of so many levels.

    >>> [level_of(priority, 3) for priority in range(10)]
    [0, 0, 0, 0, 1, 2, 2, 2, 2, 2]
    """
    offset = 5 - (levels + 1) // 2
    return max(0, min(levels - 1, priority - offset))
