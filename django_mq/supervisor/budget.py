"""Let a process begin a number of messages, and no more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.pool import HandlerPool, MakePool, NextAttempt
    from django_mq.engine.decisions.bulk import BulkLine
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
            next_attempt: NextAttempt,
            on_done: Callable[[Delivery, Settlement], None],
            on_idle: Callable[[], None],
        ) -> HandlerPool:
            limited = LimitedAttempts(self, next_attempt)
            return make(slots, next_attempt=limited, on_done=on_done, on_idle=on_idle)

        return make_limited

    def spend(self, most: int, take: Callable[[int], list[Delivery]]) -> list[Delivery]:
        """Return what ``take`` returns for the messages that may begin, ``most`` of them at most."""
        # Two threads must not take the last one both.
        with self._lock:
            attempts = take(min(most, self._left)) if self._left else []
            self._left -= len(attempts)
            is_spent = bool(attempts) and not self._left
        if is_spent:
            self._on_spent()
        return attempts


class LimitedAttempts:
    """How a pool takes what its worker has prefetched, within a budget."""

    def __init__(self, budget: MessageBudget, next_attempt: NextAttempt) -> None:
        self._budget = budget
        self._next_attempt = next_attempt

    def __call__(self) -> Delivery | None:
        """Return the most urgent attempt; None if none may begin."""
        attempts = self._budget.spend(1, lambda _: [each] if (each := self._next_attempt()) is not None else [])
        return attempts[0] if attempts else None

    def line(self) -> BulkLine:
        """Return what waits for the only handler."""
        return self._next_attempt.line()

    def together(self, most: int) -> list[Delivery]:
        """Return the first attempts of the only handler, which are one call."""
        return self._budget.spend(most, self._next_attempt.together)

    def accept(self, attempts: Sequence[Delivery], settlements: Sequence[Settlement]) -> None:
        """Settle attempts of one call that were all accepted."""
        self._next_attempt.accept(attempts, settlements)
