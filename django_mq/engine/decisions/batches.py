"""Batches: what an end is for a member, when a batch has ended, and which callbacks are due.

    OPEN ── closed ──> RUNNING ── no member waits ──> SUCCEEDED, FAILED or CANCELLED
                          ^                               │
                          └── a dead letter is redriven ──┘

A member is one message, or one Celery task with all its retries. Counts are by member, so that an end that is told
twice counts once.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.ends import End, RunOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime


class MemberState(IntEnum):
    WAITING = 0
    SUCCEEDED = 1
    FAILED = 2
    #: Removed before it was handled: cancelled, revoked, purged, or replaced by another message.
    CANCELLED = 3


class BatchState(Enum):
    #: More members may come from anywhere.
    OPEN = "open"
    #: More members may come from handlers of its members only.
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BatchCallback(Enum):
    #: All members have ended, however.
    COMPLETE = "complete"
    #: All members have succeeded.
    SUCCESS = "success"
    #: A member has failed, the first one.
    FAILURE = "failure"


#: The states of a batch in which members can be added or may still end.
LIVE: Final = frozenset({BatchState.OPEN, BatchState.RUNNING})

_STATE_OF_END: Final[Mapping[End, MemberState]] = {
    End.ACCEPTED: MemberState.SUCCEEDED,
    End.DEAD: MemberState.FAILED,
    End.EXPIRED: MemberState.FAILED,
    End.CANCELLED: MemberState.CANCELLED,
    End.PURGED: MemberState.CANCELLED,
    End.REPLACED: MemberState.CANCELLED,
    # What has failed goes on elsewhere: a dead letter that was redriven or moved.
    End.MOVED: MemberState.WAITING,
}
_STATE_OF_RUN: Final[Mapping[RunOutcome, MemberState]] = {
    RunOutcome.SUCCEEDED: MemberState.SUCCEEDED,
    RunOutcome.FAILED: MemberState.FAILED,
    RunOutcome.LOST: MemberState.FAILED,
    RunOutcome.REVOKED: MemberState.CANCELLED,
}
#: The ends that say something of a member.
MEMBER_ENDS: Final = frozenset(_STATE_OF_END)


class BatchCounts(NamedTuple):
    """How many members are in each state."""

    waiting: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def ended(self) -> int:
        return self.total - self.waiting


def member_after(state: MemberState, end: End, outcome: RunOutcome | None = None) -> MemberState:
    """Return the state of a member after an end of its message. A run says by its outcome how it went."""
    if outcome is None:
        found = _STATE_OF_END.get(end)
    elif outcome is RunOutcome.FORWARDED:
        return state  # its run, which may have ended already, tells the end
    elif outcome is RunOutcome.RETRIED:
        # Celery has published the same task again, also one whose earlier run has failed.
        found = MemberState.WAITING if state is MemberState.FAILED else None
    else:
        found = _STATE_OF_RUN[outcome]
    if found is None or state is MemberState.SUCCEEDED:
        return state
    if found is MemberState.WAITING:
        return found if state is MemberState.FAILED else state
    # A dead letter that is removed, or expires, has failed all the same.
    if state is MemberState.FAILED and found is not MemberState.SUCCEEDED:
        return state
    return found


#: How long the message of a member that waits is missing before the member counts as ended.
MISSING_FOR: Final = timedelta(minutes=5)
#: The same for a task whose run may go on in a worker that lives.
RUNNING_FOR: Final = timedelta(days=1)


def has_vanished(missing_since: datetime | None, now: datetime, *, may_run: bool) -> bool:
    """Return whether a member that waits has ended without an end being told: its message is missing for long."""
    if missing_since is None:
        return False
    return now - missing_since >= (RUNNING_FOR if may_run else MISSING_FOR)


def vanished_as(last: End | None, *, is_task: bool) -> MemberState:
    """Return the state of a member whose message is gone, by the last end that the history has of it."""
    found = MemberState.CANCELLED if last is None else _STATE_OF_END.get(last, MemberState.CANCELLED)
    if found is MemberState.SUCCEEDED and is_task:
        return MemberState.FAILED  # it was acknowledged, and what its run has come to is not known
    return MemberState.CANCELLED if found is MemberState.WAITING else found


def batch_after(counts: BatchCounts, *, closed: bool, cancelled: bool) -> BatchState:
    """Return the state of a batch. It has ended when it is closed and no member waits."""
    if not closed:
        return BatchState.OPEN
    if counts.waiting:
        return BatchState.RUNNING
    if cancelled:
        return BatchState.CANCELLED
    if counts.failed:
        return BatchState.FAILED
    return BatchState.CANCELLED if counts.cancelled else BatchState.SUCCEEDED


def callbacks_due(
    state: BatchState, *, has_failed: bool, published: Collection[BatchCallback]
) -> list[BatchCallback]:
    """Return the callbacks to publish now. Each is published once in the life of a batch."""
    due = [BatchCallback.FAILURE] if has_failed else []
    due += [] if state in LIVE else [BatchCallback.COMPLETE]
    due += [BatchCallback.SUCCESS] if state is BatchState.SUCCEEDED else []
    return [each for each in due if each not in published]


def may_add(state: BatchState, *, cancelled: bool, is_member: bool) -> bool:
    """Whether a publisher may add members. One that handles a member may, because the batch waits for this one."""
    return not cancelled and (state is BatchState.OPEN or (state is BatchState.RUNNING and is_member))


#: The headers of a member: the id of its batch, and its own.
BATCH_HEADER: Final = "x-batch"
MEMBER_HEADER: Final = "x-batch-member"
#: The header of a callback: the id of the batch.
CALLBACK_HEADER: Final = "x-batch-of"
#: The listening that is told the ends of members. It stands in rows of messages.
BATCHES: Final = "batches"
