"""How to settle a delivered message: from how its delivery ended, and how often it was tried.

Every part of the package calls ``verdict``: the engine's queues, native handlers in either worker, Django's
tasks, the stores for the messages of a dead session, and Celery's transport. For Celery's own tasks Celery
decides first: it retries, acknowledges or rejects. A task that raises an exception is therefore not charged
``max_attempts``, unless Celery puts its message back.
"""

from collections.abc import Callable
from enum import Enum, auto
from random import random as system_random
from typing import Final, NamedTuple, Protocol

from django_mq.errors import (
    Cancelled,
    CorruptMessage,
    Decline,
    Reject,
    Release,
    ResultNotSerialisable,
    ResultTooLarge,
    Skip,
    Suspended,
)


class Ending(Enum):
    """How a delivery ended."""

    #: The handler returned, or Celery acknowledged.
    RETURNED = auto()
    #: The handler raised an exception or ran too long, Celery put the message back, or the session that held
    #: the message alone ended.
    FAILED = auto()
    #: The handler, or the worker, gave the message back without an attempt.
    RELEASED = auto()
    #: The handler says that the message is not for it.
    DECLINED = auto()
    #: The handler or Celery rejected the message for good, or the message cannot be read.
    REJECTED = auto()
    #: An operator or a publisher has cancelled the message.
    REVOKED = auto()
    #: The handler goes on later.
    SUSPENDED = auto()


class Verdict(Enum):
    """How a delivery is settled."""

    ACCEPT = "accept"
    RELEASE = "release"
    DEAD = "dead"
    EXPIRE = "expire"
    CANCEL = "cancel"
    #: Back for the other consumers; this one is not given the message again.
    DECLINE = "decline"
    #: Back in its place without an attempt. No consumer is given it before its key is freed, or a time has come.
    PARK = "park"
    #: Accepted when its run begins: the message is gone, and the end of the run is told as its own.
    BEGIN = "begin"
    #: The run that had begun so has ended.
    END = "end"
    #: Another broker has it: the message is gone from here.
    FORWARD = "forward"


# Plain names, because in Python 3.11 looking a member up on its class takes as long as a whole settlement.
ACCEPT: Final = Verdict.ACCEPT
RELEASE: Final = Verdict.RELEASE
DECLINE: Final = Verdict.DECLINE
PARK: Final = Verdict.PARK
END: Final = Verdict.END
RETURNED: Final = Ending.RETURNED
#: The reason of a dead letter that has expired.
BY_EXPIRY: Final = "expired"


class Decision(NamedTuple):
    """A verdict, whether the delivery counts as an attempt, and the delay of a released message."""

    verdict: Verdict
    counted: bool = False
    delay_seconds: float = 0.0


class Delays(Protocol):
    """A backoff: it says how long to wait after the ``attempt``-th failure."""

    def delay(self, attempt: int, random: Callable[[], float] = ..., /) -> float:
        """Return the seconds."""
        ...


class Policy(Protocol):
    """The rules of a queue, or of a handler over them, for failed deliveries.

    After ``max_attempts`` of them a message is dead, None or 0 for never; before each further one it waits for
    the ``backoff``.
    """

    @property
    def max_attempts(self) -> int | None: ...
    @property
    def backoff(self) -> Delays | None: ...


class AtOnce(NamedTuple):
    """A policy that retries a failed message at once."""

    max_attempts: int | None
    backoff: None = None


_RELEASED: Final = Decision(RELEASE)
_DECIDED: Final = {
    Ending.RETURNED: Decision(ACCEPT),
    Ending.RELEASED: _RELEASED,
    Ending.DECLINED: Decision(DECLINE),
    Ending.REJECTED: Decision(Verdict.DEAD, counted=True),
    Ending.REVOKED: Decision(Verdict.CANCEL),
    Ending.SUSPENDED: Decision(PARK),
}


def verdict(
    ending: Ending,
    attempt: int,
    policy: Policy,
    delay_seconds: float | None = None,
    random: Callable[[], float] = system_random,
    *,
    left_seconds: float | None = None,
) -> Decision:
    """Return how the ``attempt``-th delivery of a message is settled (1 is the first).

    A failed delivery is retried after ``delay_seconds``, None for the backoff of the policy, unless it was the
    last one that the policy allows, or the retry would not begin within ``left_seconds``, None for no end. A
    released message waits for ``delay_seconds``, too, and is not counted.
    """
    decided = _DECIDED.get(ending)
    if decided is not None:
        return decided._replace(delay_seconds=delay_seconds) if delay_seconds and decided is _RELEASED else decided
    if policy.max_attempts and attempt >= policy.max_attempts:
        return _DECIDED[Ending.REJECTED]
    if delay_seconds is None:
        delay_seconds = 0.0 if policy.backoff is None else policy.backoff.delay(attempt, random)
    if left_seconds is not None and delay_seconds > left_seconds:
        return _DECIDED[Ending.REJECTED]
    return Decision(RELEASE, counted=True, delay_seconds=delay_seconds)


def if_cancelled(given: Verdict) -> Verdict:
    """Return the verdict over a message that was cancelled while a session held it: it does not come back."""
    return Verdict.CANCEL if given in (RELEASE, DECLINE, PARK) else given


#: A further attempt would end in the same way.
_FINAL: Final = (Reject, CorruptMessage, ResultNotSerialisable, ResultTooLarge)


def ending_of(error: BaseException, *, cancelled: bool = False) -> Ending:
    """Return how a handler's call ended that raised this error.

    A message that was ``cancelled`` while its handler ran does not come back, whatever the error.
    """
    if isinstance(error, _FINAL):
        return Ending.REJECTED
    if isinstance(error, Skip):
        return Ending.RETURNED
    if isinstance(error, Suspended):
        return Ending.SUSPENDED
    if cancelled or isinstance(error, Cancelled):
        return Ending.REVOKED
    if isinstance(error, Release):
        return Ending.RELEASED
    return Ending.DECLINED if isinstance(error, Decline) else Ending.FAILED
