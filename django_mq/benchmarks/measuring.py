"""Repeats that take turns, so that a noisy machine is noisy for all alike."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: The queue that benchmarks publish into.
QUEUE = "mq_bench"


@dataclass(slots=True)
class Result:
    """One line of the report: a figure, its limit in the same run, and the mark it should reach."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    limit_name: str = ""
    mark: str = ""
    reached: bool | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return None if not self.limit else self.value / self.limit

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio}


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


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
