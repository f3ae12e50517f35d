"""Rows of messages are written: missing queues are declared first, and full ones waited for or refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.delivery.declaring import declaring
from django_mq.delivery.limits import rules_of, waiting_for_room
from django_mq.errors import StoreUnavailable

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage


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
