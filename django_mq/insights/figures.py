"""A forecast of the day on which a queue has more work than its workers can do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from statistics import linear_regression
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

SECONDS_OF_A_DAY = 86400.0
#: The fewest days that show a trend, and the furthest day of a forecast.
FEWEST_DAYS = 3
FURTHEST_DAYS = 730


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
