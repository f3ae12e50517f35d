"""How many messages may begin in a time.

A rate is kept as one time, as in GCRA (the generic cell rate algorithm): past messages need not be counted, and
what has to wait is told for how long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from django_mq.errors import OutOfRange, shown

#: A clock that goes back by more than this has been set. By less, it is that of another transaction.
SET_BACK_SECONDS: Final = 60.0
#: The bounds of the numbers of a rate, and of a weight. With them, every time is a number that databases store.
LEAST: Final = 1e-6
MOST: Final = 1e9


@dataclass(frozen=True, slots=True)
class Rate:
    """How much weight may begin in so many seconds, and how much at once.

    In no window of ``w`` seconds more than ``burst + amount / seconds * w`` begins. A message that weighs more
    than the burst begins when nothing else is used, and what comes behind it waits for all of its weight.
    """

    amount: float
    seconds: float
    burst: float = 1.0

    def __post_init__(self) -> None:
        for name in ("amount", "seconds", "burst"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not LEAST <= value <= MOST:
                raise OutOfRange(
                    f"The {name} of a rate is {shown(value)}; use a number from {LEAST:f} to {MOST:,.0f}."
                )

    @property
    def interval(self) -> float:
        """The seconds between messages of weight 1."""
        return self.seconds / self.amount


def lasts(until: float, seconds: float | None, now: float) -> bool:
    """Whether something that was to last so many seconds lasts still: it is over if the clock has been set back.

    ``seconds`` is None if that is not known.
    """
    return until > now and (seconds is None or until - now <= seconds + SET_BACK_SECONDS)


class Used(NamedTuple):
    """What has been used of a rate: when all of it will be free again, and the latest time that was seen."""

    free_at: float
    seen_at: float


#: Nothing has been used yet.
UNUSED: Final = Used(float("-inf"), float("-inf"))


def _present(used: Used, now: float) -> Used:
    """Return what is used as of the present, which is ``seen_at``."""
    if used.seen_at - now > SET_BACK_SECONDS:
        return Used(used.free_at - (used.seen_at - now), now)
    seen_at = max(used.seen_at, now)
    return Used(max(used.free_at, seen_at), seen_at)


def within_burst(rate: Rate, used: Used) -> Used:
    """Return what is used as of a rate that may have changed, and of which nothing weighs more than the burst."""
    return used._replace(free_at=min(used.free_at, used.seen_at + rate.burst * rate.interval))


def wait_seconds(rate: Rate, used: Used, now: float, weight: float = 1.0) -> float:
    """Return how long a message of this weight must wait until it may begin; 0: it may now."""
    free_at, seen_at = _present(used, now)
    waits = free_at + (min(weight, rate.burst) - rate.burst) * rate.interval - seen_at
    # What has been added up of fractions is not exact.
    return 0.0 if waits <= rate.interval * 1e-9 else waits


def used_weight(rate: Rate, used: Used, now: float) -> float:
    """Return how much weight is used of the burst now; more than the burst if a heavier message has begun."""
    free_at, seen_at = _present(used, now)
    return max(0.0, free_at - seen_at) / rate.interval


def after_use(rate: Rate, used: Used, now: float, weight: float = 1.0) -> Used:
    """Return what is used when a message of this weight has begun."""
    free_at, seen_at = _present(used, now)
    return Used(max(free_at, seen_at) + weight * rate.interval, seen_at)
