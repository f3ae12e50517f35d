"""When a chord ends, and how; and when a program looks, or tries, again for a result."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.ends import End

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.engine.decisions.ends import Ended

#: The longest part of its waiting that a program without hints sleeps before it looks again.
PART: Final = 0.1
#: The shortest such sleep, in seconds.
SHORTEST_SECONDS: Final = 0.005
#: A member whose worker is gone is given up after so many times that a session lives without a heartbeat.
GRACE_SESSIONS: Final = 2
#: How often a program tries again while the database is away, as with Celery's backend for databases.
RETRIES: Final = 3


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
    #: The worker that ran it is gone, and its message was acknowledged before.
    WORKER = "worker"


#: The ends of messages with which members are lost. Not that of a run whose worker is gone, and that was
#: acknowledged when it began: to be told of it, each member would take more transactions. ``is_abandoned`` finds
#: it.
LOSSES: Final = frozenset({End.EXPIRED, End.CANCELLED, End.PURGED, End.REPLACED})


def loss_of(ended: Ended) -> Loss | None:
    """Return why a member is lost whose message has ended so; None if it is not."""
    if ended.end is End.EXPIRED:
        return Loss.EXPIRED
    return Loss.REMOVED if ended.end in LOSSES else None


class Trace(Enum):
    """What is known of a task that leads to a member of a chord."""

    #: It was not published yet, or the history does not have it.
    NONE = "none"
    #: It waits, runs, or has ended in a way that is told otherwise.
    KEPT = "kept"
    #: Its message was acknowledged, the session that did so has ended, and no result of it is stored.
    GONE = "gone"


def trace_of(*, waits: bool, has_result: bool, was_accepted: bool | None, session_lives: bool) -> Trace:
    """Return what is known of a task.

    ``waits`` says whether a message of it is in a queue; ``was_accepted``, whether the last message that has left
    its queue was acknowledged, None if none is known; ``session_lives``, whether its worker may still run it.
    """
    if waits or has_result:
        return Trace.KEPT
    if was_accepted is None:
        return Trace.NONE
    return Trace.GONE if was_accepted and not session_lives else Trace.KEPT


def is_abandoned(stages: Sequence[Sequence[Trace]]) -> bool:
    """Return whether no worker will end a member, by the tasks that lead to it, in their order.

    The last of them that is known decides. Where several run beside each other, they are members of a chord of
    their own, which decides.
    """
    for stage in reversed(stages):
        if any(trace is not Trace.NONE for trace in stage):
            return list(stage) == [Trace.GONE]
    return False


def is_lost(abandoned_since: datetime, now: datetime, session_seconds: float) -> bool:
    """Return whether a member that was found abandoned then is given up now.

    A worker that has lost its connection opens another session, which says what it runs. A child may end its task
    after its parent was killed.
    """
    return (now - abandoned_since).total_seconds() >= GRACE_SESSIONS * session_seconds


def seconds_to_next_look(waited_seconds: float, longest_seconds: float) -> float:
    """Return how long a program without hints sleeps before it looks for its result again."""
    return min(max(waited_seconds * PART, SHORTEST_SECONDS), longest_seconds)


def retries_of(*, is_worker: bool) -> float:
    """Return how often a process tries again while the database is away.

    A worker tries until the database is back: nothing else knows the result of a task that has run, and a chord
    would wait for it for ever.
    """
    return math.inf if is_worker else RETRIES
