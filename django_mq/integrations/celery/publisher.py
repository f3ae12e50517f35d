"""What a transport writes, and over which connection.

A publish is one INSERT on the caller's connection, inside the caller's transaction. Three publishes stay outside
of it: a task's own retry or replacement (the exception that follows would roll it back, and the task would be
lost), a publish under a running event loop (see ``apart_from_event_loops``), and messages of transient queues.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import current_task

from django_mq.delivery import hints, publisher, validation
from django_mq.delivery.queues import declare
from django_mq.engine.options import QueueOptions
from django_mq.errors import PublishError, QueueInUse, StoreError, StoreUnavailable, UnknownQueue
from django_mq.integrations.celery import failures
from django_mq.integrations.celery.message import TRIED, new_message, urgency
from django_mq.integrations.celery.transient_queues import loaded
from django_mq.notifications.registry import notifier
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.registry import private_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from django_mq.delivery.consumer.session import Session
    from django_mq.engine.message import Message
    from django_mq.integrations.celery.channel import Channel
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage, QueueRecord

logger = logging.getLogger("django_mq.celery")


class Publisher:
    """Publishes Kombu messages for one transport."""

    def __init__(
        self, alias: str, declarations: Declarations, committing: Committing, *, redis_order: bool
    ) -> None:
        self._alias = alias
        self._declarations = declarations
        self._committing = committing
        self._redis_order = redis_order

    def as_message(self, message: dict[str, Any]) -> Message:
        """Return a Kombu message dictionary as the selectors of bindings read it."""
        return new_message("", message, priority=self._priority_of(message)).as_message(datetime.now(UTC))

    def _priority_of(self, message: dict[str, Any]) -> int:
        return urgency(message["properties"].get("priority"), redis_order=self._redis_order)

    def publish(self, queues: list[str], message: dict[str, Any], *, batch: Batch | None = None) -> None:
        """Write the message into each queue, or add it to the batch. Raises as ``publish`` does."""
        priority = self._priority_of(message)
        again = bool(message["properties"].get(TRIED))
        message["properties"][TRIED] = True
        rows = [new_message(queue, message, priority=priority) for queue in queues]
        for row in rows:
            validation.check_size(row.body)
        owner = failures.owner() or _retried(message)
        if batch is not None and owner is None:
            batch.add(rows)
        elif owner is None or not shared_store(self._alias).in_transaction:
            self.write(rows, again=again)
        elif shared_store(self._alias).features.concurrent_writers:
            self._write_apart(rows, again=again)
        else:
            # A second writer would wait for the transaction of this thread, which waits for the write.
            failures.defer(owner, lambda: self._write_apart(rows, again=again))

    def take_over(self, queues: list[str]) -> None:
        """Move what the previous version has left in transient queues to the durable queues of the same names."""
        try:
            with self._committing() as store, store.transaction():
                taken = [(queue, loaded(payload)) for queue, payload in store.volatile_take(queues)]
                rows = [new_message(queue, each, priority=self._priority_of(each)) for queue, each in taken]
                if rows:
                    self._append(store, rows, again=False)
                    notifier().announce(hints.news_of(rows), over=store)
        except PublishError as error:
            logger.warning("Messages of the previous version stay in transient queues: %s", error)

    def _write_apart(self, rows: list[NewMessage], *, again: bool) -> None:
        """Commit now, even if the caller's transaction is rolled back, and hint now."""
        with self._committing.private() as store:
            written = publisher.passed(store, rows, partial(self._append, store, again=again))
            notifier().announce(hints.news_of(written), over=store)

    def write(self, rows: list[NewMessage], *, again: bool) -> None:
        """Write rows with one statement in the caller's transaction, and hint when it commits."""
        store = shared_store(self._alias)
        in_transaction = store.in_transaction
        try:
            written = publisher.passed(store, rows, partial(self._append, store, again=again))
        except StoreError as error:
            if in_transaction and error.__cause__ is not None:
                # The transaction is broken: Kombu must not try again inside it.
                raise error.__cause__ from None
            raise
        hints.announce(written, store)

    def _append(self, store: Store, rows: list[NewMessage], *, again: bool) -> None:
        try:
            publisher.append(store, rows, again=again)
        except UnknownQueue:
            for row in rows:
                self._declarations.ensure(row.queue_name, anew=True)
            publisher.append(store, rows, again=again)


