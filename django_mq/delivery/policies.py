"""What the queues say of retries and dead letters, read again every few seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_mq.delivery.declaring import declare
from django_mq.stores.refusals import no_such_queue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord

#: An edited queue is noticed by a running worker after so long, in seconds.
REFRESH_SECONDS = 5.0


class Policies:
    """The queue records of one worker."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._records: dict[str, QueueRecord] = {}
        self._read_at: float | None = None

    def refresh_if_due(self, store: Store) -> None:
        """Read the records; queues that do not exist are declared. Raises StoreError."""
        now = time.monotonic()
        if self._read_at is not None and now - self._read_at < REFRESH_SECONDS:
            return
        for name in self._names:
            record = store.queue(name)
            if record is None:
                declare(store, name)
                record = store.queue(name)
            if record is not None:
                self._records[name] = record
        self._read_at = now

    def of(self, name: str) -> QueueRecord:
        """Return a queue's record as last read."""
        try:
            return self._records[name]
        except KeyError:
            raise no_such_queue(name) from None
