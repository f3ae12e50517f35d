"""How many steps an operation takes in a small queue and in a large one.

Steps are counted, not timed, so that a busy machine does not decide: every call of a function,
in Python or in C, is one. The queues of up to 20,000 entries belong to the ordinary suite:

    pytest tests/benchmarks/test_engine_steps.py -m once    # 200,000
"""

from __future__ import annotations

import gc
import sys
from functools import lru_cache
from math import log10
from typing import TYPE_CHECKING, Any, Final

import pytest

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.message import Message
from django_mq.engine.selector import Selector
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SMALL: Final = 2_000

#: A bisection of ten times as many entries looks four times more often; there may be two of them.
LOOKS_PER_TENFOLD: Final = 8

LARGE: Final = [20_000, pytest.param(200_000, marks=pytest.mark.once)]

KINDS: Final = {
    "priority": Rules(),
    "places kept": Rules(due_first=False),
    "fifo": Rules(kind="fifo"),
    "sorted": Rules(kind="sorted", key="key"),
    "last value": Rules(kind="last_value", key="key"),
}


def more_looks(size: int) -> int:
    """How many more steps than in a small queue its searches may take in one of this size."""
    return LOOKS_PER_TENFOLD * round(log10(size / SMALL))


def steps(work: Callable[[], object]) -> int:
    """The calls made by this work, its own not counted."""
    count = 0

    def watch(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # what a collection finds and calls has nothing to do with the work
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count - 2  # the work itself, and the end of the watch


def worst(work: Callable[[], object], times: int = 30) -> int:
    return max(steps(work) for _ in range(times))


@lru_cache(maxsize=2 * 100_000)
def made(number: int, priority: int, deliver_at: float | None) -> Message:
    """Making messages would take most of the time."""
    # Neither ascending nor descending, and no two alike.
    key = f"{number * 7919 % 10_000_019:08}"
    return Message(id=str(number), priority=priority, headers={"key": key}, deliver_at=deliver_at)


class Scene:
    """A queue of so many messages, a consumer that works, and what else is there."""

    def __init__(self, size: int, rules: Rules | None = None, *, scheduled: int = 0) -> None:
        self.queue = Queue(rules=rules or Rules())
        self.published = 0
        for _ in range(size):
            self.publish()
        for number in range(scheduled):
            self.publish(deliver_at=1e6 + number)
        self.consumer = self.subscribe("worker")

    def subscribe(self, name: str, messages: int | None = None, **options: Any) -> Consumer:
        consumer = Consumer(name, WindowCredit(messages), **options)
        self.queue.add_consumer(consumer)
        return consumer

    def publish(self, priority: int | None = None, *, deliver_at: float | None = None) -> None:
        self.published = number = self.published + 1
        self.queue.publish(made(number, number % 10 if priority is None else priority, deliver_at), 0.0)

    def pass_through(self) -> None:
        entry = self.queue.deliver(self.consumer, 0.0)
        assert entry is not None
        assert self.queue.accept(entry, self.consumer)

    def give_back(self) -> None:
        entry = self.queue.deliver(self.consumer, 0.0)
        assert entry is not None
        assert self.queue.release(entry, self.consumer)

    def postpone(self) -> None:
        entry = self.queue.deliver(self.consumer, 0.0)
        assert entry is not None
        assert self.queue.fail(entry, self.consumer, retry_at=5e5, now=0.0)

    def urge(self) -> None:
        self.publish(priority=9)

    def ask(self) -> None:
        self.queue.counts()
        list(self.queue.contents.dispatch.ready.heads())
        self.queue.next_time()


WORK: Final[dict[str, Callable[[Scene], object]]] = {
    "publish": Scene.publish,
    "publish with the highest priority": Scene.urge,
    "deliver and accept": Scene.pass_through,
    "deliver and release the oldest": Scene.give_back,
    "deliver and fail until later": Scene.postpone,
    "count": Scene.ask,
}


def measure(scene: Scene) -> dict[str, int]:
    return {name: worst(lambda work=work: work(scene)) for name, work in WORK.items()}  # type: ignore[misc]


def assert_no_dearer(small: dict[str, int], large: dict[str, int], more: int) -> None:
    dearer = {name: (small[name], large[name]) for name in small if large[name] > small[name] + more}
    assert not dearer


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_in_a_large_queue_costs_what_it_costs_in_a_small_one(kind: str, size: int) -> None:
    small, large = (measure(Scene(each, KINDS[kind])) for each in (SMALL, size))

    # A sorted list is searched at every arrival and departure, twice in the longest of these works.
    assert_no_dearer(small, large, 2 * more_looks(size) if kind == "sorted" else more_looks(size))
    assert max(large.values()) < 200


@pytest.mark.parametrize("size", LARGE)
def test_what_is_scheduled_costs_the_others_nothing(size: int) -> None:
    few, many = (measure(Scene(SMALL, scheduled=each)) for each in (SMALL, size))

    assert_no_dearer(few, many, more_looks(size))


@pytest.mark.parametrize("size", LARGE)
def test_one_more_scheduled_message_costs_the_same_among_many(size: int) -> None:
    def cost(scheduled: int) -> int:
        scene = Scene(0, scheduled=scheduled)
        return worst(lambda: scene.publish(deliver_at=1e6 + scheduled / 2))

    assert cost(size) <= cost(SMALL) + 2 * more_looks(size)


@pytest.mark.parametrize("size", LARGE)
def test_promoting_costs_as_much_as_is_due(size: int) -> None:
    def cost(scheduled: int) -> float:
        scene, due_at = Scene(0, scheduled=scheduled), 1e6
        return worst(lambda: scene.queue.promote(due_at, most=10), times=10)

    assert cost(size) <= cost(SMALL) + 10 * more_looks(size)


def test_consumers_without_credit_cost_nothing() -> None:
    alone, crowded = Scene(SMALL), Scene(SMALL)
    for number in range(100):
        consumer = crowded.subscribe(str(number), 1)
        assert crowded.queue.deliver(consumer, 0.0) is not None

    assert_no_dearer(measure(alone), measure(crowded), 0)


def test_idle_consumers_cost_no_more_when_there_are_many() -> None:
    def cost(consumers: int) -> int:
        scene = Scene(0)
        for number in range(consumers):
            scene.subscribe(str(number))

        def work() -> None:
            scene.publish()
            scene.pass_through()

        return worst(work)

    cost(10)  # only making the messages, which the others then find made
    assert cost(100) <= cost(10)


def test_an_arrival_costs_a_look_for_each_consumer_that_has_a_position_and_no_more() -> None:
    def cost(consumers: int) -> int:
        scene = Scene(1000)
        for number in range(consumers):
            picky = scene.subscribe(str(number), selector=Selector("key = 'nothing'"))
            assert scene.queue.deliver(picky, 0.0) is None
        return worst(scene.urge)

    few, many = cost(10), cost(100)

    assert many < 10.5 * few


@pytest.mark.parametrize("size", LARGE)
def test_a_consumer_that_has_passed_a_large_queue_does_not_pass_it_again(size: int) -> None:
    def cost(entries: int) -> int:
        scene = Scene(entries)
        picky = scene.subscribe("picky", selector=Selector("priority = 9 AND color = 'red'"))
        assert scene.queue.deliver(picky, 0.0) is None

        def work() -> None:
            scene.give_back()
            scene.urge()
            assert scene.queue.deliver(picky, 0.0) is None

        return worst(work)

    assert cost(size) <= cost(SMALL) + 4 * more_looks(size)


@pytest.mark.parametrize("size", LARGE)
def test_removing_from_the_middle_costs_a_search(size: int) -> None:
    def cost(entries: int) -> int:
        scene = Scene(entries)
        middle = list(scene.queue.browse())[entries // 2 : entries // 2 + 30]
        return worst(lambda: scene.queue.control.remove(middle.pop()))

    assert cost(size) <= cost(SMALL) + 2 * more_looks(size)


@pytest.mark.parametrize("size", LARGE)
def test_moving_one_message_to_another_level_costs_the_same_in_a_large_queue(size: int) -> None:
    def cost(entries: int) -> int:
        scene = Scene(entries)
        low = list(scene.queue.browse())[-30:]
        return worst(lambda: scene.queue.control.change_priority(low.pop(), 9, 0.0))

    assert cost(size) <= cost(SMALL) + 2 * more_looks(size)
