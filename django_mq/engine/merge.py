"""The order of a claim from several queues. SQLite and PostgreSQL compute the same in ``claim_across``."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Item = TypeVar("Item")


def merged(queues: Sequence[Sequence[tuple[Item, int]]], *, listed: bool) -> list[Item]:
    """Return the messages of all queues, best first; given is each with its priority, in delivery order.

    A message ranks by the least priority at or before it in its queue, so that no queue's own
    order is broken; queues of equal heads take turns, unless their list is an order.
    """
    walk = [row for position, queue in enumerate(queues) for row in _ranked(position, queue)]
    # No two stand at one position in one turn: messages themselves are never compared.
    walk.sort(key=lambda row: row[:3] if listed else (*row[1:3], row[0]))
    return [item for *_, item in walk]


def next_batch(ranked: Iterable[int], size: int, queue_of: Mapping[int, str], left: dict[str, int]) -> list[int]:
    """Return the best ``size`` ids, of each queue as many as it has left, and count these down."""
    batch: list[int] = []
    for id_ in ranked:
        if len(batch) >= size:
            break
        if left[queue_of[id_]] > 0:
            left[queue_of[id_]] -= 1
            batch.append(id_)
    return batch


def _ranked(position: int, queue: Sequence[tuple[Item, int]]) -> Iterator[tuple[int, int, int, Item]]:
    """Yield position, urgency (the smaller the sooner), turn and message."""
    urgencies = accumulate((priority for _, priority in queue), min)
    for turn, ((item, _), urgency) in enumerate(zip(queue, urgencies, strict=True)):
        yield position, -urgency, turn, item
