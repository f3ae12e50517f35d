"""How long to wait before the next try: of a message that failed, or of a server that could not be reached."""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, isfinite
from random import random as system_random
from typing import Final

from django_mq.engine.bounds import check_bounds

#: The default cap, as a multiple of the base.
DEFAULT_CAP_FACTOR: Final = 10


@dataclass(frozen=True, slots=True)
class Backoff:
    """A delay that grows with the attempts, after Artemis's redelivery delay.

    The delay after the first failure is ``base_seconds``, after each further one ``multiplier`` times as long, and
    ``step_seconds`` longer.
    ``jitter`` (0..1) moves the result up or down by at most that share of itself. No result
    exceeds ``cap_seconds`` (None: ten times the base): the cap comes last, so at the cap
    jitter only shortens. With ``ticks_per_second`` the grown delay is cut to whole ticks of a
    clock of that rate, before jitter and cap; 0 cuts nothing.

    >>> steps = Backoff(base_seconds=5, multiplier=2, cap_seconds=15)
    >>> [steps.delay(attempt) for attempt in (1, 2, 3, 4)]
    [5.0, 10.0, 15.0, 15.0]
    """

    base_seconds: float = 0.0
    multiplier: float = 1.0
    cap_seconds: float | None = None
    jitter: float = 0.0
    ticks_per_second: int = 0
    step_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_bounds(0, base_seconds=self.base_seconds, multiplier=self.multiplier, cap_seconds=self.cap_seconds)
        check_bounds(0, ticks_per_second=self.ticks_per_second, step_seconds=self.step_seconds)
        check_bounds(0, 1, jitter=self.jitter)

    @property
    def cap(self) -> float:
        """The longest delay, in seconds."""
        return self.base_seconds * DEFAULT_CAP_FACTOR if self.cap_seconds is None else self.cap_seconds

    def delay(self, attempt: int, random: Callable[[], float] = system_random) -> float:
        """Return the seconds to wait after the ``attempt``-th failure (1 is the first).

        ``random`` returns numbers in [0, 1). It is called twice, for the sign and the size of
        the jitter, and not at all without jitter.
        """
        delay = self._cut(self._grown(attempt))
        if self.jitter:
            sign = 1 if random() < 0.5 else -1
            delay += delay * sign * self.jitter * random()
        return float(min(delay, self.cap))

    def spread(self, attempt: int, random: Callable[[], float] = system_random) -> float:
        """Return between half and all of that delay, so that processes that fail together do not try together."""
        return self.delay(attempt) * (0.5 + random() / 2)

    def _grown(self, attempt: int) -> float:
        further = max(attempt - 1, 0)
        try:
            return float(self.base_seconds * self.multiplier**further + self.step_seconds * further)
        except OverflowError:  # a message may fail for years; its delay is the cap by then
            return self.cap

    def _cut(self, delay: float) -> float:
        ticks = delay * self.ticks_per_second
        # Rounded first: as floats, 0.29 seconds are a little less than 29 hundredths.
        return floor(round(ticks, 6)) / self.ticks_per_second if ticks and isfinite(ticks) else delay
