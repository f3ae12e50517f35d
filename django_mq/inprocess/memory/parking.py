"""Parking: take messages out of the way of claims, and bring them back."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from django_mq.inprocess.entries.parked import waking_order
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import row_of
from django_mq.stores.records import PARK_KEY_LENGTH, storable
from django_mq.stores.subjects import parking as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.stores.records import Parked


class Parking(Part, subjects.Parking):
    @locked
    def park(self, parked: Sequence[Parked]) -> frozenset[int]:
        now = self.broker.now().timestamp()
        found = [(self.broker.rows[item.id], item) for item in parked if item.id in self.broker.rows]
        return frozenset(
            row.id
            for row, item in found
            if row.queue.inner.control.park(
                row.entry,
                storable(item.key, PARK_KEY_LENGTH),
                None if item.seconds is None else now + item.seconds,
            )
        )

    @locked
    def free(self, queue: str, key: str, limit: int) -> int:
        if queue not in self.broker.queues:
            return 0
        parked = self.broker.queues[queue].inner.contents.parked
        return self._free(islice(parked.of(storable(key, PARK_KEY_LENGTH)), limit))

    @locked
    def free_due(self, limit: int, queues: Collection[str] | None = None) -> int:
        now, found = self.broker.now().timestamp(), self.broker.queues
        chosen = found.values() if queues is None else [found[name] for name in queues if name in found]
        due = [each for queue in chosen for each in queue.inner.contents.parked.waking.until(now, limit)]
        return self._free(nsmallest(limit, due, key=waking_order))

    def _free(self, entries: Iterable[Entry]) -> int:
        chosen = list(entries)
        for entry in chosen:
            row_of(entry).free(self.broker.now())
        return len(chosen)
