"""What becomes of a delivered message: from how its delivery ended, and how often it was tried, to one settlement.

Every door asks ``verdict``: the engine's queues, native handlers in either worker, Django's tasks, the
stores for what a dead session held, and Celery's transport. For Celery's own tasks Celery decides
first: it retries, acknowledges or rejects. A task that raises an exception is therefore not charged
``max_attempts``, unless Celery puts its message back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import floor, isfinite
from random import random as system_random
from typing import Final, NamedTuple, Protocol

from django_mq.engine.names import check_bounds
from django_mq.errors import CorruptMessage, Reject, Release

#: The cap, as a multiple of the base, where none is given.
DEFAULT_CAP_FACTOR: Final = 10


@dataclass(frozen=True, slots=True)
class Backoff:
    """A delay that grows with the attempts, after Artemis's redelivery delay.

    The first failure waits ``base_seconds``, each further one ``multiplier`` times as long.
    ``jitter`` (0..1) moves the result up or down by at most that share of itself. No result
    exceeds ``cap_seconds`` (None: ten times the base): the cap comes last, so at the cap
    jitter only shortens. With ``ticks_per_second`` the grown delay is cut to whole ticks of a
    clock that counts so many, before jitter and cap; 0 cuts nothing.

    >>> steps = Backoff(base_seconds=5, multiplier=2, cap_seconds=15)
    >>> [steps.delay(attempt) for attempt in (1, 2, 3, 4)]
    [5.0, 10.0, 15.0, 15.0]
    """

    base_seconds: float = 0.0
    multiplier: float = 1.0
    cap_seconds: float | None = None
    jitter: float = 0.0
    ticks_per_second: int = 0

    def __post_init__(self) -> None:
        check_bounds(0, base_seconds=self.base_seconds, multiplier=self.multiplier, cap_seconds=self.cap_seconds)
        check_bounds(0, ticks_per_second=self.ticks_per_second)
        check_bounds(0, 1, jitter=self.jitter)

    @property
    def cap(self) -> float:
        """The longest delay, in seconds."""
        return self.base_seconds * DEFAULT_CAP_FACTOR if self.cap_seconds is None else self.cap_seconds

    def delay(self, attempt: int, random: Callable[[], float] = system_random) -> float:
        """The seconds to wait after the ``attempt``-th failure (1 is the first).

        ``random`` answers numbers in [0, 1); it is asked twice, once for the sign and once
        for the size of the jitter, and not at all without jitter.
        """
        delay = self._cut(self._grown(attempt))
        if self.jitter:
            sign = 1 if random() < 0.5 else -1
            delay += delay * sign * self.jitter * random()
        return float(min(delay, self.cap))

    def _grown(self, attempt: int) -> float:
        try:
            return float(self.base_seconds * self.multiplier ** max(attempt - 1, 0))
        except OverflowError:  # a message may fail for years; its delay is the cap by then
            return self.cap

    def _cut(self, delay: float) -> float:
        ticks = delay * self.ticks_per_second
        # Rounded first: as floats, 0.29 seconds are a little less than 29 hundredths.
        return floor(round(ticks, 6)) / self.ticks_per_second if ticks and isfinite(ticks) else delay


class Ending(Enum):
    """How a delivery ended."""

    #: The handler returned, or Celery acknowledged.
    RETURNED = auto()
    #: The handler raised an exception or ran too long, Celery put the message back, or the session that held
    #: the message alone ended.
    FAILED = auto()
    #: The handler, or the worker, gave the message back without having tried.
    RELEASED = auto()
    #: The handler or Celery rejected the message for good, or the message cannot be read.
    REJECTED = auto()
    #: An operator or a publisher does not want the message to be handled any more.
    REVOKED = auto()


class Verdict(Enum):
    """How a delivery is settled."""

    ACCEPT = "accept"
    RELEASE = "release"
    DEAD = "dead"
    EXPIRE = "expire"
    CANCEL = "cancel"
    #: Back for the others; this consumer is not given the message again.
    DECLINE = "decline"


# Plain names for what every message meets: Python 3.11 takes as long to look a member up on its class
# as to make the whole settlement.
ACCEPT: Final = Verdict.ACCEPT
RELEASE: Final = Verdict.RELEASE
DECLINE: Final = Verdict.DECLINE
RETURNED: Final = Ending.RETURNED
#: The reason of a dead letter whose time to live is over.
BY_EXPIRY: Final = "expired"


class Decision(NamedTuple):
    """A verdict, whether the delivery counts as an attempt, and for how long a released message is held back."""

    verdict: Verdict
    counted: bool = False
    delay_seconds: float = 0.0


class Policy(Protocol):
    """What a queue says of failed deliveries.

    ``max_attempts`` of them make a message dead, None or 0 for never; after each it waits for the ``backoff``.
    """

    @property
    def max_attempts(self) -> int | None: ...
    @property
    def backoff(self) -> Backoff | None: ...


class AtOnce(NamedTuple):
    """A policy by which a failed message is tried again at once."""

    max_attempts: int | None
    backoff: None = None


_DECIDED: Final = {
    Ending.RETURNED: Decision(ACCEPT),
    Ending.RELEASED: Decision(RELEASE),
    Ending.REJECTED: Decision(Verdict.DEAD, counted=True),
    Ending.REVOKED: Decision(Verdict.CANCEL),
}


def verdict(
    ending: Ending,
    attempt: int,
    policy: Policy,
    delay_seconds: float | None = None,
    random: Callable[[], float] = system_random,
) -> Decision:
    """Return how the ``attempt``-th delivery of a message is settled (1 is the first).

    A failed delivery is tried again after ``delay_seconds``, None for the queue's backoff, unless it was
    the last one that the queue allows.
    """
    decided = _DECIDED.get(ending)
    if decided is not None:
        return decided
    if policy.max_attempts and attempt >= policy.max_attempts:
        return _DECIDED[Ending.REJECTED]
    if delay_seconds is None:
        delay_seconds = 0.0 if policy.backoff is None else policy.backoff.delay(attempt, random)
    return Decision(RELEASE, counted=True, delay_seconds=delay_seconds)


def ending_of(error: BaseException) -> Ending:
    """Return how a call of a handler ended that raised this error."""
    if isinstance(error, Release):
        return Ending.RELEASED
    return Ending.REJECTED if isinstance(error, Reject | CorruptMessage) else Ending.FAILED
