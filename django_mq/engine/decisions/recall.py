"""Which prefetched messages a worker gives back. What has begun is never taken from it."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from django_mq.engine.decisions.selection import may_want
from django_mq.engine.message import Message

M = TypeVar("M")


class FreeSlots(NamedTuple):
    """The free slots of a worker, and the selectors of its consumers of a queue."""

    slots: int
    selectors: frozenset[str] = frozenset({""})


def surplus(
    waiting: Sequence[M],
    before: Collection[M],
    *,
    free_slots: int,
    elsewhere: Sequence[FreeSlots],
    message_of: Callable[[M], Message],
) -> list[M]:
    """Return the messages that other workers could begin, the last ones first; ``waiting`` is in order.

    A worker without a free slot gives back as many as the others have free slots for what they want, of those that
    waited ``before``, too: at its last heartbeat. Quick work never waits for so long.
    """
    left, found = [each.slots if free_slots <= 0 else 0 for each in elsewhere], []
    for item in (each for each in reversed(waiting) if any(left) and each in before):
        message = message_of(item)
        wanting = (n for n, each in enumerate(elsewhere) if left[n] > 0 and may_want(each.selectors, message))
        if (taker := next(wanting, None)) is not None:
            left[taker] -= 1
            found.append(item)
    return found
