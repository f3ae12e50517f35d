"""Waiting for results: ``delay().get()``, and ``call()``."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.celery.sides import running
from tests.benchmarks.results.figures import judged
from tests.benchmarks.results.raw import RawRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.results.bench import ResultBench
    from tests.benchmarks.store.figures import Judged

#: Measure to the options of the workers.
POOLS = {"get_prefork": ("-P", "prefork", "-c", "2"), "get_solo": ("-P", "solo")}
#: Requests of a turn, one after the other.
TURN = 10
#: Turns that do not count.
WARM_UP = 4


def measure_get(bench: ResultBench, name: str) -> Iterator[Judged]:
    """Yield the time of ``delay().get()``, beside the raw loop; and say that of Redis."""
    raw = RawRequests()
    options = POOLS[name]
    try:
        with bench.ours.worker(*options), bench.redis.worker(*options), raw.worker():
            times = taken(bench, raw=raw.get, redis=bench.redis.get, ours=bench.ours.get)
            raw.empty()
    finally:
        raw.close()
    yield reported(bench, name, times)


def measure_call(bench: ResultBench, name: str) -> Iterator[Judged]:
    """Yield the time of ``call()``, beside the raw loop."""
    from django_mq.api import call
    from django_mq.benchmarks.measures import QUEUE
    from django_mq.delivery.queues import declare
    from django_mq.stores.registry import shared_store

    declare(shared_store("default"), QUEUE)
    raw = RawRequests()

    def ours(number: int) -> None:
        assert call(QUEUE, number, timeout_seconds=60) == number

    try:
        with ExitStack() as stack:
            stack.enter_context(running([sys.executable, "-m", "tests.benchmarks.results.answering"], {}))
            stack.enter_context(raw.worker())
            times = taken(bench, raw=raw.get, ours=ours)
            raw.empty()
    finally:
        raw.close()
    yield reported(bench, name, times)


def taken(bench: ResultBench, **sides: Callable[[int], None]) -> dict[str, list[float]]:
    """Let the sides take turns; return the milliseconds of each request."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(bench.amount(40, 4) * bench.repeats // 3 + WARM_UP):
        for side, get in sides.items():
            for number in range(TURN):
                begin = time.perf_counter()
                get(number)
                if turn >= WARM_UP:
                    times[side].append((time.perf_counter() - begin) * 1000)
    return times


def reported(bench: ResultBench, name: str, times: dict[str, list[float]]) -> Judged:
    """Return the medians of ours and of the raw loop."""
    middle = {side: median(values) for side, values in times.items()}
    bench.say(f"{name}: " + ", ".join(f"{side} {value:.2f} ms" for side, value in middle.items()))
    return judged(name, middle["ours"], "ms", limit=middle["raw"], runs=tuple(times["ours"]))
