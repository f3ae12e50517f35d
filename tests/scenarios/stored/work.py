"""A unit of work over stored queues: one transaction, at its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.delivery import appending
from tests.scenarios.errors import UnfitError

if TYPE_CHECKING:
    from django_mq.engine.message import Message
    from tests.scenarios.stored.consumer import StoredConsumer
    from tests.scenarios.stored.entry import StoredEntry
    from tests.scenarios.stored.queue import StoredQueue
    from tests.scenarios.stored.site import Site


class StoredUnit:
    """Publications and settlements of one transaction.

    A scenario has several units open on one connection, so they are gathered and written
    together: what else a transaction would do meanwhile is not the scenarios' business.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._publications: list[tuple[StoredQueue, Message]] = []
        self._settlements: list[tuple[StoredQueue, StoredEntry, StoredConsumer]] = []

    def publish(self, queue: StoredQueue, message: Message) -> bool:
        """Publish with the commit."""
        others = {(at, each.duplicate_id) for at, each in self._publications if each.duplicate_id is not None}
        if (queue, message.duplicate_id) in others and not self._site.store.features.durable:
            raise UnfitError("the memory store does not take back what a transaction has published")
        self._publications.append((queue, message))
        return True

    def accept(self, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        """Accept with the commit."""
        if not queue.begin_settle(entry, consumer) or any(entry is each for _, each, _ in self._settlements):
            return False
        self._settlements.append((queue, entry, consumer))
        return True

    def commit(self, now: float) -> None:
        """Write everything in one transaction. Raises what publishing does, having written nothing."""
        self._site.move_clock(now)
        with self._site.store.transaction():
            for queue, entry, consumer in self._settlements:
                queue.accept(entry, consumer)
            for queue, message in self._publications:
                appending.append(self._site.store, [queue.new_message(message)])

    def rollback(self, now: float) -> None:
        """Write nothing; what was to be settled has failed."""
        for queue, entry, consumer in self._settlements:
            queue.fail(entry, consumer, now=now)
