"""Upkeep: promote, reap, expire, trim, prune."""

from __future__ import annotations

from typing import Any

from django_mq import conf
from django_mq.engine.last_value import BY_LATER_VALUE
from django_mq.engine.lease import STALLED_SECONDS
from django_mq.engine.verdict import BY_EXPIRY, AtOnce, Ending, Verdict, verdict
from django_mq.stores.chores import Chores
from django_mq.stores.records import WORKER_LOST, Reaped
from django_mq.stores.sql.admitting import Admitting
from django_mq.stores.sql.rollups import Rollups
from django_mq.stores.sql.sessions import Sessions
from django_mq.stores.sql.steering import REPLACED
from django_mq.stores.values import time_of


class Upkeep(Sessions, Admitting, Rollups):
    """Every duty is safe to run in many workers, twice."""

    def chores(self) -> Chores:
        [found] = self._rows("chores", stalled_seconds=STALLED_SECONDS, **self._grace())
        return Chores(*map(bool, found))

    def promote(self, limit: int = 1000) -> int:
        return len(self._rows("promote_all", limit=limit))

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        with self._transaction():
            lapsed = self._rows("lock_lapsed_sessions", spare=spare, **self._grace())
            sessions = [row[0] for row in lapsed]
            released = self._rows("release_lapsed", sessions=sessions)
            suspects = [row for row in released if row[2]]
            self._record_losses(dict(lapsed), suspects)
            replaced = set(self._drop_replaced([row[1] for row in released]))
            decided = {row[1]: verdict(Ending.FAILED, row[3], AtOnce(row[4])).verdict for row in suspects}
            dead = {id_ for id_, what in decided.items() if what is Verdict.DEAD}
            if buried := sorted(dead - replaced):
                self._rows("bury", ids=buried, reason="worker lost")
                self._move_dead(buried)
            if sessions:
                self._drop_sessions(sessions)
        return [self._reaped(id_, name, released, dead) for id_, name in lapsed]

    def _record_losses(self, names: dict[int, str], counted: list[tuple[Any, ...]]) -> None:
        """Remember the attempts that ended with their worker, which nobody else could report."""
        for session in sorted({row[0] for row in counted}):
            ids = [row[1] for row in counted if row[0] == session]
            self._rows(
                "record_attempts",
                worker=names.get(session) or f"session {session}",
                ids=ids,
                counted=[True] * len(ids),
                errors=[WORKER_LOST.error] * len(ids),
                details=[WORKER_LOST.detail] * len(ids),
                tracebacks=[WORKER_LOST.traceback] * len(ids),
            )

    def _grace(self) -> dict[str, Any]:
        seconds = self.grace_seconds
        return {"grace_seconds": conf.load().SESSION_SECONDS if seconds is None else seconds}

    #: How long after the database's start no session is reaped: they could not renew meanwhile.
    #: None for one deadline.
    grace_seconds: float | None = None

    @staticmethod
    def _reaped(session_id: int, name: str, released: list[tuple[Any, ...]], dead: set[int]) -> Reaped:
        mine = {row[1] for row in released if row[0] == session_id}
        return Reaped(session_id=session_id, name=name, released=len(mine - dead), dead=len(mine & dead))

    def expire(self, limit: int = 1000) -> int:
        with self._transaction():
            ids = [row[0] for row in self._rows("find_expired", limit=limit)]
            if not ids:
                return 0
            self._rows("set_expired_aside", ids=ids, reason=BY_EXPIRY, replaced=BY_LATER_VALUE)
            return self._remove(ids, REPLACED, reason=BY_LATER_VALUE) + self._send_expired(ids)

    def trim(self) -> int:
        return sum(self._trim(name) for (name,) in self._rows("overfull_rings"))

    def _trim(self, name: str) -> int:
        """Do what a publisher into a ring would do, in a transaction of its own, as if nothing had come."""
        with self._transaction():
            evicted = 0
            for room in self._rooms([name], wait=False).values():
                newest = self._rows("newest_in_queue", queue_id=room.queue_id)[0][0]
                evicted += self._settle_in(room, 0, 0, newest=newest or 0)
            return evicted

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        history = len(self._rows("prune_history", limit=limit, whole=whole))
        past = ("prune_attempts", "prune_rollups", "prune_task_results")
        names = (*past, "prune_volatile_messages", "prune_volatile_bindings")
        return history + sum(len(self._rows(name, limit=limit)) for name in names) + self._prune_duplicates(limit)

    def _prune_duplicates(self, limit: int) -> int:
        """Forget duplicate ids that are over their time, or before the last so many of their queue."""
        pruned = 0
        for queue_id, count, seconds in self._rows("duplicate_windows"):
            horizon = self._rows("duplicate_horizon", queue_id=queue_id, kept=count - 1) if count else []
            window = {"horizon": time_of(horizon[0][0]) if horizon else None, "seconds": seconds}
            if window != {"horizon": None, "seconds": None}:
                pruned += len(self._rows("prune_duplicates", queue_id=queue_id, limit=limit, **window))
        return pruned
