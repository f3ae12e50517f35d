"""A unit of work over stored queues: a transaction of its own in memory; in a database one at its commit."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from django_mq.delivery import publisher
from django_mq.errors import PublishError
from django_mq.stores.registry import private_store
from tests.scenarios.stored.consumer import judged

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
        self._publications.append((queue, message))
        return True

    def accept(self, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        """Accept with the commit."""
        if not queue.begin_settle(entry, consumer) or any(entry is each for _, each, _ in self._settlements):
            return False
        self._settlements.append((queue, entry, consumer))
        return True

    def commit(self, now: float) -> None:
        """Write everything in one transaction. Raises what publishing does, having rolled back."""
        self._site.move_clock(now)
        try:
            with self._site.store.transaction():
                for queue, entry, consumer in self._settlements:
                    if entry.receipt is not None and consumer.held.get(entry.receipt.id) is entry:
                        accepted = judged(entry.receipt, queue.record(), None)
                        self._site.store.settle(consumer.session_id, [accepted])
                for queue, message in self._publications:
                    publisher.append(self._site.store, [queue.new_message(message)])
        except PublishError:
            self.rollback(now)
            raise
        for _, entry, consumer in self._settlements:
            consumer.settled(entry)

    def rollback(self, now: float) -> None:
        """Write nothing; what was to be settled has failed."""
        for queue, entry, consumer in self._settlements:
            queue.fail(entry, consumer, now=now)

    def abandon(self) -> None:
        """Write nothing: the process has died."""


class _GivenUpError(Exception):
    """What a transaction is left with that is to be rolled back."""


class MemoryUnit:
    """A transaction over a handle of its own: several are open at once."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = private_store(site.store.alias)
        self._open = ExitStack()
        self._open.enter_context(self._store.transaction())
        self._refused: PublishError | None = None
        self._settled: list[tuple[StoredQueue, StoredEntry, StoredConsumer]] = []

    def publish(self, queue: StoredQueue, message: Message) -> bool:
        """Publish; False if the message is dropped. A refusal ends the transaction, for it leaves its block."""
        known = self._site.store.broker.queues[queue.name]  # type: ignore[attr-defined]
        dropped = known.dropped
        try:
            publisher.append(self._store, [queue.new_message(message)])
        except PublishError as error:
            self._refused = self._refused or error
            raise
        return bool(known.dropped == dropped)

    def accept(self, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        """Accept with the commit."""
        claimed = entry.receipt
        if claimed is None or consumer.held.get(claimed.id) is not entry:
            return False
        void = self._store.settle(consumer.session_id, [judged(claimed, queue.record(), None)])
        if not void:
            self._settled.append((queue, entry, consumer))
        return not void

    def commit(self, now: float) -> None:
        """Commit, unless something was refused."""
        self._site.move_clock(now)
        if self._refused is not None:
            self.rollback(now)
            raise self._refused
        self._open.close()
        for _, entry, consumer in self._settled:
            consumer.settled(entry)

    def rollback(self, now: float) -> None:
        """Roll back; what was to be settled has failed."""
        self.abandon()
        for queue, entry, consumer in self._settled:
            queue.fail(entry, consumer, now=now)

    def abandon(self) -> None:
        """Roll back: the process has died."""
        with suppress(_GivenUpError), self._open:
            raise _GivenUpError
