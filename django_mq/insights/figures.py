"""Histograms of durations, and a forecast of the day on which a queue has more work than its workers can do.

Histograms can be added up, percentiles cannot. There are eight buckets to each doubling, from a millisecond on. A
bucket is nine percent wide, and so is the largest error of a percentile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, floor, log2
from statistics import linear_regression
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

PER_DOUBLING = 8
LEAST_SECONDS = 0.001
SECONDS_OF_A_DAY = 86400.0
#: The fewest days that show a trend, and the furthest day of a forecast.
FEWEST_DAYS = 3
FURTHEST_DAYS = 730


def bucket(seconds: float) -> int:
    """Return the bucket of a duration. The first one includes all shorter ones.

    >>> bucket(0), bucket(0.001), bucket(0.002), bucket(1)
    (0, 0, 8, 79)
    """
    return floor(PER_DOUBLING * log2(max(seconds, LEAST_SECONDS) / LEAST_SECONDS))


def middle(number: int) -> float:
    """Return the duration in the middle of a bucket, in seconds."""
    return float(LEAST_SECONDS * 2.0 ** ((number + 0.5) / PER_DOUBLING))


def merged(texts: Iterable[str]) -> dict[str, int]:
    """Return the sum of histograms in JSON. They are decoded in one go, which is faster for thousands of hours."""
    total: dict[str, int] = {}
    counted = total.get
    for one in json.loads(f"[{','.join(texts)}]"):
        for number, count in one.items():
            total[number] = counted(number, 0) + count
    return total


def durations(histogram: Mapping[str, int]) -> dict[float, int]:
    """Return the durations in the middle of the buckets, in seconds, and how often each occurs."""
    return {middle(int(number)): count for number, count in histogram.items()}


@dataclass(frozen=True, slots=True)
class Day:
    """A day: messages, their mean run time, and the number of workers."""

    arrivals: int
    run_seconds: float
    consumers: int

    @property
    def load(self) -> float | None:
        """The share of the workers' time that the messages took; 1 is all of it."""
        if not self.consumers:
            return None
        return self.arrivals * self.run_seconds / (self.consumers * SECONDS_OF_A_DAY)


def outgrown(days: Mapping[date, Day]) -> date | None:
    """Return the day on which the linear trend of the load reaches 1, or the last day if its load has.

    None if the load does not rise, or not soon.
    """
    loads = {day: load for day, item in days.items() if (load := item.load) is not None}
    if not loads:
        return None
    last = max(loads)
    if loads[last] >= 1:
        return last
    if len(loads) < FEWEST_DAYS:
        return None
    slope, now = linear_regression([(day - last).days for day in loads], [*loads.values()])
    if slope <= 0:
        return None
    ahead = (1 - now) / slope
    return last + timedelta(days=ceil(ahead - 1e-6)) if 0 <= ahead <= FURTHEST_DAYS else None
