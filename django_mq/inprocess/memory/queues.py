"""Queues: declare, read, pause and count them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_mq.engine.options import QueueOptions
from django_mq.engine.states import CLAIMED, DEAD, PARKED, READY, SCHEDULED, is_retrying
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.memory.row import BrokerQueue
from django_mq.inprocess.rules import Rules
from django_mq.stores import queue_records
from django_mq.stores.records import Counts, all_are_read, later
from django_mq.stores.subjects import queues as subjects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from django_mq.stores.records import QueueRecord


class Queues(Part, subjects.Queues):
    @locked
    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        queues = self.broker.queues
        if name in queues:
            return False
        settings = QueueOptions.of(options)
        if settings.dead_letter_queue not in queues:
            settings = replace(settings, dead_letter_queue=None)
        if settings.expiry_queue not in queues:
            settings = replace(settings, expiry_queue=None)
        queues[name] = BrokerQueue(
            next(self.broker.queue_numbers), name, settings, self.broker.inner, self.broker.now()
        )
        return True

    @locked
    def link(self, name: str, *, dead_letter_queue: str | None = None, expiry_queue: str | None = None) -> None:
        queue = self.broker.existing(name)
        dead_letter_queue = dead_letter_queue or queue.settings.dead_letter_queue
        expiry_queue = expiry_queue or queue.settings.expiry_queue
        queue.settings = replace(queue.settings, dead_letter_queue=dead_letter_queue, expiry_queue=expiry_queue)
        queue.inner.control.change(Rules.of(queue.settings))
        queue_records.forget(self.broker.name, name)

    @locked
    def find(self, name: str) -> QueueRecord | None:
        return self.broker.record_named(name)

    @locked
    def paused(self, names: Sequence[str]) -> Set[str]:
        return {name for name in names if (queue := self.find(name)) is not None and queue.paused}

    @locked
    def set_paused(
        self,
        name: str,
        *,
        paused: bool,
        reason: str = "",  # noqa: ARG002 - no page shows it
        seconds: float | None = None,
    ) -> None:
        queue = self.broker.existing(name)
        queue.paused_until = None if seconds is None else later(self.broker.now(), seconds)
        if paused:
            queue.inner.control.pause()
        else:
            queue.inner.control.resume()

    @locked
    def free_groups(self, name: str, group: str | None = None) -> int:
        queue = self.broker.existing(name)
        owned = queue.inner.subscribers.group_owners()
        if group is not None:
            queue.inner.control.close_group(group)
            return int(group in owned)
        queue.inner.control.reset_groups()
        return len(owned)

    @locked
    def counts(self, names: Sequence[str] | None = None, *, limit: int = 10_000) -> dict[str, Counts]:
        queues = self.broker.queues
        wanted = sorted(queues) if names is None else sorted(queues.keys() & set(names))
        return {name: self._counts_of(queues[name], limit) for name in wanted}

    def _counts_of(self, queue: BrokerQueue, limit: int) -> Counts:
        in_state = queue.inner.counts()
        scheduled, ready, claimed, dead, parked = (
            min(limit, in_state[state]) for state in (SCHEDULED, READY, CLAIMED, DEAD, PARKED)
        )
        now = self.broker.now().timestamp()
        due = sum(entry.due_at is not None and entry.due_at <= now for entry in queue.inner.scheduled())
        retrying = sum(is_retrying(entry.state, entry.attempts) for entry in queue.inner.scheduled())
        age, is_exact = self._oldest_ready_seconds(queue), all_are_read(ready, limit)
        return Counts(
            scheduled, ready, claimed, dead, age, min(limit, due), min(limit, retrying), is_exact, parked
        )

    def _oldest_ready_seconds(self, queue: BrokerQueue) -> float | None:
        """Return how long the oldest message that is ready, or due and not yet promoted, has waited."""
        since = [row.ready_at.timestamp() for row in queue.rows if row.entry.state is READY]
        now, due = self.broker.now().timestamp(), queue.inner.due.next_due()
        if due is not None and due <= now:
            since.append(due)
        return now - min(since) if since else None

    @locked
    def occupied(self) -> list[int]:
        return [queue.number for queue in self.broker.queues.values() if queue.inner.statistics.depth]
