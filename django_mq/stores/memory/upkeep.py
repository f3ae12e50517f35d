"""Upkeep: promote, reap, expire, trim, prune."""

from __future__ import annotations

from datetime import timedelta
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from django_mq.engine.departing import Cause
from django_mq.engine.expiry import expiry_order
from django_mq.engine.fate import Fate
from django_mq.stores.memory.row import EndedClaim
from django_mq.stores.memory.runner import locked
from django_mq.stores.memory.steering import Steering
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


class Upkeep(Steering):
    """Every duty may be run at any time, by any handle."""

    @locked
    def promote(self, limit: int = 1000) -> int:
        now = self._now()
        for queue in self.broker.queues.values():
            queue.end_pause(now)
        return sum(len(queue.engine.promote(now.timestamp(), limit)) for queue in self.broker.queues.values())

    @locked
    def reap(self, *, spare: int = 0) -> list[Reaped]:
        now = self._now()
        sessions = [one for one in self.broker.sessions.values() if one.number != spare]
        reaped = [self._reap(session) for session in sessions if session.deadline < now]
        self._send_dead(row for _, dead in reaped for row in dead)
        return [each for each, _ in reaped]

    def _reap(self, session: WorkerSession) -> tuple[Reaped, list[Row]]:
        """Forget a session; return the dead letters that it leaves, too."""
        for row in session.held():
            if row.entry.suspect:
                self._record(row, WORKER_LOST, session.info.name)
            row.ended = EndedClaim(session.number, row.entry.claim_number, row.entry.suspect, session)
            row.let_go()
        lost = session.lose(self._now().timestamp())
        dead = [row for row, fate in lost if fate is Fate.DEAD]
        del self.broker.sessions[session.number]
        released = len(lost) - len(dead)
        return Reaped(session_id=session.number, name=session.info.name, released=released, dead=len(dead)), dead

    @locked
    def expire(self, limit: int = 1000) -> int:
        now = self._now().timestamp()
        engines = [queue.engine for queue in self.broker.queues.values()]
        overdue = [(engine, entry) for engine in engines for entry in engine.overdue(now, limit)]
        overdue = nsmallest(limit, overdue, key=lambda pair: expiry_order(pair[1]))
        sent = self.broker.engine.send_all(overdue, now, expired=True)
        for engine, entry in overdue:
            if entry not in sent:
                engine.discard(entry, Cause.EXPIRED)
        return len(overdue)

    @locked
    def trim(self) -> int:
        return sum(queue.engine.trim() for queue in self.broker.queues.values())

    @locked
    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        now = self._now()
        border = timedelta(0) if whole else self._shortest_kept()
        live = {row.message.message_id for row in self.broker.rows.values()}
        history = _drop(self.broker.history, lambda item: self._is_past(item, now, border), limit)
        attempts = _drop(self.broker.attempts, lambda item: _is_done_with(item, now, live), limit)
        dedup_ids = sum(queue.engine.duplicate_ids.prune(now.timestamp()) for queue in self.broker.queues.values())
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
