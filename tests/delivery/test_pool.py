"""Threads that pull attempts: slots, time limits, and the end."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.pool import Pool
from django_mq.engine.decisions.verdict import Verdict
from tests.delivery.builders import a_claimed, a_handler, a_policy
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.records import Settlement


class Counter:
    """Hands out attempts and takes settlements."""

    def __init__(self) -> None:
        self.waiting: deque[Delivery] = deque()
        self.done: list[tuple[Delivery, Settlement]] = []

    def add(self, function: Callable[[Any], Any], *, time_limit_seconds: float | None = None) -> Delivery:
        handler = a_handler(function, time_limit_seconds=time_limit_seconds)
        attempt = Delivery(a_claimed(), handler, a_policy())
        self.waiting.append(attempt)
        return attempt

    def next(self) -> Delivery | None:
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def finish(self, attempt: Delivery, settlement: Settlement) -> None:
        self.done.append((attempt, settlement))


@contextmanager
def pool_of(slots: int, counter: Counter) -> Iterator[Pool]:
    pool = Pool(slots, next_attempt=counter.next, on_done=counter.finish, on_idle=lambda: None)
    try:
        yield pool
    finally:
        pool.stop()


def test_as_many_attempts_run_at_a_time_as_there_are_slots() -> None:
    counter, together, gate = Counter(), threading.Barrier(3), threading.Event()

    def handle(_: Any) -> None:
        together.wait(PATIENCE_SECONDS)
        gate.wait(PATIENCE_SECONDS)

    for _ in range(4):
        counter.add(handle)
    with pool_of(3, counter) as pool:
        wait_until(lambda: together.n_waiting == 0 and pool.running == 3)
        assert (pool.free, len(counter.waiting)) == (0, 1)

        counter.waiting.clear()
        gate.set()
        wait_until(lambda: len(counter.done) == 3)
        assert pool.free == 3


def test_an_idle_thread_begins_when_it_is_woken() -> None:
    counter = Counter()
    with pool_of(1, counter) as pool:
        counter.add(lambda _: None)
        pool.wake()

        wait_until(lambda: counter.done)


def test_as_many_idle_threads_wake_as_there_are_messages() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(threading.get_ident())

    pool = Pool(4, next_attempt=look, on_done=lambda *_: None, on_idle=lambda: None)
    try:
        wait_until(lambda: pool._parked == 4)
        looks.clear()
        pool.wake(2)
        wait_until(lambda: len(looks) >= 2 and pool._parked == 4)

        assert len(looks) == 2
    finally:
        pool.stop()


def test_who_offers_messages_waits_for_no_thread_for_long() -> None:
    looking, go_on = threading.Event(), threading.Event()

    def look() -> None:
        if woken:
            looking.set()
            go_on.wait(PATIENCE_SECONDS)

    woken: list[bool] = []
    pool = Pool(1, next_attempt=look, on_done=lambda *_: None, on_idle=lambda: None)
    try:
        woken.append(True)
        pool.wake(patient=True)
        assert looking.wait(PATIENCE_SECONDS)
        pool.wake(patient=True)
        assert not go_on.is_set()
    finally:
        go_on.set()
        pool.stop()


def test_a_handler_that_never_returns_is_given_up_and_others_go_on() -> None:
    counter, never = Counter(), threading.Event()
    stuck = counter.add(lambda _: never.wait(PATIENCE_SECONDS), time_limit_seconds=0.01)
    with pool_of(1, counter) as pool:
        given_up = wait_until(pool.abandon_overdue)

        counter.add(lambda _: None)
        pool.wake()
        wait_until(lambda: counter.done)
        never.set()

    ((attempt, settlement),) = given_up
    assert attempt is stuck
    assert settlement.failure is not None
    assert (settlement.verdict, settlement.failure.error) == (Verdict.RELEASE, "HandlerTimeout")
    assert stuck not in [attempt for attempt, _ in counter.done]


def test_threads_of_handlers_that_never_return_are_replaced_up_to_a_bound() -> None:
    counter, never, before = Counter(), threading.Event(), set(threading.enumerate())
    for _ in range(20):
        counter.add(lambda _: never.wait(PATIENCE_SECONDS), time_limit_seconds=0.01)
    with pool_of(5, counter) as pool:
        wait_until(lambda: pool.abandon_overdue() and pool.exhausted)
        wait_until(lambda: not pool.abandon_overdue() and not pool.running)

        # The first four were replaced; with the fifth, the bound was reached.
        assert (pool.abandoned, len(counter.waiting)) == (9, 11)
        assert len(set(threading.enumerate()) - before) == 9

        never.set()
        wait_until(lambda: not pool.abandoned)
    assert not pool.exhausted


def test_an_outcome_that_comes_after_the_time_limit_is_ignored() -> None:
    counter, gate, left = Counter(), threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        gate.wait(PATIENCE_SECONDS)
        left.set()

    counter.add(handle, time_limit_seconds=0.01)
    with pool_of(1, counter) as pool:
        wait_until(pool.abandon_overdue)
        before = threading.active_count()
        gate.set()

        assert left.wait(PATIENCE_SECONDS)
        wait_until(lambda: threading.active_count() < before, "the given up thread to end")
    assert counter.done == []


def test_a_time_limit_that_is_not_over_leaves_the_attempt_alone() -> None:
    counter, gate = Counter(), threading.Event()
    attempt = counter.add(lambda _: gate.wait(PATIENCE_SECONDS), time_limit_seconds=3600)
    with pool_of(1, counter) as pool:
        wait_until(lambda: pool.running)
        [(running, _, deadline)] = pool._running.values()
        assert running is attempt
        assert deadline is not None
        assert deadline > time.monotonic()

        assert pool.abandon_overdue() == []
        gate.set()


def test_what_is_disowned_is_never_settled_and_its_slot_is_free() -> None:
    counter, gate = Counter(), threading.Event()
    counter.add(lambda _: gate.wait(PATIENCE_SECONDS))
    with pool_of(1, counter) as pool:
        wait_until(lambda: pool.running)

        pool.disown()
        counter.add(lambda _: None)
        pool.wake()
        wait_until(lambda: counter.done)
        gate.set()

    assert len(counter.done) == 1


def test_a_stopped_pool_begins_nothing() -> None:
    counter, gate = Counter(), threading.Event()
    counter.add(lambda _: gate.wait(PATIENCE_SECONDS))
    with pool_of(1, counter) as pool:
        wait_until(lambda: pool.running)
        counter.add(lambda _: None)

        pool.stop()
        gate.set()
        wait_until(lambda: counter.done)

    assert len(counter.waiting) == 1


def test_an_exit_in_a_handler_does_not_end_its_thread() -> None:
    counter = Counter()

    def leave(_: Any) -> None:
        raise SystemExit

    for _ in range(3):
        counter.add(leave)
    with pool_of(1, counter):
        wait_until(lambda: len(counter.done) == 3)
