"""Durations in buckets that can be added up: eight to each doubling, from a millisecond on.

Percentiles of hours cannot be made into those of a week; histograms can. A bucket is nine
percent wide, so a percentile that is read from one is at most so far off.
"""

from __future__ import annotations

import json
from math import floor, log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PER_DOUBLING = 8
LEAST_SECONDS = 0.001


def bucket(seconds: float) -> int:
    """Return the bucket of a duration; what is shorter than a millisecond is in the first.

    >>> bucket(0), bucket(0.001), bucket(0.002), bucket(1)
    (0, 0, 8, 79)
    """
    return floor(PER_DOUBLING * log2(max(seconds, LEAST_SECONDS) / LEAST_SECONDS))


def middle(number: int) -> float:
    """Return the duration in the middle of a bucket, in seconds."""
    return float(LEAST_SECONDS * 2.0 ** ((number + 0.5) / PER_DOUBLING))


def merged(texts: Iterable[str]) -> dict[str, int]:
    """Return the sum of histograms, each as JSON.

    All are read at once: weeks of hours are tens of thousands, and each alone would cost as much as its
    buckets do.
    """
    total: dict[str, int] = {}
    counted = total.get
    for one in json.loads(f"[{','.join(texts)}]"):
        for number, count in one.items():
            total[number] = counted(number, 0) + count
    return total


def percentile(histogram: Mapping[str, int], percent: float) -> float | None:
    """Return the duration that so many percent do not exceed, in seconds; None of nothing."""
    wanted = sum(histogram.values()) * percent / 100
    seen = 0
    for number in sorted(map(int, histogram)):
        seen += histogram[str(number)]
        if seen >= wanted:
            return middle(number)
    return None
