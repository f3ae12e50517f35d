"""Real threads on real queues: nothing is lost, doubled or out of order, and no thread waits for ever.

No thread sleeps, and each does a bounded amount of work. Python is told to switch between them
as often as it can.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from threading import Barrier, Event, Lock, Thread
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.states import State
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.target import Target
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.inprocess.entries.entry import Entry

#: Seconds after which a thread that has not ended is taken to be stuck.
PATIENCE = 120.0

MESSAGES = 1500
PRODUCERS = 2
#: What each manager does before it is done.
ROUNDS = 150


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Crowd:
    """Threads that are all done before anything is asserted, and whose errors are not lost.

    They begin together. ``stopped`` is set when the first ``bounded`` jobs are done.
    """

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.stopped = Event()
        self._lock = Lock()

    def run(self, *jobs: Callable[[], object], bounded: int = 0) -> None:
        self.start = Barrier(len(jobs))
        self.going = bounded
        threads = [
            Thread(target=self.guarded, args=(job, number < bounded), daemon=True)
            for number, job in enumerate(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not self.errors, self.errors
        assert not any(thread.is_alive() for thread in threads), "a thread is stuck"

    def guarded(self, job: Callable[[], object], is_bounded: bool) -> None:
        try:
            self.start.wait(PATIENCE)
            job()
        except BaseException as error:  # noqa: BLE001 (a thread's error would only be printed)
            self.errors.append(error)
        finally:
            with self._lock:
                self.going -= is_bounded
                if self.going <= 0 or self.errors:
                    self.stopped.set()


class Ledger:
    """How each message ended, as its consumer says."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self._lock = Lock()

    def end(self, *names: str) -> None:
        with self._lock:
            self.ended.update(names)


def recount(queue: Queue) -> None:
    """The counters say what looking through the queue says."""
    entries = queue.entries()
    statistics = queue.statistics
    assert statistics.depth == statistics.enqueued - statistics.dequeued == len(entries)
    assert statistics.depth_bytes == sum(entry.message.size for entry in entries)
    states = Counter(entry.state for entry in entries)
    counts = queue.counts()
    assert counts[State.READY] == states[State.READY] + states[State.HELD]
    assert counts[State.CLAIMED] == states[State.CLAIMED] + states[State.STEALABLE]
    assert counts[State.SCHEDULED] == states[State.SCHEDULED]
    assert counts[State.DEAD] == states[State.DEAD]
    assert counts[State.CLAIMED] == len(
        {entry for consumer in queue.consumers() for entry in consumer.unsettled if entry.owner is consumer}
    )


class Worker:
    """A consumer with a thread: it sleeps until it is woken, and pulls until nothing comes."""

    def __init__(self, queue: Queue, name: str, messages: int, **options: object) -> None:
        self.queue = queue
        self.signal = Event()
        self.fresh: list[tuple[int, int]] = []
        self.consumer = Consumer(name, WindowCredit(messages), wake=self.wake, **options)  # type: ignore[arg-type]

    def wake(self, _: Consumer) -> None:
        self.signal.set()

    def pull(self) -> Iterator[Entry]:
        while (entry := self.queue.deliver(self.consumer, 0.0)) is not None:
            assert len(self.consumer.unsettled) <= self.consumer.credit.messages  # type: ignore[attr-defined]
            if not entry.redelivered:
                self.fresh.append((entry.level, entry.arrival))
            yield entry

    def run(self, handle: Callable[[Entry, Consumer], object], is_over: Callable[[], bool]) -> None:
        self.queue.add_consumer(self.consumer)
        while not is_over():
            # A wake-up that is lost ends here, and not in a poll that happens to find the work.
            if self.signal.wait(PATIENCE / 2):
                self.signal.clear()
            for entry in self.pull():
                handle(entry, self.consumer)
        self.queue.remove_consumer(self.consumer)


def check_order(fresh: list[tuple[int, int]], *, only_level: int | None = None) -> None:
    """What one consumer was given for the first time came in order of arrival, level by level."""
    for level in {level for level, _ in fresh}:
        arrivals = [arrival for each, arrival in fresh if each == level]
        assert arrivals == sorted(arrivals)
    assert only_level is None or {level for level, _ in fresh} <= {only_level}


def test_every_message_is_settled_once_by_consumers_that_only_wake_ups_keep_going() -> None:  # noqa: C901
    queue, ledger, crowd = Queue(rules=Rules(levels=4)), Ledger(), Crowd()
    workers = [Worker(queue, f"w{number}", messages=1 + number % 3) for number in range(6)]
    expected = PRODUCERS * MESSAGES

    def produce(producer: int) -> None:
        for number in range(MESSAGES):
            queue.publish(message(f"{producer}-{number}", priority=number % 10, size=3), 0.0)

    def handle(entry: Entry, consumer: Consumer) -> None:
        random = Random(entry.arrival * 7 + entry.claim_number)
        if entry.claim_number < 4 and random.random() < 0.3:
            assert random.choice([queue.release, queue.fail])(entry, consumer, entry.claim_number)
            return
        assert queue.accept(entry, consumer, entry.claim_number)
        ledger.end(entry.message.id)
        if is_over():
            for worker in workers:
                worker.signal.set()

    def is_over() -> bool:
        return ledger.ended.total() >= expected

    def consume(worker: Worker) -> Callable[[], None]:
        return lambda: worker.run(handle, is_over)

    def produces(producer: int) -> Callable[[], None]:
        return lambda: produce(producer)

    crowd.run(*[produces(number) for number in range(PRODUCERS)], *[consume(worker) for worker in workers])

    assert len(ledger.ended) == expected
    assert set(ledger.ended.values()) == {1}
    assert queue.entries() == []
    recount(queue)
    assert queue.statistics.accepted == expected
    for worker in workers:
        check_order(worker.fresh)


