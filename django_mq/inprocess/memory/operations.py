"""Change messages for operators."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING

from django_mq.engine.decisions.ends import End
from django_mq.engine.states import CLAIMED, PARKED, SCHEDULED, Cause
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.parts.control import travelling
from django_mq.stores import errors
from django_mq.stores.records import Moved
from django_mq.stores.subjects import operations as subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from django_mq.inprocess.memory.row import BrokerQueue, LiveMessage


class Operations(Part, subjects.Operations):
    @locked
    def cancel(self, ids: Sequence[int]) -> list[int]:
        unclaimed = [row for row in self.broker.found(ids) if row.entry.state is not CLAIMED]
        return [row.id for row in unclaimed if row.queue.inner.control.discard(row.entry, Cause.CANCELLED)]

    @locked
    def release_held(self, ids: Sequence[int]) -> list[Moved]:
        held = [(row.id, row) for row in self.broker.found(ids) if row.held]
        for _, row in held:
            row.give_back(self.broker.now())
            self.broker.note_end(row, End.GIVEN_BACK)
        return self._now(held)

    @locked
    def move(self, ids: Sequence[int], target: str) -> list[Moved]:
        queue = self.broker.existing(target)
        if queue.inner.closed:
            raise errors.closed(target)
        unheld = [row for row in self.broker.found(ids) if not row.held]
        coming = [
            row for row in _in_order(unheld) if queue.inner.contents.find(str(row.message.message_id)) is None
        ]
        before = {row.message.message_id: row.id for row in reversed(coming)}
        moved = [(before[row.message.message_id], row) for row in self._moved(coming, queue)]
        answer = self._now(moved)
        if moved:
            queue.inner.arrivals.entered(moved[-1][1].entry)
        elif coming and queue.settings.is_limited:
            raise errors.full(target)
        return answer

    def _now(self, rows: Iterable[tuple[int, LiveMessage]]) -> list[Moved]:
        """Return what has become of messages that had these row ids."""
        living = self.broker.rows
        return [Moved(id_, row.id if living.get(row.id) is row else None, row.queue.name) for id_, row in rows]

    def _moved(self, rows: Sequence[LiveMessage], queue: BrokerQueue) -> list[LiveMessage]:
        now, moved = self.broker.now().timestamp(), []
        fitting = queue.inner.arrivals.fitting([travelling(row.entry) for row in rows], now)
        with queue.inner.contents.placing_together():
            for row in compress(rows, fitting):
                is_scheduled = row.entry.state is SCHEDULED
                row.queue.inner.move(row.entry, queue.inner, now, more=True)
                row.deliver_at, row.released_at = row.deliver_at if is_scheduled else None, self.broker.now()
                moved.append(row)
        return moved

    @locked
    def deliver_now(self, ids: Sequence[int]) -> list[Moved]:
        scheduled = [(id_, row) for id_, row in self._found_anew(ids) if row.entry.state is SCHEDULED]
        parked = self._freed(ids)
        for _, row in scheduled:
            row.deliver_at = self.broker.now()
        with _placing_together(row for _, row in scheduled):
            for _, row in scheduled:  # a value replaces others, which were due before
                row.queue.inner.control.deliver_now(row.entry)
        return self._now([*scheduled, *parked])

    def _freed(self, ids: Sequence[int]) -> list[tuple[int, LiveMessage]]:
        """Make those ready that are parked, and return them."""
        parked = [(row.id, row) for row in self.broker.found(ids) if row.entry.state is PARKED]
        for _, row in parked:
            row.free(self.broker.now())
        return parked

    def _found_anew(self, ids: Sequence[int]) -> list[tuple[int, LiveMessage]]:
        """Return the messages with these row ids, after the last values that are due in their queues."""
        found = sorted(((row.id, row) for row in self.broker.found(ids)), key=itemgetter(0))
        for _, row in found:
            row.queue.inner.due.let_values_arrive(self.broker.now().timestamp())
        return found

    @locked
    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> list[Moved]:
        self._freed(ids)
        due_at, now, rows = deliver_at.timestamp(), self.broker.now().timestamp(), self.broker.found(ids)
        with _placing_together(rows):
            moved = [row for row in rows if row.queue.inner.control.reschedule(row.entry, due_at, now)]
        for row in moved:
            row.deliver_at = deliver_at
        return self._now((row.id, row) for row in moved)

    @locked
    def prioritise(self, ids: Sequence[int], priority: int) -> list[Moved]:
        self._freed(ids)
        now, rows = self.broker.now().timestamp(), _in_order(self.broker.found(ids))
        before = [(row.id, row) for row in rows]
        with _placing_together(rows):
            changed = [row.queue.inner.control.change_priority(row.entry, priority, now) for row in rows]
        return self._now(pair for pair, entry in zip(before, changed, strict=True) if entry is not None)

    @locked
    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        unheld = [row for row in self.broker.found(ids) if not row.held]
        for row in unheld:
            row.set_header(name, value)
        return len(unheld)

    @locked
    def redrive(self, ids: Sequence[int]) -> list[Moved]:
        found = self._found_anew(ids)
        with _placing_together(row for _, row in found):
            redriven = [(id_, row) for id_, row in found if self._redrive(row)]
        return self._now(redriven)

    def _redrive(self, row: LiveMessage) -> bool:
        # Before: a newer value replaces a redriven one at once, and the history has the time.
        before, row.released_at = row.released_at, self.broker.now()
        if row.queue.inner.control.redrive(row.entry):
            row.ended = None
            return True
        row.released_at = before
        return False


@contextmanager
def _placing_together(rows: Iterable[LiveMessage]) -> Iterator[None]:
    with ExitStack() as all_queues:
        for queue in {row.queue for row in rows}:
            all_queues.enter_context(queue.inner.contents.placing_together())
        yield


def _in_order(rows: Iterable[LiveMessage]) -> list[LiveMessage]:
    return sorted(rows, key=lambda row: row.entry.order)
