"""Which prefetched messages a worker gives back. What has begun is never taken from it."""

from collections.abc import Collection, Sequence
from typing import TypeVar

M = TypeVar("M")


def surplus(waiting: Sequence[M], before: Collection[M], *, free_slots: int, free_elsewhere: int) -> list[M]:
    """Return the messages that other workers could begin, the last ones first; ``waiting`` is in order.

    A worker without a free slot gives back as many as the others have free slots, of those that waited
    ``before``, too: at its last heartbeat. Quick work never waits for so long.
    """
    if free_slots > 0 or free_elsewhere <= 0:
        return []
    return [message for message in reversed(waiting) if message in before][:free_elsewhere]
