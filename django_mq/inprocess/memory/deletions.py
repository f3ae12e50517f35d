"""Purge a queue; delete queues, by operators or when nothing uses them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from django_mq.engine.decisions.dead_letters import REJECTED, destination
from django_mq.engine.decisions.ends import End
from django_mq.engine.states import CLAIMED, DEAD, QUEUE_DELETED, STEALABLE, Cause
from django_mq.errors import QueueInUse
from django_mq.inprocess.memory.part import Part, locked
from django_mq.inprocess.parts.control import UNDELIVERED
from django_mq.stores import errors, queue_records
from django_mq.stores.subjects import queues as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.inprocess.memory.row import BrokerQueue


class Deletions(Part, subjects.Deletions):
    @locked
    def purge(self, name: str, *, dead: bool = True) -> int:
        states = (*UNDELIVERED, STEALABLE, *([DEAD] if dead else []))
        return len(self.broker.existing(name).inner.control.purge(states))

    @locked
    def delete_queue(self, name: str, *, force: bool = False) -> int:
        queue = self.broker.existing(name)
        self._check_deletable(queue, force=force)
        removed = self._empty(queue) if force else 0
        self.broker.inner.delete(name, self.broker.now().timestamp())
        queue_records.drop(self.broker.name, name)
        return removed

    @locked
    def note_use(self, names: Sequence[str]) -> None:
        for queue in [self.broker.queues[name] for name in names if name in self.broker.queues]:
            queue.used_at = self.broker.now()

    @locked
    def delete_unused(self) -> dict[str, int]:
        now, consumed = self.broker.now(), self.broker.consumed()
        queues = [queue for _, queue in sorted(self.broker.queues.items()) if not queue.settings.is_lasting]
        self.note_use([queue.name for queue in queues if queue.life.is_to_be_noted(consumed, now)])
        deleted: dict[str, int] = {}
        for queue in queues:
            if queue.life.is_over(consumed, now, partial(_is_empty, queue)):
                with suppress(QueueInUse):
                    deleted[queue.name] = self.delete_queue(queue.name, force=True)
        return deleted

    def _check_deletable(self, queue: BrokerQueue, *, force: bool) -> None:
        name = queue.name
        others = [each.settings for each in self.broker.queues.values()]
        sources = [each for each in others if name in (each.dead_letter_queue, each.expiry_queue)]
        if sources:
            raise errors.linked(name, len(sources))
        if queue.inner.statistics.depth and not force:
            raise errors.not_empty(name, claimed=False)
        if any(entry.state is CLAIMED for entry in queue.inner.contents.everything()):
            raise errors.not_empty(name, claimed=True)

    def _empty(self, queue: BrokerQueue) -> int:
        """Drop the messages if there is no dead-letter queue; else send all of them there."""
        if destination(queue.settings, REJECTED) is None:
            return self.purge(queue.name)
        now, rows = self.broker.now(), sorted(queue.rows, key=attrgetter("id"))
        dead_letters = [row.dead_letter(now, QUEUE_DELETED) for row in rows]
        plan = self.dead_letters.planned(dead_letters, REJECTED, is_last=True)
        # Asked first: what is sent cannot be undone here.
        if self.dead_letters.welcome(plan, now) < len(rows):
            options = queue.settings
            raise errors.not_taken(queue.name, options.dead_letter_queue or options.dead_letter_exchange)
        for name, copies in sorted(plan.copies.items()):
            self.dead_letters.copy(name, copies, now, evicts=True)
        for row in rows:
            self.broker.note_end(row, End.DEAD)
            row.queue.inner.control.discard(row.entry, Cause.DEAD)
        return len(rows)


def _is_empty(queue: BrokerQueue) -> bool:
    return not queue.inner.statistics.depth
