"""Maintenance: promote, reap, expire, trim, prune, and sum up each past minute once, for charts.

The worker that inserts the marker row of a minute sums the minute up in the same transaction. The others see the
marker, or wait for its commit, and do nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.engine.decisions.decline import BY_ALL, Audience, audience_of, is_settled, is_unwanted
from django_mq.engine.decisions.selection import may_want
from django_mq.engine.decisions.verdict import AtOnce, Ending, Verdict, verdict
from django_mq.engine.percentiles import percentile
from django_mq.stores.records import WORKER_LOST, Reaped
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import first_of
from django_mq.stores.values import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django_mq.stores.sql.store import SQLStore

#: The duties of maintenance that ``due_duties`` asks for, in the order of its columns.
ASKED = ("reap", "promote", "expire", "trim", "take_over", "delete_unused", "bury_unwanted", "cover")
MINUTE = timedelta(minutes=1)
#: How long after its end a minute is summed up. Transactions that are still open then are not counted.
SETTLING = timedelta(seconds=5)
#: How many past minutes are summed up. No worker was alive in earlier ones, so no message finished.
BACK = 10
#: How far back a worker looks for the mark of the arrivals.
MARKS = timedelta(hours=1)
#: Declines of a queue that one round reads.
DECLINES = 20_000
#: Messages of a minute that the percentiles are taken of.
SAMPLE = 20_000
#: A mark above every message. Where no mark is known, arrivals are not counted: the statement would read all
#: messages.
ALL = 2**62
#: The columns with counts, and the kinds of ``sum_minute``; all other kinds are "removed".
COUNTED = ("arrived", "accepted", "expired", "removed", "failed", "redelivered")
KINDS = {-1: "failed", 0: "arrived", 1: "accepted", 2: "expired"}


class Maintenance(Part):
    def __init__(self, store: SQLStore) -> None:
        super().__init__(store)
        #: By queue with declined messages, its consumers as last seen.
        self._audiences: dict[int, Audience] = {}

    #: Seconds after the start of the database in which no session is reaped, because none could be renewed before.
    #: None is one deadline.
    grace_seconds: float | None = None

    def due_duties(self) -> dict[str, bool]:
        [found] = self.rows("due_duties", stalled_seconds=STALLED_SECONDS, **self._grace())
        return dict(zip(ASKED, map(bool, found), strict=True))

    def reap(self, *, spare: int = 0) -> list[Reaped]:
        was_last = False
        with self.database.transaction():
            expired = self.rows("lock_expired_sessions", spare=spare, **self._grace())
            sessions = first_of(expired)
            released = self.store.messages.release_held_by_expired(sessions)
            suspects = [row for row in released if row[2]]
            for session in sorted({row[0] for row in suspects}):
                lost = [(row[1], True, WORKER_LOST) for row in suspects if row[0] == session]
                self.store.messages.record_attempts(session, lost)
            replaced = set(self.store.messages.drop_replaced([row[1] for row in released]))
            decided = {row[1]: verdict(Ending.FAILED, row[3], AtOnce(row[4])).verdict for row in suspects}
            dead = {id_ for id_, what in decided.items() if what is Verdict.DEAD}
            if buried := sorted(dead - replaced):
                self.store.messages.bury(buried, "worker lost")
                self.store.moves.send_dead(buried)
            if sessions:
                was_last = self.store.sessions.drop(sessions)
        if was_last:
            self.store.queues.delete_unused()
        held = {id_: {row[1] for row in released if row[0] == id_} for id_ in sessions}
        return [Reaped(id_, name, len(held[id_] - dead), len(held[id_] & dead)) for id_, name in expired]

    def _grace(self) -> dict[str, Any]:
        seconds = self.grace_seconds
        return {"grace_seconds": conf.load().SESSION_SECONDS if seconds is None else seconds}

    def expire(self, limit: int = 1000) -> int:
        self.store.last_values.promote()  # a value that was due before its end has replaced others
        with self.database.transaction():
            ids = first_of(self.rows("find_expired", limit=limit))
            if not ids:
                return 0
            self.store.messages.set_expired_aside(ids)
            return len(self.store.messages.drop_replaced(ids)) + self.store.moves.send_expired(ids)

    def trim(self) -> int:
        return sum(self._trim(name) for (name,) in self.rows("overfull_rings"))

    def _trim(self, name: str) -> int:
        """Apply the limits of one ring, as a publisher does, in a transaction of its own."""
        with self.database.transaction():
            evicted = 0
            for capacity in self.store.capacity.of([name], wait=False).values():
                newest = self.rows("newest_in_queue", queue_id=capacity.queue_id)[0][0]
                evicted += self.store.capacity.settle_in(capacity, 0, 0, newest=newest or 0)
            return evicted

    def bury_unwanted(self) -> int:
        # The audiences are those that this process has seen, by its own clock.
        now = time.monotonic() + self.database.offset().total_seconds()
        grace_seconds = conf.load().DECLINE_GRACE_SECONDS
        queues = self.rows("declining_queues")
        consumers = self._consumers() if queues else {}
        before, self._audiences = self._audiences, {}
        for id_, name in queues:
            self._audiences[id_] = audience_of(before.get(id_), frozenset(consumers.get(name, ())), now)
        settled = [each for each in queues if is_settled(self._audiences[each[0]], now, grace_seconds)]
        return sum(self._bury_unwanted(id_, name, consumers[name], grace_seconds) for id_, name in settled)

    def _consumers(self) -> dict[str, dict[int, set[str]]]:
        """Return the living sessions that consume each queue, with the selectors of their consumers."""
        consumers: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for session, queues, queue, selector in self.rows("living_consumers"):
            for name in {*json.loads(queues), queue} - {None}:
                consumers[name][session].update({selector} if name == queue else ())
        return {
            name: {session: texts or {""} for session, texts in each.items()} for name, each in consumers.items()
        }

    def _bury_unwanted(
        self, queue_id: int, name: str, consumers: Mapping[int, set[str]], grace_seconds: float
    ) -> int:
        with self.database.transaction():
            rows = self.rows("declined", queue_id=queue_id, since_seconds=-grace_seconds, limit=DECLINES)
            by_message = {id_: list(some) for id_, some in groupby(rows, key=itemgetter(0))}
            old = {id_: some for id_, some in by_message.items() if all(row[2] for row in some)}
            selecting = [session for session, texts in consumers.items() if "" not in texts]
            known: dict[int, Any] = dict.fromkeys(old)
            if selecting:
                known = dict(self.store.claims.described(name, [*old]))
            unwanted = []
            for id_, message in known.items():
                others = {session for session in selecting if not may_want(consumers[session], message)}
                if is_unwanted({row[1] for row in old[id_]}, consumers.keys() - others, old[id_][0][3]):
                    unwanted.append(id_)
            if unwanted:
                self.store.messages.bury(unwanted, BY_ALL)
                self.store.moves.send_dead(unwanted)
                self.rows("drop_declined", queue_id=queue_id, ids=unwanted)
        return len(unwanted)

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        history = len(self.rows("prune_history", limit=limit, whole=whole))
        self.rows("prune_declined", limit=limit)
        past = ("prune_attempts", "prune_rollups", "prune_task_results")
        names = (*past, "prune_volatile_messages", "prune_volatile_bindings")
        return history + sum(len(self.rows(name, limit=limit)) for name in names) + self._prune_duplicates(limit)

    def _prune_duplicates(self, limit: int) -> int:
        """Forget duplicate ids that are too old, or too many for their queue."""
        pruned = 0
        for queue_id, count, seconds in self.rows("duplicate_windows"):
            horizon = self.rows("duplicate_horizon", queue_id=queue_id, kept=count - 1) if count else []
            window = {"horizon": time_of(horizon[0][0]) if horizon else None, "seconds": seconds}
            if window != {"horizon": None, "seconds": None}:
                pruned += len(self.rows("prune_duplicates", queue_id=queue_id, limit=limit, **window))
        return pruned

    # The minutes of charts.

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
        # A mark from before the minute is below all that was published in it. A mark made later, for a minute that
        # no worker had summed up in time, is null.
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
        waits, runs = defaultdict[str, Counter[float]](Counter), defaultdict[str, Counter[float]](Counter)
        span = {"start": minute, "end": minute + MINUTE}
        for queue, kind, number, again in self.rows("sum_minute", mark=mark, lost=WORKER_LOST.error, **span):
            counts[queue] += Counter({KINDS.get(kind, "removed"): number, "redelivered": again})
        for queue, *times in self.rows("sample_minute", limit=SAMPLE, **span):
            ready, claimed, finished = map(time_of, times)
            waits[queue][max(0.0, (claimed - ready).total_seconds())] += 1
            runs[queue][max(0.0, (finished - claimed).total_seconds())] += 1
        for queue in counts.keys() | waits.keys():
            counted = {name: counts[queue][name] for name in COUNTED}
            spans = {"wait": waits[queue], "run": runs[queue]}
            said = {f"{name}_p{part}": percentile(spans[name], part) for name in spans for part in (50, 95)}
            yield {"minute": minute, "queue": queue} | counted | said
