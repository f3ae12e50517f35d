"""A unit of work over stored queues: an open transaction; in SQLite, which has one writer, one at its commit."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from django_mq.delivery import publisher
from django_mq.engine.decisions.limits import Overflow
from django_mq.engine.states import READY, SCHEDULED
from django_mq.errors import PublishError
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.stores.registry import private_store
from tests.scenarios.stored.consumer import judged

if TYPE_CHECKING:
    from django_mq.engine.message import Message
    from django_mq.stores.base import Store
    from tests.scenarios.stored.consumer import StoredConsumer
    from tests.scenarios.stored.entry import StoredEntry
    from tests.scenarios.stored.queue import StoredQueue
    from tests.scenarios.stored.site import Site


class StoredUnit:
    """Publications and settlements of one transaction, which are gathered, and written at its commit."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._published: list[tuple[StoredQueue, Message]] = []
        self._settled: list[tuple[StoredQueue, StoredEntry, StoredConsumer]] = []

    def publish(self, queue: StoredQueue, message: Message) -> bool:
        """Publish with the commit."""
        self._published.append((queue, message))
        return True

    def is_waited_for(self, queue: StoredQueue, message: Message) -> bool:
        """Whether another publisher of this message would wait for the transaction."""
        limited = queue.rules.overflow is not Overflow.NONE or queue.rules.kind == "last_value"
        return self._site.store.features.durable and any(
            limited or (message.duplicate_id is not None and message.duplicate_id == other.duplicate_id)
            for published, other in self._published
            if published is queue
        )

    def accept(self, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        """Accept with the commit, unless the consumer has lost the message, or accepted it."""
        if entry in consumer.in_transactions or not self._accept(queue, entry, consumer):
            return False
        self._settled.append((queue, entry, consumer))
        consumer.in_transactions.append(entry)
        return True

    def _accept(self, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        return queue.begin_settle(entry, consumer)

    def commit(self, now: float) -> None:
        """Write everything in one transaction. Raises what publishing does, having rolled back."""
        self._site.move_clock(now)
        try:
            self._commit()
        except PublishError:
            self.rollback(now)
            raise
        for _, entry, consumer in self._end():
            consumer.settled(entry)
            consumer.transaction_ended(entry)

    def _end(self) -> list[tuple[StoredQueue, StoredEntry, StoredConsumer]]:
        """Forget everything; return what was settled."""
        settled, self._settled, self._published = self._settled, [], []
        return settled

    def _commit(self) -> None:
        with self._site.store.database.transaction():
            for queue, entry, consumer in self._settled:
                accept(self._site.store, queue, entry, consumer)
            for queue, message in self._published:
                publisher.append(self._site.store, [queue.new_message(message)])

    def rollback(self, now: float) -> None:
        """Write nothing; what was to be settled has failed."""
        self._roll_back()
        for queue, entry, consumer in self._end():
            queue.fail(entry, consumer, now=now)
            consumer.transaction_ended(entry)

    def abandon(self) -> None:
        """Write nothing: the process has died."""
        self._roll_back()
        for _, entry, consumer in self._end():
            consumer.in_transactions.remove(entry)

    def _roll_back(self) -> None:
        """End the open transaction, if there is one."""


def accept(store: Store, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
    """Accept a message over this store; False if the consumer has lost it."""
    claimed = entry.receipt
    if claimed is None or consumer.held.get(claimed.id) is not entry:
        return False
    return not store.settlements.settle(consumer.session_id, [judged(claimed, queue.record(), None)])


class _GivenUpError(Exception):
    """What a transaction is left with that is to be rolled back."""


class OpenUnit(StoredUnit):
    """A transaction over a connection of its own: several are open at once."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._store = private_store(site.store.alias)
        self._open = ExitStack()
        self._open.enter_context(self._store.database.transaction())
        self._refused: PublishError | None = None

    def publish(self, queue: StoredQueue, message: Message) -> bool:
        """Publish; False if the message is dropped. A refusal ends the transaction, for it leaves its block."""
        self._store.database.clock_offset = self._site.store.database.clock_offset
        new = queue.new_message(message)
        before = _dropped(self._site.store, queue)
        try:
            publisher.append(self._store, [new])
        except PublishError as error:
            self._refused = self._refused or error
            raise
        self._published.append((queue, message))
        if self._store.features.durable and queue.rules.overflow is Overflow.DROP:
            waiting = self._store.browser.browse(queue.name, states=[SCHEDULED, READY], limit=1000)
            return new.message_id in {item.message_id for item in waiting}
        return _dropped(self._site.store, queue) == before

    def _accept(self, queue: StoredQueue, entry: StoredEntry, consumer: StoredConsumer) -> bool:
        self._store.database.clock_offset = self._site.store.database.clock_offset
        return accept(self._store, queue, entry, consumer)

    def _commit(self) -> None:
        if self._refused is not None:
            raise self._refused
        self._open.close()
        self._store.close()

    def _roll_back(self) -> None:
        with suppress(_GivenUpError), self._open:
            raise _GivenUpError
        self._store.close()


def _dropped(store: Store, queue: StoredQueue) -> int:
    """How many messages a queue in memory has dropped."""
    return store.broker.queues[queue.name].dropped if isinstance(store, MemoryStore) else 0
