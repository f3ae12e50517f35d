"""``Producer.batch()``: many publishes, one statement.

The rows wait here until so many have gathered, the batch is flushed, or its context ends.
They are written in the transaction that is open then. What cannot wait, does not: the
volatile lane, and the running task's own retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.integrations.celery.apart import apart_from_event_loops

if TYPE_CHECKING:
    from django_mq.integrations.celery.channel import Channel
    from django_mq.stores.records import NewMessage


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
