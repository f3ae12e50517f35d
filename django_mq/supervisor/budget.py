"""Let a process begin a number of messages, and no more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.pool import HandlerPool, MakePool
    from django_mq.stores.records import Settlement


class MessageBudget:
    """How many more messages the pools of this process may begin."""

    def __init__(self, messages: int, on_spent: Callable[[], object]) -> None:
        """Allow so many messages; ``on_spent`` is called by the thread that begins the last one."""
        self._most = self._left = messages
        self._on_spent = on_spent
        self._lock = threading.Lock()

    @property
    def begun(self) -> int:
        """How many messages were begun."""
        return self._most - self._left

    def limiting(self, make: MakePool) -> MakePool:
        """Return what makes the same pool, which begins no more messages than this allows."""

        def make_limited(
            slots: int,
            /,
            *,
            next_attempt: Callable[[], Delivery | None],
            on_done: Callable[[Delivery, Settlement], None],
            on_idle: Callable[[], None],
        ) -> HandlerPool:
            return make(slots, next_attempt=lambda: self._take(next_attempt), on_done=on_done, on_idle=on_idle)

        return make_limited

    def _take(self, next_attempt: Callable[[], Delivery | None]) -> Delivery | None:
        # Counted before the look: two threads must not take the last one both.
        if not self._add(-1):
            return None
        attempt = next_attempt()
        if attempt is None:
            self._add(1)
        elif not self._left:
            self._on_spent()
        return attempt

    def _add(self, messages: int) -> bool:
        with self._lock:
            if self._left + messages < 0:
                return False
            self._left += messages
            return True
