"""Chords: from just before they are published to the first line of the body."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.results.figures import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.results.bench import ResultBench
    from tests.benchmarks.results.sides import ResultSide
    from tests.benchmarks.store.figures import Judged

WORKER = ("-P", "prefork", "-c", "2")
#: Measure to the members of a chord.
SIZES = {"chord_1000": 1000, "chord_10000": 10_000}
#: The members of a chord that does not count, and of those of a quick run.
FIRST, QUICK = 10, 100


def measure(bench: ResultBench, name: str) -> Iterator[Judged]:
    """Yield the time of a chord, beside Redis's; and the time from its last member to its body."""
    size = bench.amount(SIZES[name], QUICK)
    sides = (bench.redis, bench.ours)
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    ends: dict[str, list[float]] = {side.name: [] for side in sides}
    with bench.ours.worker(*WORKER), bench.redis.worker(*WORKER):
        for side in sides:
            side.chord(FIRST)
        for _ in range(bench.repeats):
            for side in sides:
                took, end = timed(side, size)
                times[side.name].append(took)
                ends[side.name].append(end)
    said = (f"{side} {rounded(times[side])}; end {rounded(ends[side])}" for side in times)
    bench.say(f"{name}: " + ", ".join(said))
    ours, redis = bench.ours.name, bench.redis.name
    yield judged(name, median(times[ours]), "s", limit=median(times[redis]), runs=tuple(times[ours]))
    yield judged(f"{name}_end", max(ends[ours]), "s", runs=tuple(ends[ours]))


def timed(side: ResultSide, size: int) -> tuple[float, float]:
    """Return the seconds to the body of a chord, and those of them after its last member."""
    begin = time.time()
    last, began = side.chord(size)
    return began - begin, began - last


def rounded(values: list[float]) -> str:
    """Return seconds as one reads them."""
    return " ".join(f"{value:.3f}" for value in values)
