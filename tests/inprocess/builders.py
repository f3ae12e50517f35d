"""Short ways to say what a test of the in-process broker is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from tests.engine.builders import message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.inprocess.queue import Queue


def entry(name: str = "m", **place: Any) -> Entry:
    return Entry(message(name), **place)


def names(entries: Iterable[Entry]) -> list[str]:
    return [each.message.id for each in entries]


def publish(queue: Queue, *names: str, now: float = 0.0, **properties: Any) -> list[Entry]:
    return [queue.publish(message(name, **properties), now) for name in names]


def subscribe(
    queue: Queue, name: str = "c", messages: int | None = None, size_bytes: int | None = None, **options: Any
) -> Consumer:
    consumer = Consumer(name, WindowCredit(messages, size_bytes), **options)
    queue.add_consumer(consumer)
    return consumer


def die(queue: Queue) -> Entry:
    """Let the first message of the queue become a dead letter."""
    consumer = subscribe(queue, "rejects")
    entry = queue.deliver(consumer, 0.0)
    assert entry is not None
    queue.reject(entry, consumer)
    queue.remove_consumer(consumer)
    return entry


def drain(queue: Queue, consumer: Consumer, now: float = 0.0) -> list[str]:
    """Pull until nothing comes."""
    delivered = []
    while (each := queue.deliver(consumer, now)) is not None:
        delivered.append(each.message.id)
    return delivered
