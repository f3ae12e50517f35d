"""When a queue will bring more work than its workers can do, if it goes on like this."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

SECONDS_OF_A_DAY = 86400.0
#: Fewer days say nothing of a trend, and what is further away than this nobody can foretell.
FEWEST_DAYS = 3
FURTHEST_DAYS = 730


@dataclass(frozen=True, slots=True)
class Day:
    """What a day asked of the workers: messages, their mean time at work, and how many workers there were."""

    arrivals: int
    run_seconds: float
    consumers: int

    @property
    def load(self) -> float | None:
        """The share of the workers' time that the day's messages took; 1 is all of it."""
        if not self.consumers:
            return None
        return self.arrivals * self.run_seconds / (self.consumers * SECONDS_OF_A_DAY)


def outgrown(days: Mapping[date, Day]) -> date | None:
    """Return the day on which the load's straight line reaches 1; None if it does not rise, or not soon.

    A day whose load is 1 already is answered with that day.
    """
    loads = {day: load for day, item in days.items() if (load := item.load) is not None}
    if not loads:
        return None
    last = max(loads)
    if loads[last] >= 1:
        return last
    slope, now = _line(loads)
    if len(loads) < FEWEST_DAYS or slope <= 0:
        return None
    ahead = (1 - now) / slope
    return last + timedelta(days=ceil(ahead - 1e-6)) if 0 <= ahead <= FURTHEST_DAYS else None


def _line(loads: Mapping[date, float]) -> tuple[float, float]:
    """Return the slope per day of the least-squares line, and its value on the last day."""
    last = max(loads)
    xs = [(day - last).days for day in loads]
    ys = [*loads.values()]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0
    return slope, mean_y - slope * mean_x
