"""What a claim from several queues, each with a limit of its own, has left behind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Request(Protocol):
    """What was asked for: ``credit`` messages of the queues together, and of some no more than their limits."""

    @property
    def queues(self) -> Sequence[str]: ...
    @property
    def credit(self) -> int: ...
    @property
    def limits(self) -> Mapping[str, int]: ...


def limit_of(request: Request, queue: str) -> int:
    """Return how many messages the queue may give."""
    return min(request.credit, request.limits.get(queue, request.credit))


def left_behind(request: Request, claimed: Sequence[str], seen: int) -> frozenset[str]:
    """Return the queues in which a claim may have left something; ``claimed`` is the queue of each message.

    ``seen`` is how many messages it could have claimed; a suspect among them, or their bytes, cuts the
    claim. A suspect at the head that found no free slot leaves no trace here: look again when a slot is free.
    """
    if not claimed:
        return frozenset()
    if seen >= request.credit or len(claimed) < seen:
        return frozenset(request.queues)
    counts = Counter(claimed) if request.limits else {}
    return frozenset(queue for queue, limit in request.limits.items() if counts[queue] >= limit)
