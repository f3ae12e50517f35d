"""When a worker process ends by itself, and when a supervisor starts another one in its place."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from django_mq.engine.decisions.backoff import Backoff

#: A process that ends sooner after its start, in seconds, ends too soon: the next one waits.
STEADY_SECONDS: Final = 10.0
#: How long the next process waits, by the number of processes in a row that ended too soon.
PAUSES: Final = Backoff(base_seconds=1.0, multiplier=2.0, cap_seconds=60.0)
#: The limits of the processes of one supervisor differ by at most this share: they do not all end together.
SPREAD: Final = 0.1
#: Multiples of this, without their whole numbers, spread evenly, whatever their number.
GOLDEN: Final = 0.618034

#: As `mq_workers` and the admin show memory.
MEGABYTE: Final = 1024 * 1024


def restart_pause_seconds(ends_too_soon: int) -> float:
    """Return how long to wait after so many processes in a row that ended too soon.

    >>> [restart_pause_seconds(ends) for ends in (0, 1, 2, 3, 7, 1000)]
    [0.0, 1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return PAUSES.delay(ends_too_soon) if ends_too_soon else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """After what a worker process ends in order; None for no limit."""

    messages: int | None = None
    seconds: float | None = None
    megabytes: int | None = None

    def spread(self, number: int) -> ProcessLimits:
        """Return the limits of the process with this number: up to a tenth lower, and different for each number.

        >>> [ProcessLimits(messages=1000).spread(number).messages for number in (0, 1, 2, 3)]
        [1000, 939, 977, 915]
        """
        share = 1 - SPREAD * (number * GOLDEN % 1)
        return ProcessLimits(
            messages=None if self.messages is None else ceil(self.messages * share),
            seconds=None if self.seconds is None else self.seconds * share,
            megabytes=self.megabytes,
        )

    def reached(self, *, begun: int, age_seconds: float, memory_bytes: int) -> str:
        """Return which limit a process has reached, as the end of a sentence; empty for none."""
        if self.messages is not None and begun >= self.messages:
            return f"it has begun {begun} messages"
        if self.seconds is not None and age_seconds >= self.seconds:
            return f"it has run for {age_seconds:.0f} s"
        if self.megabytes is not None and memory_bytes >= self.megabytes * MEGABYTE:
            return f"it uses {memory_bytes // MEGABYTE} MB of memory"
        return ""