def _retried(message: dict[str, Any]) -> str | None:
    """Return the id of the running task if it publishes itself again. ``failures`` does not cover every task."""
    headers = message["headers"]
    # The header first: it takes long to learn that no task is running.
    if not headers.get("retries") or not current_task:
        return None
    return str(headers["id"]) if headers.get("id") == current_task.request.id else None


class Batch:
    """``Producer.batch()``: many publishes, one statement. Kombu calls its methods in one thread.

    The rows are written when there are enough, or when the batch is flushed or ends, in the transaction that is
    open then. Messages of transient queues and the running task's own retry are written at once.
    """

    def __init__(self, channel: Channel, max_size: int) -> None:
        self.channel = channel
        self.max_size = max_size
        self._rows: list[NewMessage] = []
        # Whether a try to write these rows was made: it may have been committed.
        self._tried = False

    def publish(self, message: dict[str, Any], exchange: str = "", routing_key: str = "", **options: Any) -> None:
        """Keep the rows of a message, and write them all when there are enough."""
        self.channel.basic_publish(message, exchange, routing_key, batch=self, **options)
        if len(self._rows) >= self.max_size:
            self.flush()

    def add(self, rows: list[NewMessage]) -> None:
        """Add the rows of a message, once: Kombu publishes it again when a flush has failed."""
        known = {(row.message_id, row.queue_name) for row in self._rows} if self._tried else set()
        self._rows += [row for row in rows if (row.message_id, row.queue_name) not in known]

    @apart_from_event_loops
    def flush(self) -> None:
        """Write the rows with one statement; they stay if that fails. Raises as ``publish`` does."""
        if self._rows:
            again, self._tried = self._tried, True
            self.channel.open_transport.publisher.write(self._rows, again=again)
        self.discard()

    def discard(self) -> None:
        self._rows, self._tried = [], False

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


#: How long a transport believes what it read of queues, in seconds.
REMEMBER_SECONDS = 5.0


class Declarations:
    """The durable queues and their bindings, written apart from the caller's transaction and remembered.

    A queue's row inside a long transaction would block every other first publisher, and a roll-back would remove
    it while Kombu believes that it is declared.
    """

    def __init__(self, store: Callable[[], AbstractContextManager[Store]]) -> None:
        self._store = store
        self._queues: dict[str, tuple[float, QueueRecord]] = {}
        #: The rules of the queues that were declared here, in case that a queue has to be created, perhaps again.
        self.declared: dict[str, Mapping[str, Any]] = {}

    def ensure(self, name: str, *, anew: bool = False) -> None:
        """Create the queue if it does not exist; ``anew`` ignores what is remembered. Raises InvalidMessage."""
        if anew:
            self._queues.pop(name, None)
        if not self.exists(name):
            self.create(name)

    def create(self, name: str) -> None:
        """Create a queue with its declared rules. Raises InvalidMessage for a name that no queue can have."""
        with self._store() as store:
            declare(store, name, self.declared.get(name))
        self._record(name)

    def note_use(self, name: str) -> None:
        """Let the time of a queue with ``x-expires`` begin again, as its declaration does on RabbitMQ."""
        with self._store() as store:
            store.note_use([name])

    def exists(self, name: str) -> bool:
        return self._record(name) is not None

    def knows(self, name: str) -> bool:
        """Whether the queue exists, or did when it was last read: seldom a statement."""
        return name in self._queues or self.exists(name)

    def remembered(self, name: str) -> QueueOptions:
        """Return what was last read of a queue, or the defaults. The database is never asked."""
        known = self._queues.get(name)
        return known[1] if known is not None else QueueOptions()

    def refresh(self, names: Iterable[str]) -> None:
        """Read again what is older than ``REMEMBER_SECONDS``, for ``remembered``."""
        for name in names:
            self._record(name)

    def _record(self, name: str) -> QueueRecord | None:
        known = self._queues.get(name)
        if known is not None and time.monotonic() - known[0] < REMEMBER_SECONDS:
            return known[1]
        validation.text(name, "The name of a queue")  # of a transient queue, too, which may be longer
        with self._store() as store:
            record = store.queue(name)
        if record is not None:
            self._queues[name] = (time.monotonic(), record)
        return record

    def delete(self, name: str, *, force: bool) -> int:
        """Delete a queue and return how many messages went with it; 0 if it is in use or unknown."""
        self._queues.pop(name, None)
        with suppress(QueueInUse, UnknownQueue), self._store() as store:
            return store.delete_queue(name, force=force)
        return 0

    def bind(self, queue: str, exchange: str, exchange_type: str, pattern: str, selector: str = "") -> None:
        self.ensure(queue)
        with self._store() as store:
            store.bind(
                exchange=exchange, exchange_type=exchange_type, pattern=pattern, queue=queue, selector=selector
            )

    def unbind(self, queue: str, exchange: str, pattern: str) -> None:
        with self._store() as store:
            store.unbind(exchange=exchange, pattern=pattern, queue=queue)

    def size(self, name: str, limit: int) -> int:
        """Return how many messages a worker could be given now, counted up to the limit."""
        with self._store() as store:
            counts = store.counts([name], limit=limit).get(name)
        return min(counts.deliverable, limit) if counts else 0

    def purge(self, name: str) -> int:
        """Remove the messages that no worker holds, except dead letters; return how many there were."""
        with suppress(UnknownQueue), self._store() as store:
            return store.purge(name, dead=False)
        return 0


