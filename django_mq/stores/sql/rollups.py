"""The figures of the past: sums over the history and the failed attempts, and the rows that keep them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.histograms import as_text, merged
from django_mq.engine.rollups import ALL, COUNTED, KEPT, MINUTE, Figures, added_up
from django_mq.stores.records import WORKER_LOST, time_of
from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from django_mq.engine.rollups import Step

#: A mark above every message. Where no mark is known, arrivals are not counted: the statement would read all
#: messages.
NO_MARK = 2**62
#: What the outcomes of the history count as; all others are "removed".
KINDS = {1: "accepted", 2: "expired", 6: "dead"}


#: The figures that are columns as they are.
WRITTEN = (*COUNTED, "ready", "claimed", "wait_seconds", "run_seconds")


class MinuteMark(NamedTuple):
    """What is known of a minute that has been summed up."""

    #: The highest message id then; None if the minute was summed up late.
    newest: int | None
    #: How many finished messages and failed attempts there were.
    counted: int


class Rollups(Part):
    def known(self, since: datetime) -> dict[datetime, MinuteMark]:
        """Return the minutes since a time that are summed up, oldest first."""
        return {time_of(minute): MinuteMark(*mark) for minute, *mark in self.rows("rolled_up", since=since)}

    def last_before(self, time: datetime) -> datetime | None:
        """Return the last minute before a time that is summed up."""
        minute = self.rows("rolled_up_before", before=time)[0][0]
        return None if minute is None else time_of(minute)

    def newest_message(self) -> int:
        """Return the highest id of a message."""
        return self.rows("newest_message")[0][0] or 0

    def count(self, minute: datetime) -> int:
        """Return how many messages finished and attempts failed in a minute."""
        number: int = self.rows("count_minute", start=minute, end=minute + MINUTE)[0][0]
        return number

    def sums(self, minute: datetime, mark: int = NO_MARK) -> tuple[Step, int]:
        """Return the figures of a minute by queue and type, and from how many rows they are.

        ``mark`` is below the ids of its arrivals.
        """
        found: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)
        span, counted = {"start": minute, "end": minute + MINUTE}, 0
        for queue, type_, outcome, waited, number, arrived, again, ms in self.rows("sum_ended", **span):
            figures, kind = found[queue, type_], KINDS.get(outcome, "removed")
            setattr(figures, kind, getattr(figures, kind) + number)
            counted += number
            figures.arrived += arrived
            figures.redelivered += again
            if waited is not None:
                figures.wait_seconds += float(ms) / 1000
                figures.waits[str(int(waited))] = number
        for queue, type_, ran, number, ms in self.rows("sum_runs", **span):
            figures = found[queue, type_]
            figures.run_seconds += float(ms) / 1000
            figures.runs[str(int(ran))] = number
        for queue, type_, number in self.rows("sum_arrived", mark=mark, **span):
            found[queue, type_].arrived += number
        for queue, type_, failed, again, dead in self.rows("sum_failed", lost=WORKER_LOST.error, **span):
            figures = found[queue, type_]
            figures.failed += failed
            counted += failed
            figures.redelivered += again
            figures.dead += dead
        return dict(found), counted

    def steps(self, step: timedelta, start: datetime, end: datetime) -> dict[datetime, tuple[int, Step]]:
        """Return the known minutes and the figures by queue and type of the steps of a length within a span."""
        found: dict[datetime, tuple[int, Step]] = {}
        span = {"start": start, "end": end}
        for begin, minutes, queue, type_, *values in self.rows("read_steps", seconds=_seconds(step), **span):
            known, figures = found.get(time_of(begin), (0, {}))
            if (queue, type_) != ALL:
                figures[queue, type_] = _figures(values)
            found[time_of(begin)] = max(known, minutes), figures
        return found

    def write(
        self,
        step: timedelta,
        begin: datetime,
        figures: Step,
        *,
        mark: MinuteMark,
        minutes: int = 1,
        again: bool = False,
    ) -> bool:
        """Write the figures of a step, those of all queues first; return whether it was not there.

        ``again`` replaces what is there.
        """
        common = {"seconds": _seconds(step), "start": begin, "minutes": minutes}
        total = added_up(figures.values(), beside=True)
        with self.database.transaction():
            if again:
                self.rows("forget_step", seconds=_seconds(step), start=begin)
            if not self.database.insert("write_step", **common, **mark._asdict(), **_values(ALL, total)):
                return False
            common |= {"newest": None, "counted": 0}
            every = [{**common, **_values(key, each)} for key, each in figures.items()]
            self.database.insert_many("write_parts_of_step", every)
        return True

    def prune(self, now: datetime, limit: int) -> int:
        """Delete the steps that are too old, and the minutes of earlier releases; return how many."""
        steps = sum(
            len(self.rows("prune_steps", seconds=_seconds(step), before=now - kept, limit=limit))
            for step, kept in KEPT.items()
        )
        return steps + len(self.rows("prune_minutes", before=now - KEPT[MINUTE], limit=limit))


def _seconds(step: timedelta) -> int:
    return int(step.total_seconds())


def _figures(values: list[Any]) -> Figures:
    *counts, ready, claimed, wait_seconds, run_seconds, waits, runs = values
    counted = dict(zip(COUNTED, counts, strict=True))
    sums = {"wait_seconds": wait_seconds, "run_seconds": run_seconds}
    return Figures(**counted, ready=ready, claimed=claimed, **sums, waits=merged([waits]), runs=merged([runs]))


def _values(key: tuple[str, str], figures: Figures) -> Mapping[str, Any]:
    queue, type_ = key
    spans = {"waits": as_text(figures.waits), "runs": as_text(figures.runs)}
    return {"queue": queue, "type": type_} | {name: getattr(figures, name) for name in WRITTEN} | spans
