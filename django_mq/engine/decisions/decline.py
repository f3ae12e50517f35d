"""When a message that was declined is dead: no consumer of its queue may have it, for a grace period.

A consumer that declines a message is not given it again; a new consumer is. So a deployment that replaces workers
one after the other kills nothing: each worker that comes or goes begins the grace period anew. Without any
consumer the message waits.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

#: The reason of a dead letter that no consumer wanted.
BY_ALL: Final = "declined by all consumers"


class Audience(NamedTuple):
    """The consumers of a queue, and since when they have been the same, in seconds."""

    consumers: frozenset[int]
    since: float


def audience_of(before: Audience | None, consumers: frozenset[int], now: float) -> Audience:
    """Return the audience of a queue that has these consumers now."""
    return before if before is not None and before.consumers == consumers else Audience(consumers, now)


def is_settled(audience: Audience, now: float, grace_seconds: float) -> bool:
    """Whether there are consumers, and no consumer has come or gone for the grace period."""
    return bool(audience.consumers) and now - audience.since >= grace_seconds


def is_unwanted(declined_by: Collection[int], consumers: Collection[int], owner: int | None = None) -> bool:
    """Whether all that may have a message have declined it: the ``owner`` of its group, or all consumers.

    ``consumers`` are those whose selectors match.
    """
    may_have = [owner] if owner in consumers else consumers
    return bool(may_have) and all(consumer in declined_by for consumer in may_have)
