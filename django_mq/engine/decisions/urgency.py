"""How urgent a queue is: the order of the queues on the first screen, and the colours of its map."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class UrgencyLevel(IntEnum):
    #: The queue has no message, and none has come or gone in the last minutes.
    IDLE = 0
    WELL = 1
    #: An alert says that something may be wrong.
    NOTICE = 2
    #: An alert says that something does harm now.
    PROBLEM = 3


class Urgency(NamedTuple):
    """How urgent a queue is. The larger value is more urgent."""

    level: UrgencyLevel
    waited_seconds: float
    dead: int
    failed: float
    held: int


def urgency(
    *,
    has_problem: bool,
    has_notice: bool,
    waited_seconds: float,
    dead: int,
    failed: float,
    held: int,
    moved: float,
) -> Urgency:
    """Return how urgent a queue is.

    A queue with a problem is more urgent than a queue with a notice, this one in more than a queue that works,
    and this one in more than an idle queue. Among queues of a level, the queue whose oldest message has waited
    longest is the most urgent; then the queue with more dead letters that no operator has acknowledged; then the
    queue where more attempts fail; then the queue with more messages.

    ``held`` is how many messages the queue has. ``moved`` is how many came and went, and ``failed`` how many
    attempts failed, in a second of the last minutes.
    """
    if has_problem:
        level = UrgencyLevel.PROBLEM
    elif has_notice:
        level = UrgencyLevel.NOTICE
    else:
        level = UrgencyLevel.WELL if held or moved or failed else UrgencyLevel.IDLE
    return Urgency(level, waited_seconds, dead, failed, held)
