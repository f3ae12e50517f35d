"""Retention: delete what is old, and sum up each past minute once, for charts.

The worker that inserts the marker row of a minute sums the minute up in the same transaction. The others see the
marker, or wait for its commit, and do nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_mq.engine.percentiles import percentile
from django_mq.stores.records import WORKER_LOST, time_of
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import maintenance as subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.sql.fairness import FairPlaces

MINUTE = timedelta(minutes=1)
#: How long after its end a minute is summed up. Transactions that are still open then are not counted.
SETTLING = timedelta(seconds=5)
#: How many past minutes are summed up. No worker was alive in earlier ones, so no message finished.
BACK = 10
#: How far back a worker looks for the mark of the arrivals.
MARKS = timedelta(hours=1)
#: Messages of a minute that the percentiles are taken of.
SAMPLE = 20_000
#: A mark above every message. Where no mark is known, arrivals are not counted: the statement would read all
#: messages.
ALL = 2**62
#: The columns with counts, and the kinds of ``sum_minute``; all other kinds are "removed".
COUNTED = ("arrived", "accepted", "expired", "removed", "failed", "redelivered")
KINDS = {-1: "failed", 0: "arrived", 1: "accepted", 2: "expired"}


@dataclass(eq=False)
class Retention(Part, subjects.Retention):
    fairness: FairPlaces

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        history = len(self.rows("prune_history", limit=limit, whole=whole))
        self.rows("prune_declined", limit=limit)
        self.rows("prune_stops", limit=limit)
        self.fairness.prune(limit)
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
        now = datetime.now(UTC) + timedelta(seconds=self.database.now_skew_seconds()) - SETTLING
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
