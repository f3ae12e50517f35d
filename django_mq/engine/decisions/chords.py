"""When a chord ends, and how; and when a program that waits for a result looks again."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.ends import End

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.engine.decisions.ends import Ended

#: The longest part of its waiting that a program without hints sleeps before it looks again.
PART: Final = 0.1
#: The shortest such sleep, in seconds.
SHORTEST_SECONDS: Final = 0.005


class ChordEnd(Enum):
    """What to do with a chord after a member has ended."""

    #: Members are missing, or their number is not known yet.
    WAIT = "wait"
    #: All members have succeeded: publish the body.
    PUBLISH = "publish"
    #: All members have ended, and one of them has failed, was revoked or has expired.
    FAIL = "fail"
    #: The chord has ended before.
    OVER = "over"


class ChordCount(NamedTuple):
    """What is known of a chord. Each member counts once, however often it has run."""

    #: How many members the publisher has announced; None before it did.
    size: int | None
    #: How many were added since, by members.
    added: int
    #: How many have ended, and how many of them without success.
    counted: int
    failed: int
    #: Whether the end was decided, and until when a process carries it out; None: no process has to.
    ended: bool = False
    carried_until: datetime | None = None


def end_of(chord: ChordCount, now: datetime) -> ChordEnd:
    """Return what to do with a chord that has this count.

    A failed member does not end the chord before the others have ended, as with Celery on Redis. The process that
    carries out the end may have died: after its time, another one does it again.
    """
    if chord.ended and (chord.carried_until is None or now < chord.carried_until):
        return ChordEnd.OVER
    if chord.size is None or chord.counted < chord.size + chord.added:
        return ChordEnd.WAIT
    return ChordEnd.FAIL if chord.failed else ChordEnd.PUBLISH


#: The listening that is told of lost members, and how Celery's JSON shows that a task is one, or leads to one.
CHORDS: Final = "chords"
MEMBER_MARK: Final = '"chord": {'


class Loss(Enum):
    """Why a member of a chord does not store its end."""

    EXPIRED = "expired"
    #: Its message was deleted, cancelled, purged or replaced.
    REMOVED = "removed"


#: The ends of messages with which members are lost. Not that of a run whose worker is gone, and that was
#: acknowledged when it began: to be told of it, each member would take more transactions.
LOSSES: Final = frozenset({End.EXPIRED, End.CANCELLED, End.PURGED, End.REPLACED})


def loss_of(ended: Ended) -> Loss | None:
    """Return why a member is lost whose message has ended so; None if it is not."""
    if ended.end is End.EXPIRED:
        return Loss.EXPIRED
    return Loss.REMOVED if ended.end in LOSSES else None


def seconds_to_next_look(waited_seconds: float, longest_seconds: float) -> float:
    """Return how long a program without hints sleeps before it looks for its result again."""
    return min(max(waited_seconds * PART, SHORTEST_SECONDS), longest_seconds)
