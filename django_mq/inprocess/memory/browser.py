"""Browse messages."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from django_mq.engine.states import PARKED, READY, SCHEDULED
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import entry_of, row_of
from django_mq.stores.records import uuid_of
from django_mq.stores.subjects import browser as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.records import Browsed


class Browser(Part, subjects.Browser):
    @locked
    def browse(
        self, name: str, *, states: Sequence[int], limit: int = 100, after: Browsed | None = None
    ) -> list[Browsed]:
        queue = self.broker.queues.get(name)
        if queue is None:
            return []
        position = queue.inner.contents.dispatch.ready.position
        beyond = None if after is None else position(entry_of(after))
        entries = (row.entry for row in queue.rows if row.state in states)
        chosen = (entry for entry in entries if beyond is None or position(entry) > beyond)
        return [row_of(entry).browsed() for entry in nsmallest(limit, chosen, key=position)]

    @locked
    def arrivals(self, name: str, *, after: int, limit: int = 100) -> list[Browsed]:
        queue = self.broker.queues.get(name)
        rows = [] if queue is None else [row for row in queue.rows if row.id > after]
        return [row.browsed() for row in nsmallest(limit, rows, key=lambda row: row.id)]

    @locked
    def last_arrival(self) -> int:
        return max(self.broker.rows, default=0)

    @locked
    def correlated(self, ids: Sequence[str]) -> list[Browsed]:
        wanted = {*ids, *(made for given in ids if (made := uuid_of(given)) is not None)}
        waiting = [row for row in self.broker.rows.values() if row.entry.state in (SCHEDULED, READY, PARKED)]
        return [
            row.browsed()
            for row in waiting
            if row.message.correlation_id in wanted or row.message.message_id in wanted
        ]
