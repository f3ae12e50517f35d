"""Upkeep: promote, reap, expire, trim, prune."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from django_mq.engine.states import DEAD
from django_mq.engine.verdict import Ending, Verdict, verdict
from django_mq.stores.memory.broker import row_of
from django_mq.stores.memory.dying import Dying
from django_mq.stores.memory.row import BY_LATER_VALUE, EndedClaim
from django_mq.stores.memory.runner import locked
from django_mq.stores.records import WORKER_LOST, Reaped

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Container
    from datetime import datetime
    from uuid import UUID

    from django_mq.stores.memory.history import FailedAttempt, Finished
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession

Item = TypeVar("Item")

#: How long the history of a queue that is gone is kept.
ORPHANED = timedelta(days=7)
#: How long a failed attempt is kept once its message is gone.
ATTEMPTS_KEPT = timedelta(days=30)


class Upkeep(Dying):
    """Every duty may be run at any time, by any handle."""

    @locked
    def promote(self, limit: int = 1000) -> int:
        now = self._now().timestamp()
        return sum(len(queue.engine.promote(now, limit)) for queue in self.broker.queues.values())

    @locked
    def reap(self, *, spare: int = 0) -> list[Reaped]:
        now = self._now()
        sessions = [one for one in self.broker.sessions.values() if one.number != spare]
        reaped = [self._reap(session) for session in sessions if session.deadline < now]
        self._move_dead(row for _, buried in reaped for row in buried)
        return [each for each, _ in reaped]

    def _reap(self, session: WorkerSession) -> tuple[Reaped, list[Row]]:
        """Forget a session; return the rows that are buried, too."""
        held = [row_of(entry) for entry in session.held()]
        lost = [row for row in held if self._lose(row, session)]
        dead = len(lost)
        session.unsubscribe()
        del self.broker.sessions[session.number]
        reaped = Reaped(session_id=session.number, name=session.info.name, released=len(held) - dead, dead=dead)
        return reaped, [row for row in lost if row.entry.state is DEAD]

    def _lose(self, row: Row, session: WorkerSession) -> bool:
        """Give back what a dead session held; True if it was a suspect that is buried now."""
        consumer, engine = session.consumer_of(row.queue), row.queue.engine
        row.entry.redelivered = True
        row.ended = EndedClaim(session.number, row.entry.claim_number, row.suspect, session)
        if row.suspect:
            self._record_loss(row, session)
        if not row.suspect:
            engine.release(row.entry, consumer)
        elif verdict(Ending.FAILED, row.entry.attempts, row.queue.settings, 0.0).verdict is not Verdict.DEAD:
            engine.fail(row.entry, consumer)
        else:
            engine.reject(row.entry, consumer)
            if row.dead_reason == BY_LATER_VALUE:
                self._back(row)
            else:
                self._bury(row, "worker lost")
            return True
        row.suspect = True
        self._back(row)
        return False

    def _record_loss(self, row: Row, session: WorkerSession) -> None:
        self.record_attempt(
            WORKER_LOST,
            queue_name=row.queue.name,
            number=row.entry.attempts,
            worker=session.info.name,
            message_id=row.message.message_id,
            correlation_id=row.message.correlation_id,
            type=row.message.type,
        )

    @locked
    def expire(self, limit: int = 1000) -> int:
        now = self._now().timestamp()
        rows: list[Row] = []
        while len(rows) < limit and self.broker.expiring.next_time() <= now:
            head = self.broker.expiring.head()
            if head is not None:
                self.broker.expiring.remove(head)
                rows.append(row_of(head))
        self._expire(rows)
        return len(rows)

    @locked
    def trim(self) -> int:
        rings = [queue for queue in self.broker.queues.values() if queue.rows and queue.room().is_ring]
        return sum(self._evict(queue, spared=max(row.id for row in queue.rows.values())) for queue in rings)

    @locked
    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        now = self._now()
        border = timedelta(0) if whole else self._shortest_kept()
        live = {row.message.message_id for row in self.broker.rows.values()}
        history = _drop(self.broker.history, lambda item: self._is_past(item, now, border), limit)
        attempts = _drop(self.broker.attempts, lambda item: _is_done_with(item, now, live), limit)
        dedup_ids = sum(queue.prune_dedup_ids(now) for queue in self.broker.queues.values())
        return history + attempts + dedup_ids + self.broker.lane.prune(now)

    def roll_up(self) -> int:
        """Nothing: there are no tables, and no pages that draw them."""
        return 0

    def _shortest_kept(self) -> timedelta:
        """Return the shortest time for which any queue keeps history, of those that keep some."""
        kept = (timedelta(days=queue.settings.history_days) for queue in self.broker.queues.values())
        return min((time for time in kept if time), default=ORPHANED)

    def _is_past(self, item: Finished, now: datetime, border: timedelta) -> bool:
        queue = self.broker.queues.get(item.queue_name)
        kept = ORPHANED if queue is None else timedelta(days=queue.settings.history_days)
        return now - item.finished_at > max(kept, min(border, ORPHANED))


def _is_done_with(attempt: FailedAttempt, now: datetime, live: Container[UUID | None]) -> bool:
    return attempt.message_id not in live and now - attempt.failed_at > ATTEMPTS_KEPT


def _drop(remembered: deque[Item], is_over: Callable[[Item], bool], limit: int) -> int:
    """Drop what is over, the oldest first; return how many that were."""
    over = list(islice((item for item in remembered if is_over(item)), limit))
    for item in over:
        remembered.remove(item)
    return len(over)
