"""Give back messages that a worker has prefetched and not begun, for free slots elsewhere or a paused queue.

Nothing is written for a message that begins in time: the worker asks once for each heartbeat, if messages wait for
its slots.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.consumer.lease import RENEWALS
from django_mq.engine.decisions.recall import surplus
from django_mq.stores.queue_records import last_read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.delivery.consumer.prefetch import Dispatcher
    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.records import Claimed, Receipt


class Recall:
    """What one session gives back of its prefetched messages. The worker's loop calls it while some wait."""

    def __init__(self, session: Session, dispatcher: Dispatcher) -> None:
        self._session = session
        self._dispatcher = dispatcher
        # The messages that waited at the last look for free slots, and when the next look is due.
        self._before: frozenset[Receipt] = frozenset()
        self._look_at = 0.0
        self._yields_until = 0.0

    @property
    def yields(self) -> bool:
        """Whether to claim no more than can begin: other workers had free slots."""
        return time.monotonic() < self._yields_until

    def give_back(self, queues: Iterable[str]) -> None:
        """Give back what has not begun of these queues."""
        for name in queues:
            for message in self._dispatcher.take_all_back(name):
                self._session.release(message)

    def give_to_others(self) -> None:
        """Give back, for each heartbeat, what others could begin. Raises StoreError."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + conf.load().SESSION_SECONDS / RENEWALS
            self._give_to_others()

    def _give_to_others(self) -> None:
        load, waiting = self._session.driver.describe(), self._dispatcher.waiting()
        before, self._before = (
            self._before,
            frozenset(item.receipt for items in waiting.values() for item in items),
        )
        queues = [
            name
            for name in waiting
            if (record := last_read(self._session.alias, name)).is_for_any and not record.priorities_differ
        ]
        free_slots = (load.slots or 0) - (load.busy or 0)
        if not queues or not before & self._before or self._session.id is None:
            return
        free = self._session.store.sessions.free_slots(self._session.id, queues)
        for name, elsewhere in free.items():
            receipts = {item.receipt: item for item in waiting[name]}
            chosen = surplus(
                [*receipts],
                before,
                free_slots=free_slots,
                elsewhere=elsewhere,
                message_of=lambda receipt, receipts=receipts: receipts[receipt].as_message(),  # type: ignore[misc]
            )
            self._take_back([receipts[receipt] for receipt in chosen])
            if chosen:
                self._yields_until = self._look_at

    def _take_back(self, messages: list[Claimed]) -> None:
        for message in messages:
            for taken in self._dispatcher.take_back(message):
                self._session.release(taken)
