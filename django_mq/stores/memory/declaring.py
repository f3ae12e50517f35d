"""Queues and bindings: declared, read, deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_mq.engine.options import QueueOptions
from django_mq.engine.states import CLAIMED
from django_mq.errors import PublishError
from django_mq.stores import refusals
from django_mq.stores.memory.runner import locked
from django_mq.stores.memory.steering import Steering

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.records import QueueRecord


class Declaring(Steering):
    """Declare, read and delete queues."""

    @locked
    def declare(self, name: str, options: Mapping[str, Any]) -> bool:
        queues = self.broker.queues
        if name in queues:
            return False
        settings = QueueOptions(**options)
        if settings.dead_letter_queue not in queues:
            settings = replace(settings, dead_letter_queue=None)
        if settings.expiry_queue not in queues:
            settings = replace(settings, expiry_queue=None)
        self.broker.declare(name, settings)
        return True

    @locked
    def queue(self, name: str) -> QueueRecord | None:
        queue = self.broker.queues.get(name)
        return None if queue is None else self.broker.record_of(queue)

    @locked
    def delete_queue(self, name: str, *, force: bool = False) -> int:
        queue = self._existing(name)
        self._check_deletable(queue, force=force)
        removed = self._empty(queue) if force else 0
        self.broker.engine.delete(name, self._now().timestamp())
        return removed

    def _empty(self, queue: BrokerQueue) -> int:
        """Drop the messages if there is no dead-letter queue; else see that all may go there with the deletion."""
        target = self.broker.queues.get(queue.settings.dead_letter_queue or "")
        if target is None:
            return self.purge(queue.name)
        messages = [replace(row.entry.message, deliver_at=None, duplicate_id=None) for row in queue.rows]
        try:
            target.engine.check_ids(messages)
            is_welcome = all(target.engine.admit_all(messages, self._now().timestamp()))
        except PublishError:
            is_welcome = False
        if not is_welcome:
            raise refusals.not_taken(queue.name, target.name)
        return len(messages)

    def _check_deletable(self, queue: BrokerQueue, *, force: bool) -> None:
        name = queue.name
        others = [each.settings for each in self.broker.queues.values()]
        sources = [each for each in others if name in (each.dead_letter_queue, each.expiry_queue)]
        if sources:
            raise refusals.linked(name, len(sources))
        if queue.engine.statistics.depth and not force:
            raise refusals.not_empty(name, claimed=False)
        if any(entry.state is CLAIMED for entry in queue.engine.everything()):
            raise refusals.not_empty(name, claimed=True)

    @locked
    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str) -> None:
        self._existing(queue)
        self.broker.bindings.setdefault((exchange, pattern, queue), exchange_type)

    @locked
    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        return self.broker.bindings.pop((exchange, pattern, queue), None) is not None

    @locked
    def bindings(self, exchange: str) -> list[tuple[str, str, str]]:
        bound = self.broker.bindings.items()
        return [(kind, pattern, queue) for (name, pattern, queue), kind in bound if name == exchange]
