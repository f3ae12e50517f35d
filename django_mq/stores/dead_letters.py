"""Publish dead letters to the exchange that their queue names: what all stores do alike."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django_mq.engine.decisions.routing import dead_letter_queues
from django_mq.engine.entries.afterlife import DEAD_AT, DEAD_REASON, ORIGIN_ATTEMPTS, ORIGIN_QUEUE
from django_mq.engine.states import REJECTED
from django_mq.errors import PublishError, UnknownQueue
from django_mq.stores.records import NewMessage
from django_mq.stores.values import headers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from django_mq.engine.decisions.routing import Route
    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter that goes to an exchange, with what its queue says of that."""

    message: Browsed
    dead_at: datetime
    exchange: str
    routing_key: str


def publish_dead(store: Store, dead_letters: Sequence[DeadLetter]) -> list[int]:
    """Write each dead letter into the queues of its exchange; return the row ids of those that a queue took."""
    routes = {
        exchange: store.bindings(exchange) for exchange in {dead_letter.exchange for dead_letter in dead_letters}
    }
    return [
        dead_letter.message.id
        for dead_letter in dead_letters
        if _publish(store, dead_letter, routes[dead_letter.exchange])
    ]


def _publish(store: Store, dead_letter: DeadLetter, routes: Sequence[Route]) -> bool:
    taken = 0
    for copy in copies_of(dead_letter, routes):
        queue = store.queue(copy.queue_name)
        sorting = None if queue is None else queue.sorting
        place = None if sorting is None else sorting.place_or_first(headers_in(copy.headers))
        try:
            # A refusal undoes nothing else. In memory, a transaction would put the message off.
            with store.transaction() if store.features.durable else nullcontext():
                ids = list(filter(None, store.append_by_rules([replace(copy, sort_place=place)])))
                store.note_dead_letters(ids, dead_letter.message.dead_reason or REJECTED)
                taken += len(ids)
        except (PublishError, UnknownQueue):
            continue  # the queue is full or closed, or has the message already
    return taken > 0


def copies_of(dead_letter: DeadLetter, routes: Sequence[Route]) -> Iterator[NewMessage]:
    """Yield the messages that a dead letter becomes, one for each queue of its exchange."""
    message = dead_letter.message
    origin = {
        ORIGIN_QUEUE: message.queue_name,
        ORIGIN_ATTEMPTS: message.attempts,
        DEAD_REASON: message.dead_reason,
        DEAD_AT: dead_letter.dead_at.isoformat(timespec="microseconds"),
    }
    properties = headers_in(message.properties or "{}")
    names = dead_letter_queues(
        routes, dead_letter.routing_key, message.queue_name, properties, message=message.as_message
    )
    copy = NewMessage(
        queue_name="",
        message_id=message.message_id,
        body=bytes(message.body),
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        headers=json.dumps({**headers_in(message.headers), **origin}),
        properties=message.properties,
        priority=message.priority,
        type=message.type,
        correlation_id=message.correlation_id,
        group_key=message.group_key,
    )
    for name in names:
        yield replace(copy, queue_name=name)