# Which connection writes what must not wait for the caller's transaction: queues, bindings, transient queues.
#
# no transaction is open             Django's connection, which commits each statement
# a transaction is open              a private connection, closed after use: most processes never need it again
# ... and the database has           the caller's: a second writer would wait for the transaction of this thread
#     one writer at a time
# in a worker, no transaction        the transport's private connection: children would inherit Django's
#
# A thread with an open transaction never waits for a connection that other threads share: one of them may be
# waiting, on that connection, for what the transaction has locked.

#: This process, once one of its transports is on a worker's event loop.
_workers: set[int] = set()
#: Alias to the private store that a worker's transports without a session share: events, gossip, replies.
_beside: dict[str, Store] = {}


class Committing:
    """Choose the connection for one transport. Calling it returns a context with the store to use."""

    def __init__(self, alias: str, session: Callable[[], Session | None]) -> None:
        self._alias = alias
        # The session of the transport, None while it consumes no durable queue.
        self._session = session

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        """Use a store that commits each statement, where that is possible."""
        shared = shared_store(self._alias)
        waits_for_itself = shared.in_transaction and not shared.features.concurrent_writers
        if waits_for_itself or not (shared.in_transaction or self._in_worker()):
            with _replacing_a_broken_connection(shared):
                yield shared
        else:
            with self.private() as store:
                yield store

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Use a store to read what others have committed: inside a transaction that of the caller."""
        shared = shared_store(self._alias)
        if shared.in_transaction:
            yield shared
        else:
            with self() as store:
                yield store

    @contextmanager
    def private(self) -> Iterator[Store]:
        """Use a store that commits each statement, even inside a transaction."""
        session = self._session()
        if self._in_worker() and not shared_store(self._alias).in_transaction:
            kept = session.store if session is not None else _store_beside(self._alias)
            with _replacing_a_broken_connection(kept):
                yield kept
        else:
            store = private_store(self._alias)
            try:
                yield store
            finally:
                store.close()

    def close(self) -> None:
        """Close the connection that transports without a session share; it opens again at its next use."""
        if self._alias in _beside:
            _beside[self._alias].close()

    def _in_worker(self) -> bool:
        return self._session() is not None or os.getpid() in _workers

    def enter_worker(self) -> None:
        """Treat this process as a worker from now on, and close the connection that children would inherit."""
        _workers.add(os.getpid())
        shared_store(self._alias).disconnect()


@contextmanager
def _replacing_a_broken_connection(store: Store) -> Iterator[None]:
    """Use a connection that is kept open: one that has ended meanwhile is replaced, and one that ends now, too.

    Nothing else would: Kombu connects again through the same kept connection, and no request begins.
    """
    store.reconnect_if_ended()
    try:
        yield
    except StoreUnavailable:
        store.reconnect()
        raise


def _store_beside(alias: str) -> Store:
    if alias not in _beside:
        _beside.setdefault(alias, private_store(alias))
    return _beside[alias]
