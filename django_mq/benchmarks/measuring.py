"""What a measurement yields, how it is judged, and repeats that take turns.

A noisy machine is to be noisy for both sides of a ratio alike: they take turns, and the median counts.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The queue that benchmarks publish into.
QUEUE = "mq_bench"

#: Measures whose ratio to the raw limit should be high.
HIGH = ("publish_one", "publish_many", "drain_one", "drain_two")
#: Measures whose ratio to the raw limit should be low.
LOW = ("pickup_p50", "pickup_p99", "claim_10m_ready", "claim_1m_scheduled", "claim_after_churn")
#: Measures whose value should be low: these have no raw limit.
PLAIN = ("wakeups_per_message", "claims_per_message", "idle_statements", "worker_memory_mib")
NAMES = HIGH + LOW + PLAIN


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure, the raw limit of the same run, and whether it reaches what it should."""

    name: str
    #: None where the database, or the absence of Redis, leaves nothing to measure.
    value: float | None
    unit: str
    limit: float | None
    ratio: float | None
    #: None where this kind of database has none.
    target: float | None
    #: None where there is no target, or nothing to compare with it.
    met: bool | None
    #: The samples behind the value, in the order they were taken.
    runs: tuple[float, ...]

    def judged(self, targets: Mapping[str, float]) -> Measure:
        """Return it with its target: for its ratio or, where it has no limit, for its value."""
        target, figure = targets.get(self.name), self.value if self.name in PLAIN else self.ratio
        if target is None or figure is None:
            return replace(self, target=target, met=None)
        return replace(self, target=target, met=figure >= target if self.name in HIGH else figure <= target)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measured(
    name: str, value: float, unit: str, *, limit: float | None = None, runs: Sequence[float] = ()
) -> Measure:
    """Return the measure of this name, not judged yet."""
    if name in PLAIN or not limit:
        return Measure(name, value, unit, None, None, None, None, tuple(runs))
    return Measure(name, value, unit, limit, value / limit, None, None, tuple(runs))


def unmeasured(name: str, unit: str = "") -> Measure:
    """Return the measure of this name where there is nothing to measure."""
    return Measure(name, None, unit, None, None, None, None, ())


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