def test_managers_among_producers_consumers_and_browsers_lose_and_double_nothing() -> None:  # noqa: C901
    queue, other, ledger, crowd = Queue(), Queue("other"), Ledger(), Crowd()
    produced: list[str] = []
    stopped = crowd.stopped

    def produce(producer: int) -> None:
        for number in range(MESSAGES):
            name = f"{producer}-{number}"
            queue.publish(message(name, priority=number % 10, size=1), 0.0)
            produced.append(name)

    def consume(seed: int, **options: object) -> None:
        random = Random(seed)
        consumer = Consumer(f"c{seed}", WindowCredit(3), **options)  # type: ignore[arg-type]
        queue.add_consumer(consumer)
        while not stopped.is_set() or consumer.unsettled:
            entry = queue.deliver(consumer, 0.0)
            if entry is not None and random.random() < 0.5:
                continue
            for held in list(consumer.unsettled):
                settle(random, held, consumer)
        queue.remove_consumer(consumer)

    def settle(random: Random, entry: Entry, consumer: Consumer) -> None:
        verb = random.choice([queue.accept, queue.accept, queue.release, queue.fail, queue.decline])
        name = entry.message.id
        if verb(entry, consumer) and verb == queue.accept:
            ledger.end(name)
        assert not queue.accept(entry, consumer), "settled twice"

    def browse() -> None:
        while not stopped.is_set():
            browser = Consumer("browser", browser=True)
            queue.add_consumer(browser)
            seen: list[Entry] = []
            while len(seen) < 50 and (entry := queue.deliver(browser, 0.0)) is not None:
                seen.append(entry)
            assert len(seen) == len(set(seen))
            queue.remove_consumer(browser)

    def manage() -> None:
        random = Random(99)
        for _ in range(ROUNDS):
            queue.control.pause()
            entries = list(queue.browse())[:3]
            for entry in entries:
                steer(random, entry)
            queue.control.resume()
            recount_under_lock()

    def steer(random: Random, entry: Entry) -> None:
        act = random.randrange(5)
        if act == 0 and queue.move(entry, other, 0.0):
            return
        if act == 1:
            queue.control.change_priority(entry, random.randrange(10), 0.0)
        if act == 2:
            queue.control.deliver_now(entry)
        if act == 3 and queue.control.remove(entry):
            ledger.end(entry.message.id)
        if act == 4 and random.random() < 0.2:
            ledger.end(*[each.message.id for each in queue.control.purge()])

    def recount_under_lock() -> None:
        with queue.lock:
            recount(queue)

    crowd.run(
        lambda: produce(0),
        lambda: produce(1),
        manage,
        manage,
        lambda: consume(1),
        lambda: consume(2, priority=3),
        lambda: consume(3, stealable=True),
        browse,
        bounded=4,
    )

    last = Consumer("last")
    queue.control.resume()
    queue.add_consumer(last)
    while (entry := queue.deliver(last, 0.0)) is not None:
        ledger.end(entry.message.id)
        assert queue.accept(entry, last)
    ledger.end(*[entry.message.id for entry in queue.entries()])
    ledger.end(*[entry.message.id for entry in other.entries()])
    assert sorted(ledger.ended.elements()) == sorted(produced)
    recount(queue)
    recount(other)


def test_two_queues_of_a_broker_pass_messages_both_ways_and_lose_none() -> None:  # noqa: C901
    broker, ledger, crowd = Broker(), Ledger(), Crowd()
    dead = broker.declare("dead")
    one = broker.declare("one", Rules(dead_letter_queue="dead", max_attempts=2))
    other = broker.declare("other", Rules(dead_letter_queue="dead", max_attempts=2))
    produced: list[str] = []
    stopped = crowd.stopped

    def produce(queue: Queue) -> None:
        for number in range(2 * MESSAGES):
            name = f"{queue.name}-{number}"
            queue.publish(message(name, priority=number % 10), 0.0)
            produced.append(name)

    def move(here: Queue, there: Queue) -> None:
        for _ in range(10 * ROUNDS):
            for entry in list(here.browse())[-3:]:
                here.move(entry, there, 0.0)

    def keep_house() -> None:
        for _ in range(ROUNDS):
            broker.keep_house(0.0)

    def serve(target: Target, seed: int) -> None:
        random = Random(seed)
        for queue in (one, other):
            target.subscribe(queue)
        while not stopped.is_set():
            while (pulled := target.pull(0.0)) is not None:
                consumer, entry = pulled
                with broker.lock:
                    assert sum(len(each.unsettled) for each in target.consumers) <= 4
                home = consumer.queue
                assert home is not None
                if random.random() < 0.5:
                    home.fail(entry, consumer, now=0.0)
                elif home.accept(entry, consumer):
                    ledger.end(entry.message.id)
        target.close()

    crowd.run(
        lambda: produce(one),
        lambda: produce(other),
        lambda: move(one, other),
        lambda: move(other, one),
        lambda: serve(Target(WindowCredit(4)), 1),
        lambda: serve(Target(WindowCredit(4)), 2),
        lambda: serve(Target(WindowCredit(4)), 3),
        keep_house,
        bounded=4,
    )

    for queue in broker:
        recount(queue)
        assert queue.consumers() == []
        ledger.end(*[entry.message.id for entry in queue.entries()])
    assert sorted(ledger.ended.elements()) == sorted(produced)
    assert all(entry.attempts == 0 for entry in dead.entries())
