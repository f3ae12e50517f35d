"""Which queues have rules at publish, remembered for a moment, and the wait of those whose queue is full.

A queue without rules must not pay for the question.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_mq.delivery.apart import works_for_event_loop
from django_mq.errors import QueueFull
from django_mq.stores.refusals import undeclared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord

#: Seconds until edited rules are noticed by publishers that are running.
REMEMBER_SECONDS = 5.0
#: Between two tries of a publisher that waits for room: at first, and at most.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.25

_remembered: dict[tuple[str, str], tuple[float, QueueRecord | None]] = {}


def rules_of(store: Store, name: str) -> QueueRecord | None:
    """Return the queue if it has rules, as of at most a few seconds ago; None if it has none.

    Raises UnknownQueue: a queue that appears a moment later may have rules.
    """
    key = (store.alias, name)
    known = _remembered.get(key)
    now = time.monotonic()
    if known is not None and now - known[0] < REMEMBER_SECONDS:
        return known[1]
    queue = store.queue(name)
    if queue is None:
        raise undeclared(name)
    rules = queue if queue.has_publish_rules else None
    _remembered[key] = (now, rules)
    return rules


class Patience:
    """How long one publisher has waited for room, and how long it waits until it tries again."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._pause = FIRST_PAUSE_SECONDS

    def pause_seconds(self, error: QueueFull, queue: QueueRecord | None) -> float:
        """Return the time until the next try. Raises the error if the queue lets its publishers wait no longer."""
        if queue is None or queue.overflow != "flow":
            raise error
        left = self._began + queue.wait_seconds - time.monotonic()
        if left <= 0:
            raise error
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return min(pause, left)


def waiting_for_room(store: Store, ruled: Mapping[str, QueueRecord], write: Callable[[], object]) -> None:
    """Write, if need be again and again until a full queue that lets its publishers wait has room.

    Raises QueueFull when that takes longer than the queue's ``wait_seconds``; at once in a transaction, which
    may hold the very locks that the consumers need to make room, and in a thread that works for an event loop.
    """
    patience = Patience()
    while True:
        try:
            write()
        except QueueFull as error:
            if store.in_transaction or works_for_event_loop():
                raise
            pause = patience.pause_seconds(error, ruled.get(error.queue))
        else:
            return
        time.sleep(pause)


def forget() -> None:
    """Drop what is remembered: a queue was edited here, or tests begin anew."""
    _remembered.clear()
