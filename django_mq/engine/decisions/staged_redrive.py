"""A redrive in stages: a few messages first, then the rest, at a rate, up to the first failure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from math import floor
from typing import Final, NamedTuple

#: A redrive that could not go on makes up for so many seconds of its rate, and not for more.
CATCH_UP_SECONDS: Final = 60.0
MINUTE: Final = 60.0


class RedriveOutcome(IntEnum):
    """What has become of a message that was redriven. The numbers are stored."""

    SUCCEEDED = 1
    #: An attempt has failed, also if others follow, or the message is dead again.
    FAILED = 2
    #: It is gone, and was not handled: cancelled, expired, moved.
    REMOVED = 3


class RedriveEvidence(NamedTuple):
    """What is known of a message since it was redriven."""

    has_failed: bool
    is_dead: bool
    #: Whether it waits, or a worker holds it.
    is_there: bool
    #: Whether the history says that it was accepted; None in a queue without history.
    is_accepted: bool | None


def outcome_of(known: RedriveEvidence) -> RedriveOutcome | None:
    """Return what has become of the message; None if that is not known yet."""
    if known.has_failed or known.is_dead:
        return RedriveOutcome.FAILED
    if known.is_there:
        return None
    return RedriveOutcome.REMOVED if known.is_accepted is False else RedriveOutcome.SUCCEEDED


class StageStep(Enum):
    SEND = "send"
    #: For the outcomes of what was sent, or for the rate.
    WAIT = "wait"
    DONE = "done"
    #: One of the messages has failed.
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """What was asked for, and how far the redrive has come."""

    #: How many messages are handled before the rest is sent; 0: there is no such stage.
    first: int
    #: The most messages a minute; None: no limit.
    per_minute: float | None
    sent: int
    #: Messages that have succeeded or failed. What was removed teaches nothing: another message goes in its place.
    handled: int
    #: Failures since it was told to go on in spite of earlier ones.
    failed: int
    #: Outcomes that are known, of any kind.
    known: int
    #: Whether there are messages that were not tried yet.
    has_more: bool


def next_step(stages: Stages, seconds: float, most: int) -> tuple[StageStep, int]:
    """Return what to do, and how many messages to send.

    The rate is used up until ``seconds`` ago. At most ``most`` messages are sent.
    """
    if stages.failed:
        return StageStep.STOP, 0
    unknown = stages.sent - stages.known
    if not stages.has_more:
        return (StageStep.WAIT if unknown > 0 else StageStep.DONE), 0
    left = stages.first - stages.handled - unknown if stages.handled < stages.first else most
    number = min(left, most, due_at_rate(stages.per_minute, seconds))
    return (StageStep.SEND, number) if number > 0 else (StageStep.WAIT, 0)


def due_at_rate(per_minute: float | None, seconds: float) -> int:
    """Return how many messages are due at a rate that is used up until ``seconds`` ago."""
    if per_minute is None:
        return 2**31
    return floor(min(max(0.0, seconds), _made_up_for(per_minute)) * per_minute / MINUTE + 1e-9)


def used_seconds(per_minute: float | None, seconds: float, sent: int) -> float:
    """Return for how many of these seconds the rate is used up when so many messages were sent."""
    if per_minute is None:
        return seconds
    return max(seconds - _made_up_for(per_minute), 0.0) + sent * MINUTE / per_minute


def _made_up_for(per_minute: float) -> float:
    """Return the seconds that a redrive makes up for: at least those of one message."""
    return max(CATCH_UP_SECONDS, MINUTE / per_minute)
