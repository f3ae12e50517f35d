"""Why a handler that runs is asked to end, and by which error it ends when it heeds that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from django_mq.engine.options import LONGEST_SECONDS
from django_mq.errors import Cancelled, HandlerTimeout, SoftTimeLimitExceeded, WorkerStopping, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


class Interruption(Enum):
    """Why a handler is asked to end, the strongest reason first."""

    #: An operator or a program has cancelled the message: it does not come back.
    CANCELLED = auto()
    #: The handler has run longer than its time limit, and was given up.
    TIME_LIMIT = auto()
    #: The handler runs longer than its soft time limit.
    SOFT_TIME_LIMIT = auto()
    #: The worker ends. The message goes back to its place.
    STOPPING = auto()


#: What a handler raises that heeds the request. The verdict over this error settles the message.
ERRORS: Final = {
    Interruption.CANCELLED: Cancelled,
    Interruption.TIME_LIMIT: HandlerTimeout,
    Interruption.SOFT_TIME_LIMIT: SoftTimeLimitExceeded,
    Interruption.STOPPING: WorkerStopping,
}


@dataclass(slots=True)
class EndRequest:
    """What one attempt knows of when it has to end, and whether it was asked to."""

    interruption: Interruption | None = None
    #: When the soft time limit is over, on the caller's clock.
    soft_at: float | None = None
    #: When the soft time limit, or else the time limit, is over.
    deadline: datetime | None = None
    #: Whether the attempt has ended, or was given up.
    has_ended: bool = False

    def ask(self, reason: Interruption) -> None:
        """Ask the attempt to end; a stronger reason from before stays."""
        self.interruption = _stronger(self.interruption, reason)

    def at(self, now: float) -> Interruption | None:
        """Return why the attempt has to end at this moment; None if it may go on."""
        if self.soft_at is None or now < self.soft_at:
            return self.interruption
        return _stronger(self.interruption, Interruption.SOFT_TIME_LIMIT)


def problems_of_limits(time_limit_seconds: object, soft_time_limit_seconds: object) -> Iterator[str]:
    """Yield a sentence for each time limit that cannot be, and for limits that contradict each other."""
    given = {"time_limit_seconds": time_limit_seconds, "soft_time_limit_seconds": soft_time_limit_seconds}
    limits = []
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LONGEST_SECONDS:
            yield f"{name} is {shown(value)}; use a number of seconds, more than 0 and less than a century"
            continue
        limits.append(value)
    if len(limits) == 2 and limits[0] <= limits[1]:
        yield (
            f"soft_time_limit_seconds is {limits[1]}, and time_limit_seconds is {limits[0]}; the soft limit has to"
            " be the shorter one"
        )


def _stronger(one: Interruption | None, other: Interruption) -> Interruption:
    return other if one is None or other.value < one.value else one
