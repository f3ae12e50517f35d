"""The producer's side: one INSERT on the caller's connection, inside the caller's transaction.

Three publishes stay outside it, each for a reason: a task's own retry or replacement (the exception
that follows it rolls the transaction back, and the task would be lost), a publish under a
running event loop (Django has no transaction there; see ``loops.py``), and the volatile lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import current_task

from django_mq.delivery import hinting, publishing, validation
from django_mq.errors import StoreError, UnknownQueue
from django_mq.integrations.celery import retries
from django_mq.integrations.celery.loops import apart_from_event_loops
from django_mq.integrations.celery.message import TRIED, new_message, urgency
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from django_mq.integrations.celery.channel import Channel
    from django_mq.integrations.celery.declarations import Declarations
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage


class Publisher:
    """Publishes Kombu messages for one transport."""

    def __init__(
        self,
        alias: str,
        declarations: Declarations,
        private: Callable[[], AbstractContextManager[Store]],
        *,
        redis_order: bool,
    ) -> None:
        self._alias = alias
        self._declarations = declarations
        self._private = private
        self._redis_order = redis_order

    def publish(self, queues: list[str], message: dict[str, Any], *, batch: Batch | None = None) -> None:
        """Write the message into each queue, or leave it to a batch to write.

        Raises as ``publish`` does; see the module for transactions.
        """
        priority = urgency(message["properties"].get("priority"), redis_order=self._redis_order)
        again = bool(message["properties"].get(TRIED))
        message["properties"][TRIED] = True
        rows = [new_message(queue, message, priority=priority) for queue in queues]
        for row in rows:
            validation.check_size(row.body)
        owner = retries.owner() or _retried(message)
        if batch is not None and owner is None:
            batch.add(rows)
        elif owner is None or not shared_store(self._alias).in_transaction:
            self.write(rows, again=again)
        else:
            self._in_its_place(owner, rows, again=again)

    def _in_its_place(self, owner: str, rows: list[NewMessage], *, again: bool) -> None:
        """Write what takes the place of a running task, even if its transaction is rolled back."""
        if shared_store(self._alias).features.concurrent_writers:
            self._write_apart(rows, again=again)
        else:
            # A second writer would wait for the very transaction that waits for it.
            retries.defer(owner, lambda: self._write_apart(rows, again=again))

    def _write_apart(self, rows: list[NewMessage], *, again: bool) -> None:
        """Commit now, even if the caller's transaction is rolled back, and hint now."""
        with self._private() as store:
            self._append(store, rows, again=again)
        notifier().announce(hinting.news_of(rows))

    def write(self, rows: list[NewMessage], *, again: bool) -> None:
        """Write rows with one statement in the caller's transaction, and hint when it commits."""
        store = shared_store(self._alias)
        in_transaction = store.in_transaction
        try:
            self._append(store, rows, again=again)
        except StoreError as error:
            if in_transaction and error.__cause__ is not None:
                # The transaction is broken: Kombu must not try again inside it.
                raise error.__cause__ from None
            raise
        hinting.announce(rows, store)

    def _append(self, store: Store, rows: list[NewMessage], *, again: bool) -> None:
        try:
            publishing.append(store, rows, again=again)
        except UnknownQueue:
            for row in rows:
                self._declarations.ensure(row.queue_name, anew=True)
            publishing.append(store, rows, again=again)


def _retried(message: dict[str, Any]) -> str | None:
    """Return the id of the running task if it publishes itself again: of a task not covered by ``retries``."""
    headers = message["headers"]
    # The header first: to ask which task runs takes longest where none does.
    if not headers.get("retries") or not current_task:
        return None
    return str(headers["id"]) if headers.get("id") == current_task.request.id else None


# ``Producer.batch()``: many publishes, one statement.
#
# The rows wait here until so many have gathered, the batch is flushed, or its context ends.
# They are written in the transaction that is open then. What cannot wait, does not: the
# volatile lane, and the running task's own retry.


class Batch:
    """One batch of one producer; Kombu calls its methods in one thread."""

    def __init__(self, channel: Channel, max_size: int) -> None:
        self.channel = channel
        self.max_size = max_size
        self._rows: list[NewMessage] = []
        # An attempt to write these was made: it may have been committed.
        self._tried = False

    def publish(self, message: dict[str, Any], exchange: str = "", routing_key: str = "", **options: Any) -> None:
        """Keep the rows of a message, and write them all when there are enough."""
        self.channel.basic_publish(message, exchange, routing_key, batch=self, **options)
        if len(self._rows) >= self.max_size:
            self.flush()

    def add(self, rows: list[NewMessage]) -> None:
        """Take the rows of a message, once: Kombu publishes it again when a flush has failed."""
        known = {(row.message_id, row.queue_name) for row in self._rows} if self._tried else set()
        self._rows += [row for row in rows if (row.message_id, row.queue_name) not in known]

    @apart_from_event_loops
    def flush(self) -> None:
        """Write what is kept with one statement; it stays when that fails. Raises as ``publish`` does."""
        if self._rows:
            again, self._tried = self._tried, True
            self.channel.open_transport.publisher.write(self._rows, again=again)
        self.discard()

    def discard(self) -> None:
        """Forget what is kept."""
        self._rows, self._tried = [], False

    def close(self) -> None:
        """Nothing is held open."""
