"""Minutes that are over, summed up once each: small rows for charts, so that no page reads the history.

The worker that takes a minute's marker row sums it up, in the same transaction; the others
see the marker, or wait for it and then leave.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_mq.stores.records import WORKER_LOST
from django_mq.stores.sql.runner import Runner
from django_mq.stores.values import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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
#: What ``sum_minute`` calls each kind, and the column it adds to.
KINDS = {-1: "failed", 0: "arrived", 1: "accepted", 2: "expired", 3: "removed", 4: "removed"}
#: The columns that are counts.
COUNTED = ("arrived", "accepted", "expired", "removed", "failed", "redelivered")


@dataclass(slots=True)
class Minute:
    """What one queue saw in one minute."""

    arrived: int = 0
    accepted: int = 0
    expired: int = 0
    removed: int = 0
    failed: int = 0
    redelivered: int = 0
    waits: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """Return the columns of its row."""
        # Not asdict, which copies the lists number by number.
        columns: dict[str, Any] = {name: getattr(self, name) for name in COUNTED}
        for name, times in (("wait", self.waits), ("run", self.runs)):
            spans = sorted(times)
            columns |= {f"{name}_p{percent}": percentile(spans, percent) for percent in (50, 95)}
        return columns


def percentile(spans: list[float], percent: int) -> float | None:
    """Return the nearest-rank percentile of sorted spans, None of none."""
    return spans[(len(spans) * percent + 99) // 100 - 1] if spans else None


class Rollups(Runner):
    """Sum up, and forget."""

    def roll_up(self) -> int:
        now = datetime.now(UTC) + timedelta(seconds=self.now_skew_seconds()) - SETTLING
        current = now.replace(second=0, microsecond=0)
        marks = {time_of(minute): mark for minute, mark in self._rows("rolled_up", since=current - MARKS)}
        minutes = [current - MINUTE * number for number in range(BACK, 0, -1)]
        missing = [minute for minute in minutes if minute not in marks]
        if not missing:
            return 0
        newest = self._rows("newest_message")[0][0] or 0
        return sum(
            self._roll_up_one(minute, marks, newest if minute == minutes[-1] else None) for minute in missing
        )

    def _roll_up_one(self, minute: datetime, marks: dict[datetime, int | None], newest: int | None) -> bool:
        # A mark made before the minute began is below whatever was published in it. One that was
        # made later, for a minute that nobody had summed up in time, is no such mark: it is null.
        older = [mark for when, mark in marks.items() if when < minute - MINUTE and mark is not None]
        with self._transaction():
            if not self._take_minute(minute, newest):
                return False
            for queue, seen in self._minute(minute, max(older, default=ALL)):
                self._rows("write_minute", minute=minute, queue=queue, **seen.columns())
        return True

    def _take_minute(self, minute: datetime, newest: int | None) -> bool:
        return bool(self._rows("take_minute", minute=minute, newest=newest))

    def _minute(self, minute: datetime, mark: int) -> Iterator[tuple[str, Minute]]:
        found = defaultdict[str, Minute](Minute)
        span = {"start": minute, "end": minute + MINUTE}
        for queue, kind, number, again in self._rows("sum_minute", mark=mark, lost=WORKER_LOST.error, **span):
            column = KINDS.get(kind, "removed")
            setattr(found[queue], column, getattr(found[queue], column) + number)
            found[queue].redelivered += again
        for queue, *times in self._rows("sample_minute", limit=SAMPLE, **span):
            ready, claimed, finished = map(time_of, times)
            found[queue].waits.append(max(0.0, (claimed - ready).total_seconds()))
            found[queue].runs.append(max(0.0, (finished - claimed).total_seconds()))
        yield from found.items()
