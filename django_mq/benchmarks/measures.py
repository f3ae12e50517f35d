"""Measure publish, drain and pick-up, each beside plain SQL.

The two sides take turns, so that a busy machine slows both alike, and the median counts.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.plain_sql import BATCH, PlainSQL
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.publisher import publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: The queue that benchmarks publish into.
QUEUE = "mq_bench"
#: Rounds of single publishes and the raw loop: many, because short runs vary most.
ROUNDS = 5
#: Rounds of the other measures.
REPEATS = 3
#: Seconds between two samples. Ten milliseconds after a message the worker writes its settlement, and a
#: publish at that moment would wait for the commit.
PAUSE_SECONDS = 0.03
#: Seconds after which a pick-up fails.
PATIENCE_SECONDS = 30.0
#: Pick-ups that open connections and do not count.
WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure, and the raw limit of the same run."""

    name: str
    #: None if the database has nothing to measure, or Redis is absent.
    value: float | None
    unit: str
    limit: float | None = None
    #: The samples behind the value, in the order they were taken.
    runs: Sequence[float] = ()

    @property
    def ratio(self) -> float | None:
        """The value's ratio to its limit; None without a limit."""
        return self.value / self.limit if self.value is not None and self.limit else None


@contextmanager
def bench_queue(alias: str) -> Iterator[None]:
    """Declare the queue; at the end delete it with its messages and history."""
    store = shared_store(alias)
    declare(store, QUEUE)
    try:
        yield
    finally:
        # A killed worker has left claims; its deadline is not awaited.
        held = Message.objects.using(alias).filter(queue__name=QUEUE, state=Message.Status.CLAIMED)
        store.operations.release_held(list(held.values_list("id", flat=True)))
        store.deletions.delete_queue(QUEUE, force=True)
        History.objects.using(alias).filter(queue_name=QUEUE).delete()


def measure(alias: str, tenths: int) -> Iterator[Measure]:
    """Yield all figures; ``tenths`` is the share of the full amounts."""
    singles, many = 200 * tenths // ROUNDS, 2000 * tenths
    with bench_queue(alias):
        plain, store, worker = PlainSQL(alias, QUEUE), shared_store(alias), draining_worker

        def drained(load: Callable[[int], object], drain: Callable[[], object]) -> float:
            store.deletions.purge(QUEUE)
            load(many)
            return rate(many, drain)

        yield compared(
            "publish_one",
            REPEATS * ROUNDS,
            ours=lambda: rate(singles, lambda: publish_singles(alias, singles)),
            raw=lambda: rate(singles, lambda: plain.insert(singles)),
        )
        store.deletions.purge(QUEUE)
        yield compared(
            "publish_many",
            REPEATS,
            ours=lambda: rate(many, lambda: fill(alias, many)),
            raw=lambda: rate(many, lambda: plain.load(many)),
        )
        yield compared(
            "drain",
            REPEATS,
            ours=lambda: drained(lambda amount: fill(alias, amount), lambda: worker(alias).run(until_empty=True)),
            raw=lambda: drained(plain.load, plain.drain),
        )
        samples = 20 * tenths
        limits = [1000 / rate(1, plain.pass_one) for _ in range(samples)]
        waits = pick_ups(alias, samples)
        ours, raw = (statistics.quantiles(some, n=100) for some in (waits, limits))
        for percent in (50, 99):
            yield Measure(f"pickup_p{percent}", ours[percent - 1], "ms", raw[percent - 1], waits)


def compared(name: str, repeats: int, **sides: Callable[[], float]) -> Measure:
    """Let ``ours`` and, if given, ``raw`` take turns; return the median rates of both."""
    samples = take_turns(repeats, **sides)
    limit = statistics.median(samples["raw"]) if "raw" in samples else None
    return Measure(name, statistics.median(samples["ours"]), "messages/s", limit, samples["ours"])


def take_turns(repeats: int, **sides: Callable[[], float]) -> dict[str, list[float]]:
    """Call each side once per round; return the figures of each."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            samples[name].append(side())
    return samples


def rate(amount: int, work: Callable[[], object]) -> float:
    """Return how many of ``amount`` per second ``work`` does."""
    begin = time.perf_counter()
    work()
    return amount / (time.perf_counter() - begin)


def publish_singles(alias: str, amount: int) -> None:
    """Publish one by one, each in its own transaction."""
    for number in range(amount):
        publish(QUEUE, {"n": number}, using=alias)


def fill(alias: str, amount: int) -> None:
    """Publish in batches."""
    for start in range(0, amount, BATCH):
        publish_many([(QUEUE, {"n": number}) for number in range(start, min(start + BATCH, amount))], using=alias)


def draining_worker(alias: str, *, credit: int = BATCH, threads: int = 1) -> Worker:
    """Return a worker with an empty handler, which claims as many at once as the raw loop."""
    return _worker(alias, lambda _: None, credit=credit, threads=threads)


def _worker(alias: str, function: Callable[[Any], object], credit: int, threads: int = 1) -> Worker:
    handler = Handler(queue=QUEUE, function=function, credit=credit, time_limit_seconds=None)
    return Worker([handler], threads=threads, using=alias)


class Stopwatch:
    """Measures the time until a message arrives."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._at = 0.0

    def stamp(self, *_: object) -> None:
        """Store the time of arrival."""
        self._at = time.perf_counter()
        self._arrived.set()

    def waits(self, send: Callable[[], object], samples: int) -> list[float]:
        """Send ``samples`` messages, and return the milliseconds until each arrival. Raises RuntimeError."""
        waits = []
        for _ in range(samples + WARM_UP):
            self._arrived.clear()
            begin = time.perf_counter()
            send()
            if not self._arrived.wait(PATIENCE_SECONDS):
                raise RuntimeError("A message of the benchmark did not arrive.")
            waits.append((self._at - begin) * 1000)
            time.sleep(PAUSE_SECONDS)
        return waits[WARM_UP:]


def pick_ups(alias: str, samples: int) -> list[float]:
    """Return the milliseconds from each publish to the first line of an idle worker's handler."""
    clock = Stopwatch()
    worker = _worker(alias, clock.stamp, credit=20)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        return clock.waits(lambda: publish(QUEUE, {"n": 1}, using=alias), samples)
    finally:
        worker.stop()
        thread.join()
