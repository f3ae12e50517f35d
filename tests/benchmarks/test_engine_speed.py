"""What the queue model costs, beside the standard library's thread-safe priority queue.

pytest tests/benchmarks/test_engine_speed.py -m benchmark -s
"""

from __future__ import annotations

from queue import PriorityQueue
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.consumer import Consumer
from django_mq.engine.credit.window import WindowCredit
from django_mq.engine.entry import Entry
from django_mq.engine.message import Message
from django_mq.engine.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

#: Cycles in one measurement: about a tenth of a second each.
CYCLES = 20_000

MESSAGES = [Message(id=str(number), priority=number % 10, size=10) for number in range(CYCLES)]


def raw_put_get() -> None:
    raw: PriorityQueue[tuple[int, int]] = PriorityQueue()
    for number in range(CYCLES):
        raw.put((number % 10, number))
        raw.get()


def raw_put_all_get_all() -> None:
    raw: PriorityQueue[tuple[int, int]] = PriorityQueue()
    for number in range(CYCLES):
        raw.put((number % 10, number))
    for _ in range(CYCLES):
        raw.get()


def subscribed(queue: Queue, consumers: int, messages: int) -> list[Consumer]:
    subscribers = [Consumer(f"c{number}", WindowCredit(messages)) for number in range(consumers)]
    for consumer in subscribers:
        queue.add_consumer(consumer)
    return subscribers


def offer_deliver_accept() -> None:
    """A worker's window: rows claimed by a store pass through one consumer."""
    queue = Queue()
    (consumer,) = subscribed(queue, consumers=1, messages=100)
    for number, message in enumerate(MESSAGES):
        queue.offer(Entry(message, level=message.priority, arrival=number))
        entry = queue.deliver(consumer, 0.0)
        assert entry is not None
        queue.accept(entry, consumer)


def publish_all_deliver_all(messages: int) -> None:
    """A broker in memory: a backlog of ten levels is drained by four consumers."""
    queue = Queue()
    consumers = subscribed(queue, consumers=4, messages=messages)
    for message in MESSAGES:
        queue.publish(message, 0.0)
    for number in range(CYCLES):
        consumer = consumers[number & 3]
        entry = queue.deliver(consumer, 0.0)
        assert entry is not None
        queue.accept(entry, consumer)


def seconds(work: Callable[[], None]) -> float:
    """The best of three, because the machine is never ours alone."""

    def once() -> float:
        started = perf_counter()
        work()
        return perf_counter() - started

    return min(once() for _ in range(3))


@pytest.mark.benchmark
@pytest.mark.parametrize(
    ("name", "work", "raw"),
    [
        ("window: offer, deliver, accept", offer_deliver_accept, raw_put_get),
        ("broker: window of 100, 4 consumers", lambda: publish_all_deliver_all(100), raw_put_all_get_all),
        ("broker: window of 1, 4 consumers", lambda: publish_all_deliver_all(1), raw_put_all_get_all),
    ],
    ids=["window", "broker-100", "broker-1"],
)
def test_a_cycle_of_the_engine_beside_a_put_and_a_get(
    name: str, work: Callable[[], None], raw: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    engine, reference = seconds(work), seconds(raw)

    with capsys.disabled():
        print(  # noqa: T201
            f"\n{name}: {CYCLES / engine:,.0f} cycles/s,"
            f" {reference / engine:.2f} of queue.PriorityQueue ({CYCLES / reference:,.0f}/s)"
        )
