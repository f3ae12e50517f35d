"""Sum up each minute when it is over, again when rows were late, and add minutes up to longer steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_mq.engine.rollups import (
    HOUR,
    MINUTE,
    PARTS,
    SETTLING,
    Figures,
    begin_of,
    closed,
    merged,
    missing,
    to_recount,
    with_few_types,
)
from django_mq.formats import COUNT_LIMIT
from django_mq.stores.sql.rollups import NO_MARK, MinuteMark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

#: How far back the duty looks for the mark of the arrivals, and for minutes to count again.
LOOK_BACK = 2 * HOUR


def now_of(store: Any) -> datetime:
    """Return the time of the database."""
    return datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds())


def sum_up(store: Any, _limit: int) -> dict[str, int]:
    """Sum up what is over and not summed up yet; return how many minutes, and how many of them again."""
    if not store.features.durable:
        return {"summed_up": 0, "summed_up_again": 0}
    current = begin_of(now_of(store) - SETTLING, MINUTE)
    marks = store.rollups.known(current - LOOK_BACK)
    new = [minute for minute in missing(marks, current) if _sum_up_one(store, minute, marks, current)]
    again = [minute for minute in to_recount(current) if minute in marks and _sum_up_late(store, minute, marks)]
    _add_up(store, {*again, *new, *_before_a_gap(store, new)}, current)
    return {"summed_up": len(new), "summed_up_again": len(again)}


def _sum_up_one(store: Any, minute: datetime, marks: Mapping[datetime, MinuteMark], current: datetime) -> bool:
    """Sum up a minute; return whether no other worker has."""
    is_newest = minute == current - MINUTE
    newest = store.rollups.newest_message() if is_newest else None
    figures, counted = store.rollups.sums(minute, _mark_before(marks, minute))
    if is_newest:
        for queue, counts in store.queues.counts(limit=COUNT_LIMIT).items():
            if counts.ready or counts.claimed or (queue, "") in figures:
                of_queue = figures.setdefault((queue, ""), Figures())
                of_queue.ready, of_queue.claimed = counts.ready, counts.claimed
    return bool(store.rollups.write(MINUTE, minute, with_few_types(figures), mark=MinuteMark(newest, counted)))


def _sum_up_late(store: Any, minute: datetime, marks: Mapping[datetime, MinuteMark]) -> bool:
    """Sum up a minute again if rows were added since; return whether there were."""
    if store.rollups.count(minute) <= marks[minute].counted:
        return False
    found, counted = store.rollups.sums(minute, _mark_before(marks, minute))
    figures = with_few_types(found)
    for _, step in store.rollups.steps(MINUTE, minute, minute + MINUTE).values():
        for key, before in step.items():
            # What cannot be counted later: messages that are gone without a history, and depths.
            late = figures.setdefault(key, Figures())
            late.arrived = max(late.arrived, before.arrived)
            late.ready, late.claimed = before.ready, before.claimed
    mark = MinuteMark(marks[minute].newest, counted)
    return bool(store.rollups.write(MINUTE, minute, figures, mark=mark, again=True))


def _mark_before(marks: Mapping[datetime, MinuteMark], minute: datetime) -> int:
    """Return a message id below all that were published in a minute."""
    # A mark that was made late, for a minute that no worker had summed up in time, has no id.
    older = [mark.newest for when, mark in marks.items() if when < minute - MINUTE and mark.newest is not None]
    return max(older, default=NO_MARK)


def _before_a_gap(store: Any, new: Collection[datetime]) -> list[datetime]:
    """Return the last minute before those that no worker has summed up: its longer steps are over since."""
    before = store.rollups.last_before(min(new)) if new else None
    return [before] if before is not None and before < min(new) - MINUTE else []


def _add_up(store: Any, changed: Iterable[datetime], current: datetime) -> None:
    """Write the longer steps that hold these minutes."""
    for step, part in PARTS.items():
        for begin in closed(step, changed, current):
            parts = store.rollups.steps(part, begin, begin + step).values()
            minutes = sum(known for known, _ in parts)
            figures = merged(figures for _, figures in parts)
            store.rollups.write(step, begin, figures, mark=MinuteMark(None, 0), minutes=minutes, again=True)


def prune(store: Any, limit: int) -> int:
    """Delete the steps that are too old; return how many."""
    return store.rollups.prune(now_of(store), limit) if store.features.durable else 0
