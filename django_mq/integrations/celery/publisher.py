"""What a transport publishes, and over which connection.

A publish is one INSERT on the caller's connection, inside the caller's transaction. Three publishes stay outside
of it: a task's own retry or replacement (the exception that follows would roll it back, and the task would be
lost), a publish under a running event loop (see ``apart_from_event_loops``), and messages of transient queues.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import current_task

from django_mq.delivery import hints, publisher, validation
from django_mq.errors import PublishError, StoreError, UnknownQueue
from django_mq.integrations.celery import failures
from django_mq.integrations.celery.message import TRIED, new_message, urgency
from django_mq.integrations.celery.transient_queues import loaded
from django_mq.notifications.registry import notifier
from django_mq.stores.clock import clock
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.message import Message
    from django_mq.integrations.celery.declarations import Committing, Declarations
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage

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
        return new_message("", message, priority=self._priority_of(message)).as_message(clock.now())

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
        elif owner is None or not shared_store(self._alias).database.in_transaction:
            self.write(rows, again=again)
        elif shared_store(self._alias).features.concurrent_writers:
            self._write_apart(rows, again=again)
        else:
            # A second writer would wait for the transaction of this thread, which waits for the write.
            failures.defer(owner, lambda: self._write_apart(rows, again=again))

    def take_over(self, queues: list[str]) -> None:
        """Move what the previous version has left in transient queues to the durable queues of the same names."""
        try:
            with self._committing() as store, store.database.transaction():
                taken = [(queue, loaded(payload)) for queue, payload in store.volatile.take(queues)]
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
        in_transaction = store.database.in_transaction
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

    def __init__(
        self,
        channel: object,
        max_size: int,
        *,
        publish: Callable[..., None],
        write: Callable[..., None],
    ) -> None:
        #: Kombu compares it with the channel of its producer.
        self.channel = channel
        self._max_size = max_size
        # The channel's ``basic_publish``, and the ``write`` of its publisher.
        self._publish = publish
        self._write = write
        self._rows: list[NewMessage] = []
        # Whether a try to write these rows was made: it may have been committed.
        self._tried = False

    def publish(self, message: dict[str, Any], exchange: str = "", routing_key: str = "", **options: Any) -> None:
        """Keep the rows of a message, and write them all when there are enough."""
        self._publish(message, exchange, routing_key, batch=self, **options)
        if len(self._rows) >= self._max_size:
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
            self._write(self._rows, again=again)
        self.discard()

    def discard(self) -> None:
        self._rows, self._tried = [], False

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
