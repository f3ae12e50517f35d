"""Maintenance: promote, reap, expire, trim, prune, and sum up the minutes that are over, once each, for charts.

The worker that takes a minute's marker row sums it up, in the same transaction; the others see the marker, or wait
for it and then leave.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.claim import STALLED_SECONDS
from django_mq.engine.last_value import BY_LATER_VALUE
from django_mq.engine.verdict import AtOnce, Ending, Verdict, verdict
from django_mq.stores.records import WORKER_LOST, Chores, Reaped
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import REPLACED, first_of
from django_mq.stores.values import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.sql.database import Rows


class Maintenance(Part):
    """Every duty is safe to run in many workers, twice."""

    #: How long after the database's start no session is reaped: they could not renew meanwhile.
    #: None for one deadline.
    grace_seconds: float | None = None

    def chores(self) -> Chores:
        [found] = self.rows("chores", stalled_seconds=STALLED_SECONDS, **self._grace())
        return Chores(*map(bool, found))

    def promote(self, limit: int = 1000) -> int:
        return self.store.messages.promote(limit)

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        with self.database.transaction():
            expired = self.rows("lock_expired_sessions", spare=spare, **self._grace())
            sessions = first_of(expired)
            released = self.store.messages.release_held_by_expired(sessions)
            suspects = [row for row in released if row[2]]
            self._record_losses(dict(expired), suspects)
            replaced = set(self.store.messages.drop_replaced([row[1] for row in released]))
            decided = {row[1]: verdict(Ending.FAILED, row[3], AtOnce(row[4])).verdict for row in suspects}
            dead = {id_ for id_, what in decided.items() if what is Verdict.DEAD}
            if buried := sorted(dead - replaced):
                self.store.messages.bury(buried, "worker lost")
                self.store.moves.move_dead(buried)
            if sessions:
                self.store.sessions.drop(sessions)
        return [self._reaped(id_, name, released, dead) for id_, name in expired]

    def _record_losses(self, names: dict[int, str], counted: Rows) -> None:
        for session in sorted({row[0] for row in counted}):
            lost = [(row[1], True, WORKER_LOST) for row in counted if row[0] == session]
            self.store.messages.record_attempts(names.get(session) or f"session {session}", lost)

    def _grace(self) -> dict[str, Any]:
        seconds = self.grace_seconds
        return {"grace_seconds": conf.load().SESSION_SECONDS if seconds is None else seconds}

    @staticmethod
    def _reaped(session_id: int, name: str, released: Rows, dead: set[int]) -> Reaped:
        mine = {row[1] for row in released if row[0] == session_id}
        return Reaped(session_id=session_id, name=name, released=len(mine - dead), dead=len(mine & dead))

    def expire(self, limit: int = 1000) -> int:
        with self.database.transaction():
            ids = first_of(self.rows("find_expired", limit=limit))
            if not ids:
                return 0
            self.store.messages.set_expired_aside(ids)
            return len(
                self.store.messages.remove(ids, REPLACED, reason=BY_LATER_VALUE)
            ) + self.store.moves.send_expired(ids)

    def trim(self) -> int:
        return sum(self._trim(name) for (name,) in self.rows("overfull_rings"))

    def _trim(self, name: str) -> int:
        """Do what a publisher into a ring would do, in a transaction of its own, as if nothing had come."""
        with self.database.transaction():
            evicted = 0
            for capacity in self.store.capacity.of([name], wait=False).values():
                newest = self.rows("newest_in_queue", queue_id=capacity.queue_id)[0][0]
                evicted += self.store.capacity.settle_in(capacity, 0, 0, newest=newest or 0)
            return evicted

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        history = len(self.rows("prune_history", limit=limit, whole=whole))
        past = ("prune_attempts", "prune_rollups", "prune_task_results")
        names = (*past, "prune_volatile_messages", "prune_volatile_bindings")
        return history + sum(len(self.rows(name, limit=limit)) for name in names) + self._prune_duplicates(limit)

    def _prune_duplicates(self, limit: int) -> int:
        """Forget duplicate ids that are over their time, or before the last so many of their queue."""
        pruned = 0
        for queue_id, count, seconds in self.rows("duplicate_windows"):
            horizon = self.rows("duplicate_horizon", queue_id=queue_id, kept=count - 1) if count else []
            window = {"horizon": time_of(horizon[0][0]) if horizon else None, "seconds": seconds}
            if window != {"horizon": None, "seconds": None}:
                pruned += len(self.rows("prune_duplicates", queue_id=queue_id, limit=limit, **window))
        return pruned


MINUTE = timedelta(minutes=1)
#: How long after its end a minute is summed up: transactions that are still open then are missed.
SETTLING = timedelta(seconds=5)
#: How many minutes are looked back at. In those before no worker was alive, so nothing finished.
BACK = 10
#: How far back the mark of the arrivals is looked for.
MARKS = timedelta(hours=1)
#: Messages of a minute that the percentiles are taken of.
SAMPLE = 20_000
#: A mark above every message: without one, those that are still here are not counted, rather than all looked at.
ALL = 2**62
#: The columns that are counts, and what ``sum_minute`` calls some of them; all other kinds were removed.
COUNTED = ("arrived", "accepted", "expired", "removed", "failed", "redelivered")
KINDS = {-1: "failed", 0: "arrived", 1: "accepted", 2: "expired"}


def percentile(spans: list[float], percent: int) -> float | None:
    """Return the nearest-rank percentile of sorted spans, None of none."""
    return spans[(len(spans) * percent + 99) // 100 - 1] if spans else None


class Rollups(Part):
    def roll_up(self) -> int:
        now = datetime.now(UTC) + timedelta(seconds=self.store.now_skew_seconds()) - SETTLING
        current = now.replace(second=0, microsecond=0)
        marks = {time_of(minute): mark for minute, mark in self.rows("rolled_up", since=current - MARKS)}
        minutes = [current - MINUTE * number for number in range(BACK, 0, -1)]
        missing = [minute for minute in minutes if minute not in marks]
        if not missing:
            return 0
        newest = self.rows("newest_message")[0][0] or 0
        return sum(
            self._roll_up_one(minute, marks, newest if minute == minutes[-1] else None) for minute in missing
        )

    def _roll_up_one(self, minute: datetime, marks: dict[datetime, int | None], newest: int | None) -> bool:
        # A mark made before the minute began is below whatever was published in it. One that was
        # made later, for a minute that nobody had summed up in time, is no such mark: it is null.
        older = [mark for when, mark in marks.items() if when < minute - MINUTE and mark is not None]
        with self.database.transaction():
            if not self.database.insert("take_minute", minute=minute, newest=newest):
                return False
            for row in self._minute(minute, max(older, default=ALL)):
                self.rows("write_minute", **row)
        return True

    def _minute(self, minute: datetime, mark: int) -> Iterator[dict[str, Any]]:
        """Yield the row of each queue in which something happened."""
        counts = defaultdict[str, Counter[str]](Counter)
        waits, runs = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        span = {"start": minute, "end": minute + MINUTE}
        for queue, kind, number, again in self.rows("sum_minute", mark=mark, lost=WORKER_LOST.error, **span):
            counts[queue] += Counter({KINDS.get(kind, "removed"): number, "redelivered": again})
        for queue, *times in self.rows("sample_minute", limit=SAMPLE, **span):
            ready, claimed, finished = map(time_of, times)
            waits[queue].append(max(0.0, (claimed - ready).total_seconds()))
            runs[queue].append(max(0.0, (finished - claimed).total_seconds()))
        for queue in counts.keys() | waits.keys():
            counted = {name: counts[queue][name] for name in COUNTED}
            spans = {"wait": sorted(waits[queue]), "run": sorted(runs[queue])}
            said = {f"{name}_p{part}": percentile(spans[name], part) for name in spans for part in (50, 95)}
            yield {"minute": minute, "queue": queue} | counted | said
