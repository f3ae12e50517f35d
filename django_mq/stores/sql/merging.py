"""Puts the heads of several queues in one order, as the other databases do in their claim."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def merged(queues: Sequence[Sequence[tuple[int, int]]], *, listed: bool) -> list[int]:
    """Return the ids of all queues, best first; given are (id, priority) of each, in delivery order.

    A message ranks by the least priority at or before it in its queue, so that no queue's own
    order is broken; queues of equal heads take turns, unless their list is an order.
    """
    walk = [row for position, queue in enumerate(queues) for row in _ranked(position, queue)]
    if listed:
        return [id_ for *_, id_ in sorted(walk)]
    return [id_ for *_, id_ in sorted(walk, key=lambda row: (*row[1:3], row[0]))]


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


def _ranked(position: int, queue: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Yield position, urgency (the smaller the sooner), turn and id."""
    urgencies = accumulate((priority for _, priority in queue), min)
    for turn, ((id_, _), urgency) in enumerate(zip(queue, urgencies, strict=True)):
        yield position, -urgency, turn, id_
