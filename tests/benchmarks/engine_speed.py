"""What the queue model costs, beside what the standard library offers for the same: a tool, and no test.

Use it as ``python -m tests.benchmarks.engine_speed``.

Each figure is a ratio of two medians, measured in turn in the same run, in processor time: the
machine is never ours alone.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import deque
from heapq import heappop, heappush
from queue import PriorityQueue
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.message import Message
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

#: Cycles in one measurement: about a twentieth of a second each.
CYCLES = 20_000

REPEATS = 9

MESSAGES = [Message(id=str(number), priority=number % 10, size=10) for number in range(CYCLES)]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def put_and_get_in_turn() -> None:
    raw: PriorityQueue[tuple[int, int]] = PriorityQueue()
    for number in range(CYCLES):
        raw.put((number % 10, number))
        raw.get()


def put_all_get_all() -> None:
    raw: PriorityQueue[tuple[int, int]] = PriorityQueue()
    for number in range(CYCLES):
        raw.put((number % 10, number))
    for _ in range(CYCLES):
        raw.get()


def four_consumers(queue: Queue, window: int) -> list[Consumer]:
    consumers = [Consumer(f"c{number}", WindowCredit(window)) for number in range(4)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    return consumers


def one_after_the_other(window: int) -> None:
    """A broker that keeps up: every message is delivered and accepted before the next comes."""
    queue = Queue()
    consumers = four_consumers(queue, window)
    for number, message in enumerate(MESSAGES):
        consumer = consumers[number & 3]
        queue.publish(message, 0.0)
        entry = queue.deliver(consumer, 0.0)
        assert entry is not None
        queue.accept(entry, consumer)


def a_backlog(window: int) -> None:
    """A broker that is behind: ten full levels are drained by four consumers."""
    queue = Queue()
    consumers = four_consumers(queue, window)
    for message in MESSAGES:
        queue.publish(message, 0.0)
    for number in range(CYCLES):
        consumer = consumers[number & 3]
        entry = queue.deliver(consumer, 0.0)
        assert entry is not None
        queue.accept(entry, consumer)


def entries_offered() -> None:
    """Entries made elsewhere pass through one consumer."""
    queue = Queue()
    (consumer, *_) = four_consumers(queue, 100)
    for number, message in enumerate(MESSAGES):
        queue.offer(Entry(message, level=message.priority, arrival=number))
        entry = queue.deliver(consumer, 0.0)
        assert entry is not None
        queue.accept(entry, consumer)


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = process_time()
    work()
    return process_time() - started


def in_turn(*works: Callable[[], object]) -> list[float]:
    """The median time of each, all measured in turn."""
    rounds = [[seconds(work) for work in works] for _ in range(REPEATS)]
    return [median(times) for times in zip(*rounds, strict=True)]


def compare_a_message_with_a_put_and_a_get() -> None:
    modes: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "backlog, 4 consumers, window 100": (lambda: a_backlog(100), put_all_get_all),
        "backlog, 4 consumers, window 10": (lambda: a_backlog(10), put_all_get_all),
        "backlog, 4 consumers, window 1": (lambda: a_backlog(1), put_all_get_all),
        "in turn, 4 consumers, window 10": (lambda: one_after_the_other(10), put_and_get_in_turn),
        "entries offered, 1 consumer, window 100": (entries_offered, put_and_get_in_turn),
    }
    for name, (work, raw) in modes.items():
        engine, reference = in_turn(work, raw)
        say(
            f"{name}: {CYCLES / engine:,.0f} messages/s, {reference / engine:.2f} of"
            f" queue.PriorityQueue ({CYCLES / reference:,.0f} pairs/s)"
        )


def cycle_at(size: int) -> Callable[[], None]:
    """Publish, deliver and accept, so many times, in a queue that holds ``size`` more."""
    queue = Queue()
    consumers = four_consumers(queue, 100)
    for number in range(size):
        queue.publish(MESSAGES[number % CYCLES], 0.0)

    def cycles() -> None:
        for number, message in enumerate(MESSAGES):
            consumer = consumers[number & 3]
            queue.publish(message, 0.0)
            entry: Any = queue.deliver(consumer, 0.0)
            queue.accept(entry, consumer)

    return cycles


def deque_at(size: int) -> Callable[[], None]:
    line = deque(range(size))

    def cycles() -> None:
        for number in range(CYCLES):
            line.append(number)
            line.popleft()

    return cycles


def heap_at(size: int) -> Callable[[], None]:
    heap = [(number % 10, number) for number in range(size)]
    heap.sort()

    def cycles() -> None:
        for number in range(CYCLES):
            heappush(heap, (number % 10, size + number))
            heappop(heap)

    return cycles


def compare_a_hundred_times_the_backlog() -> None:
    for name, at in {"engine": cycle_at, "raw deque": deque_at, "raw heap": heap_at}.items():
        small, large = in_turn(at(10_000), at(1_000_000))
        say(f"{name}: a cycle at 1,000,000 entries costs {large / small:.2f} of one at 10,000")


def measure_the_memory_of_a_waiting_entry() -> None:
    queue = Queue()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for message in MESSAGES:
        queue.publish(message, 0.0)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    each = (after - before) / CYCLES
    say(f"{each:.0f} bytes for a waiting entry beyond its message; at most 400 are wanted")


if __name__ == "__main__":
    compare_a_message_with_a_put_and_a_get()
    compare_a_hundred_times_the_backlog()
    measure_the_memory_of_a_waiting_entry()
