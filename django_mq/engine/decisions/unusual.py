"""Whether a run takes unusually long, compared with earlier runs of its type."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A shorter run is never unusual.
LEAST_SECONDS: Final = 60.0
#: How many times longer than nearly all others an unusual run is.
FACTOR: Final = 5.0
#: So many earlier runs say what is usual.
FEWEST: Final = 10


class UsualRun(NamedTuple):
    """How long the earlier runs of a type took, in seconds: their number, median and 95th percentile."""

    runs: int
    p50: float
    p95: float


def usual_of(seconds: Iterable[float]) -> UsualRun | None:
    """Return what is usual, from how long each earlier run took; None if there are none."""
    counts = Counter(seconds)
    p50, p95 = percentile(counts, 50), percentile(counts, 95)
    return None if p50 is None or p95 is None else UsualRun(counts.total(), p50, p95)


def times_usual(seconds: float, usual: UsualRun | None) -> float:
    """Return how many times longer a run takes than nearly all others of its type; 0 if that is not known.

    A run of less than a second counts as one: what takes a millisecond is not unusual after ten.
    """
    if usual is None or usual.runs < FEWEST:
        return 0.0
    return seconds / max(usual.p95, 1.0)


def is_unusual(seconds: float, usual: UsualRun | None) -> bool:
    """Return whether a run needs a look."""
    return seconds >= LEAST_SECONDS and times_usual(seconds, usual) >= FACTOR
