"""What a measurement yields, what it should reach, and repeats that take turns.

A noisy machine is to be noisy for both sides of a ratio alike: they take turns, and the median counts.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The queue that benchmarks publish into.
QUEUE = "mq_bench"

#: Measure to the least ratio of its value to the raw limit.
AT_LEAST = {
    "publish_one": 0.75,
    "publish_many": 0.5,
    "drain_one": 0.6,
    "drain_two": 0.6,
}
#: Measure to the greatest ratio of its value to the raw limit.
AT_MOST = {
    "pickup_p50": 1.5,
    "pickup_p99": 3.0,
    "claim_10m_ready": 1.15,
    "claim_1m_scheduled": 1.15,
    "claim_after_churn": 1.5,
}
#: Measure to the greatest value: these have no raw limit.
BOUNDS = {
    "wakeups_per_message": 1.05,
    "claims_per_message": 1.1,
    "idle_statements": 60.0,
    "worker_memory_mib": 20.0,
}
NAMES = (*AT_LEAST, *AT_MOST, *BOUNDS)


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure, the raw limit of the same run, and whether it reaches what it should."""

    name: str
    #: None where the database, or the absence of Redis, leaves nothing to measure.
    value: float | None
    unit: str
    limit: float | None
    ratio: float | None
    target: float
    #: None where there is nothing to compare with.
    met: bool | None
    #: The samples behind the value, in the order they were taken.
    runs: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measured(
    name: str, value: float, unit: str, *, limit: float | None = None, runs: Sequence[float] = ()
) -> Measure:
    """Return the measure of this name, judged: its ratio to the limit, or the value itself, against its target."""
    if name in BOUNDS:
        return Measure(name, value, unit, None, None, BOUNDS[name], value <= BOUNDS[name], tuple(runs))
    ratio = value / limit if limit else None
    target = (AT_LEAST | AT_MOST)[name]
    met = None if ratio is None else (ratio >= target if name in AT_LEAST else ratio <= target)
    return Measure(name, value, unit, limit, ratio, target, met, tuple(runs))


def unmeasured(name: str, unit: str = "") -> Measure:
    """Return the measure of this name where there is nothing to measure."""
    return Measure(name, None, unit, None, None, (AT_LEAST | AT_MOST | BOUNDS)[name], None, ())


def rate(amount: int, work: Callable[[], object]) -> float:
    """Return how many per second ``work`` does."""
    begin = time.perf_counter()
    work()
    return amount / (time.perf_counter() - begin)


def take_turns(repeats: int, **measures: Callable[[], float]) -> dict[str, list[float]]:
    """Run each measure once per round; return the figures of each."""
    samples: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeats):
        for name, measure in measures.items():
            samples[name].append(measure())
    return samples


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
