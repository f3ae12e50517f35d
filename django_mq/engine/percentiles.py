"""Percentiles of what was measured."""

from collections.abc import Mapping


def percentile(counts: Mapping[float, int], percent: int) -> float | None:
    """Return the nearest-rank percentile of values, given how often each occurs; None if there are none.

    >>> percentile({0.5: 1, 2.0: 98, 7.0: 1}, 99)
    2.0
    """
    rank = sum(counts.values()) * percent / 100
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return None
