"""The ways in which a claim or a message ends, and what is told of each."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


class End(Enum):
    """How a claim, a message, or both end."""

    # The verdict over a claim; after ACCEPTED, EXPIRED and CANCELLED the message is gone, too.
    ACCEPTED = auto()
    #: Also parked: the message stays, and no attempt is counted.
    RELEASED = auto()
    DECLINED = auto()
    #: Also of a message that no session holds.
    DEAD = auto()
    EXPIRED = auto()
    CANCELLED = auto()
    # The claim ends without a verdict: its session has passed its deadline, or the message was given back.
    LOST = auto()
    GIVEN_BACK = auto()
    #: The claim that was lost goes on: its session was only late.
    RETAKEN = auto()
    # The message ends otherwise.
    PURGED = auto()
    REPLACED = auto()
    #: It has another row now, in another queue or in the same one.
    MOVED = auto()
    #: Copies of it are in other queues now.
    DEAD_LETTERED = auto()


class RunOutcome(Enum):
    """How what a message asked for went, where its end does not say so."""

    SUCCEEDED = auto()
    FAILED = auto()
    #: Celery has published the task again, with the same task id.
    RETRIED = auto()
    REVOKED = auto()
    #: The process that ran it is gone, and the message does not come back.
    LOST = auto()
    #: It was sent on to another broker. Its run there ends later, and tells how by its result.
    FORWARDED = auto()


class Ended(NamedTuple):
    """One end, with the message as it was."""

    row: int
    message_id: UUID
    queue: str
    end: End
    type: str
    #: JSON, as stored.
    headers: str
    properties: str | None
    body: bytes
    content_type: str
    content_encoding: str
    #: The row of a message that was moved.
    new_row: int | None = None
    #: Of a Celery task. One that is acknowledged when it begins is told as accepted at its end, without its body.
    outcome: RunOutcome | None = None
    #: What a handler or a task of Django has returned, as JSON, for a listening that ``returns``.
    returned: str | None = None


#: The listening that is told of deaths for the handlers with ``on_dead``.
ON_DEAD: Final = "on_dead"
#: The listening that keeps results of messages.
KEPT: Final = "replies"
#: What a kept result says of its message, for each end after which it is written. Before, the message is waiting.
#: A dead letter that is redriven ends once more.
WAITING: Final = "waiting"
SUCCEEDED: Final = "succeeded"
STATUS_OF_END: Final[Mapping[End, str]] = {
    End.ACCEPTED: SUCCEEDED,
    End.DEAD: "dead",
    End.EXPIRED: "expired",
    End.CANCELLED: "cancelled",
    End.PURGED: "purged",
    End.REPLACED: "replaced",
}
#: The end that each verdict is.
END_OF_VERDICT: Final[Mapping[Verdict, End]] = {
    Verdict.ACCEPT: End.ACCEPTED,
    Verdict.FORWARD: End.ACCEPTED,
    Verdict.RELEASE: End.RELEASED,
    Verdict.DECLINE: End.DECLINED,
    Verdict.PARK: End.RELEASED,
    Verdict.DEAD: End.DEAD,
    Verdict.EXPIRE: End.EXPIRED,
    Verdict.CANCEL: End.CANCELLED,
}
#: The end of a message that has left its queue for this cause.
END_OF_CAUSE: Final[Mapping[Cause, End]] = {
    Cause.ACCEPTED: End.ACCEPTED,
    Cause.EXPIRED: End.EXPIRED,
    Cause.CANCELLED: End.CANCELLED,
    Cause.KILLED: End.CANCELLED,
    Cause.PURGED: End.PURGED,
    Cause.REPLACED: End.REPLACED,
    Cause.LIMITED: End.CANCELLED,
    Cause.DEAD: End.DEAD_LETTERED,
    Cause.MOVED: End.MOVED,
    Cause.COPIED: End.MOVED,
}
