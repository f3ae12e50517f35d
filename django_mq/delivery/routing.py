"""From an exchange to queues: one copy of a message for each queue whose binding matches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.delivery.validation import plain
from django_mq.engine.routing import queues_matching

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage


def route(store: Store, exchange: str | None, routing_key: str | None, message: NewMessage) -> list[NewMessage]:
    """Return one copy of the message per queue it goes to; without an exchange, the message itself."""
    if exchange is None:
        return [message]
    names = queues_matching(store.bindings(plain(exchange)), routing_key or "")
    return [replace(message, queue_name=name) for name in names]
