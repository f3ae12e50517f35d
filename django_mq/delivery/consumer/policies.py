"""The options of a worker's queues, read again every few seconds, and its requests for exclusive queues."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_mq.delivery.queues import declare
from django_mq.errors import AccessRefused
from django_mq.stores.errors import no_such_queue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord

logger = logging.getLogger("django_mq.delivery")

#: A running worker notices changed options after so long, in seconds.
REFRESH_SECONDS = 5.0
#: Time between two requests for an exclusive queue, and between two log entries of its refusal, in seconds.
AGAIN_SECONDS, SAY_SECONDS = 5.0, 60.0


class Policies:
    """The queue records of one worker."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._records: dict[str, QueueRecord] = {}
        self._read_at: float | None = None

    def refresh_if_due(self, store: Store) -> None:
        """Read the records, declaring queues that do not exist. Raises StoreError."""
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


class ExclusiveQueues:
    """One session's requests for its exclusive queues. A claim brings nothing from a refused queue."""

    def __init__(self, session: Session, policies: Policies) -> None:
        self._session = session
        self._policies = policies
        self._admitted: set[str] = set()
        self._said: dict[str, float] = {}
        self._ask_at = 0.0

    def ask_if_due(self) -> None:
        """Ask for each exclusive queue until it is given. Raises StoreError."""
        now = time.monotonic()
        if now < self._ask_at:
            return
        self._ask_at = now + AGAIN_SECONDS
        for name in self._session.queues:
            if name not in self._admitted and self._policies.of(name).exclusive:
                self._ask(name, now)

    def _ask(self, name: str, now: float) -> None:
        try:
            self._session.subscribe(name)
        except AccessRefused as refusal:
            if now - self._said.get(name, float("-inf")) >= SAY_SECONDS:
                logger.warning("Standing by: %s", refusal)
                self._said[name] = now
        else:
            self._admitted.add(name)
