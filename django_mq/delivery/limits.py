"""Which queues are limited, remembered for a moment: an unlimited queue must not pay for the question."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mq.stores.base import Store

#: Seconds until an edited limit is noticed by publishers that are running.
REMEMBER_SECONDS = 5.0

_remembered: dict[tuple[str, str], tuple[float, bool]] = {}


def queue_is_limited(store: Store, name: str) -> bool:
    """Whether the queue has a limit of messages, as of at most a few seconds ago."""
    key = (store.alias, name)
    known = _remembered.get(key)
    now = time.monotonic()
    if known is not None and now - known[0] < REMEMBER_SECONDS:
        return known[1]
    queue = store.queue(name)
    if queue is None:
        return False
    _remembered[key] = (now, queue.max_messages is not None)
    return queue.max_messages is not None


def forget() -> None:
    """Drop what is remembered: a queue was edited here, or tests begin anew."""
    _remembered.clear()
