"""The requests of a worker for exclusive queues."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_mq.errors import AccessRefused
from django_mq.stores.queue_records import last_read

if TYPE_CHECKING:
    from django_mq.delivery.consumer.session import Session

logger = logging.getLogger("django_mq.delivery")

#: Time between two requests for an exclusive queue, and between two log entries of its refusal, in seconds.
AGAIN_SECONDS, SAY_SECONDS = 5.0, 60.0


class ExclusiveQueues:
    """One session's requests for its exclusive queues. A claim brings nothing from a refused queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
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
            if name not in self._admitted and last_read(self._session.alias, name).exclusive:
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
