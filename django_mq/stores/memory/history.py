"""What is over: finished messages, and attempts that failed. The fields are those of the tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from django_mq.engine.departing import Cause

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.memory.row import Row

#: Finished messages, and failed attempts, remembered at most; memory must not grow for ever.
MOST_REMEMBERED = 10_000


class Outcome(IntEnum):
    """How a message ended; numbered as in the history table."""

    ACCEPTED = 1
    EXPIRED = 2
    CANCELLED = 3
    PURGED = 4
    REPLACED = 5


#: What the history calls it when the engine says why an entry is gone.
OUTCOMES = {
    Cause.ACCEPTED: Outcome.ACCEPTED,
    Cause.EXPIRED: Outcome.EXPIRED,
    Cause.CANCELLED: Outcome.CANCELLED,
    Cause.PURGED: Outcome.PURGED,
    Cause.REPLACED: Outcome.REPLACED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A finished message."""

    message_id: UUID
    queue_name: str
    type: str
    correlation_id: str | None
    priority: int
    outcome: Outcome
    attempts: int
    published_at: datetime
    ready_at: datetime
    claimed_at: datetime | None
    finished_at: datetime
    session_id: int | None
    redelivered: bool
    headers: Any
    body: bytes | None


def finished(row: Row, outcome: Outcome, now: datetime) -> Finished:
    """Return what to remember of a row that is about to go."""
    message = row.message
    ended_well = row.session_id is not None and outcome not in {Outcome.EXPIRED, Outcome.REPLACED}
    return Finished(
        message_id=message.message_id,
        queue_name=row.queue.name,
        type=message.type,
        correlation_id=message.correlation_id,
        priority=message.priority,
        outcome=outcome,
        # The delivery that ends well is not one of those that failed before.
        attempts=row.entry.attempts - ended_well,
        published_at=row.published_at,
        ready_at=row.ready_at,
        claimed_at=row.claimed_at,
        finished_at=now,
        session_id=row.session_id,
        redelivered=row.entry.redelivered,
        headers=json.loads(message.headers),
        body=message.body if row.queue.settings.history_body else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One delivery that failed."""

    message_id: UUID | None
    correlation_id: str | None
    queue_name: str
    type: str
    number: int
    failed_at: datetime
    worker: str
    error: str
    detail: str
    traceback: str
