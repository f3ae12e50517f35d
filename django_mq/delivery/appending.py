"""Rows of messages are written: missing queues are declared first, and full ones waited for or refused.

Which queues have limits is remembered for a moment: a queue without any must not pay for the question.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from django_mq.delivery.apart import works_for_event_loop
from django_mq.delivery.declaring import declare, may_declare
from django_mq.errors import QueueFull, StoreUnavailable, UnknownQueue
from django_mq.stores.refusals import undeclared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage, QueueRecord

T = TypeVar("T")

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


def append(store: Store, messages: list[NewMessage], *, again: bool = False) -> None:
    """Write messages; missing queues of the settings are declared, limited ones held to their limits.

    Outside a transaction a connection that turns out to be dead is replaced and the write
    repeated once: beat, scripts and consumers have no request whose end would do it. The
    first write may have been committed all the same; the message ids tell.
    """
    try:
        _append_declaring(store, messages, again=again)
    except StoreUnavailable:
        if not store.reconnect():
            raise
        _append_declaring(store, messages, again=True)


def _append_declaring(store: Store, messages: list[NewMessage], *, again: bool) -> None:
    write = partial(_append_within_limits, store, messages, again=again)
    declaring(store, (message.queue_name for message in messages), write)


def _append_within_limits(store: Store, messages: list[NewMessage], *, again: bool) -> None:
    if len(messages) == 1 and messages[0].dedup_id is None and rules_of(store, messages[0].queue_name) is None:
        store.append(messages[0], again=again)  # by far the most frequent
        return
    names = {message.queue_name for message in messages}
    ruled = {name: rules for name in names if (rules := rules_of(store, name)) is not None}
    if ruled or any(message.dedup_id is not None for message in messages):
        waiting_for_room(store, ruled, lambda: store.append_by_rules(messages, again=again))
    elif messages:
        store.append_many(messages, again=again)


def declaring(store: Store, names: Iterable[str], write: Callable[[], T]) -> T:
    """Return what ``write`` returns; where a queue is missing, declare those of ``names`` first, and write again.

    Waits for another transaction that is declaring one of them. Raises UnknownQueue if one may not be declared.
    """
    try:
        return write()
    except UnknownQueue:
        known = sorted(name for name in set(names) if may_declare(name))
        if not known:
            raise
        for name in known:
            # Not created here is as good: another publisher's transaction has committed the queue meanwhile.
            declare(store, name)
        return write()
