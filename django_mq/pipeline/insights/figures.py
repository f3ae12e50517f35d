"""The figures of one queue's day, by hour and level.

A message stands in line from ``ready`` until ``left``: until it was claimed for the last
time, or was finished unclaimed. The input has all messages that stood in line at some time of the day,
also those that came before it or left after it, so that the depth continues over midnight.

Figures are computed on sorted arrays. The depth at an instant is the number of messages that
came before, less the number that left by then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from django_mq.engine.histograms import LEAST_SECONDS, PER_DOUBLING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    Times = NDArray[np.int64]
    Flags = NDArray[np.bool_]

SECOND = 1_000_000
HOUR = 3600 * SECOND
HOURS = 24
ALL_LEVELS = -1
PERCENTS = (50, 95, 99)
#: The time of an event that has not happened yet.
NEVER = np.iinfo(np.int64).max // 4
#: The result for a queue's day; ``hour`` is in microseconds since 1970.
SCHEMA = """
    queue string, level int, hour bigint, arrivals bigint, completions bigint, expired bigint, removed bigint,
    retries bigint, first_successes bigint, depth_start bigint, depth_max bigint, depth_mean double,
    slo_misses bigint, inversions bigint, starved bigint, consumers bigint, fairness double,
    wait_p50 double, wait_p95 double, wait_p99 double, wait_sum double, wait_histogram string,
    run_p50 double, run_p95 double, run_p99 double, run_sum double, run_histogram string
"""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """From how many seconds on a wait is too long (``slo``), or counts as starvation."""

    slo_seconds: float = 60.0
    starved_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages as columns; times in microseconds since 1970, NEVER for a time that has not come yet."""

    level: NDArray[np.int64]
    published: Times
    ready: Times
    claimed: Times
    finished: Times
    accepted: Flags
    expired: Flags
    attempts: NDArray[np.int64]
    session: NDArray[np.int64]

    @property
    def left(self) -> Times:
        """When each left the line; never before it was ready, even if clocks disagree."""
        return np.maximum(np.minimum(self.claimed, self.finished), self.ready)

    def where(self, mask: Flags) -> MessageColumns:
        """Return the messages of a mask."""
        return MessageColumns(*(getattr(self, name)[mask] for name in self.__slots__))


def counter(
    levels: dict[str, list[int]], otherwise: list[int], limits: WaitLimits
) -> Callable[[pa.Table], pa.Table]:
    """Return the function that counts a group; ``levels`` has for each queue the level of every priority."""

    def count(table: pa.Table) -> pa.Table:
        queue, day = table.column("queue")[0].as_py(), table.column("day")[0].as_py()
        midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
        rows = hours_of_day(columns(table, levels.get(queue, otherwise)), midnight, limits)
        return answer([{"queue": queue, **row} for row in rows])

    return count


def columns(table: pa.Table, levels: list[int]) -> MessageColumns:
    """Return the table's messages as arrays."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def numbers(name: str, missing: int) -> Any:
        values = table.column(name)
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", tz="UTC"))
        return pc.fill_null(values.cast(pa.int64()), missing).to_numpy()

    outcome = table.column("outcome")
    return MessageColumns(
        level=np.array(levels, np.int64)[np.clip(numbers("priority", 4), 0, 9)],
        published=numbers("published_at", NEVER),
        ready=numbers("ready_at", NEVER),
        claimed=numbers("claimed_at", NEVER),
        finished=numbers("finished_at", NEVER),
        accepted=pc.equal(outcome, "accepted").to_numpy(),
        expired=pc.equal(outcome, "expired").to_numpy(),
        attempts=numbers("attempts", 0),
        session=numbers("session_id", -1),
    )


def answer(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table of exactly the types in ``SCHEMA``, as Spark requires."""
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()}
    # Consumers are counted for the queue, not for a level.
    filled = [{"consumers": 0, **row} for row in rows]
    columns = (column.split() for column in SCHEMA.split(","))
    return pa.table({name: pa.array([row.get(name) for row in filled], types[kind]) for name, kind in columns})


def hours_of_day(messages: MessageColumns, midnight: int, limits: WaitLimits) -> Iterator[dict[str, Any]]:
    """Yield the figures of each hour that has any, for each level and for all levels together."""
    inverted, starved = inversions(messages), starvation(messages, limits)
    levels = [ALL_LEVELS, *np.unique(messages.level).tolist()]
    fair = fairness(messages, midnight)
    for level in levels:
        mask = np.ones(len(messages.level), bool) if level == ALL_LEVELS else messages.level == level
        rows = _hours(messages.where(mask), inverted[mask], starved[mask], midnight, limits)
        for hour, row in enumerate(rows):
            if level == ALL_LEVELS:
                row.update(fair[hour])
            if any(value for value in row.values() if not isinstance(value, str)):
                yield {"level": level, "hour": midnight + hour * HOUR, **row}


def _hours(
    messages: MessageColumns, inverted: Flags, starved: Flags, midnight: int, limits: WaitLimits
) -> list[dict[str, Any]]:
    left, claimed = messages.left, messages.claimed < NEVER
    wait, run = (left - messages.ready) / SECOND, (messages.finished - messages.claimed) / SECOND
    arrived, out = _hour(messages.published, midnight), _hour(left, midnight)
    ended = _hour(messages.finished, midnight)
    done = messages.accepted
    removed = (messages.finished < NEVER) & ~done & ~messages.expired
    counts = {
        "arrivals": _count(arrived),
        "completions": _count(ended, done),
        "expired": _count(ended, messages.expired),
        "removed": _count(ended, removed),
        "retries": _count(ended, done, messages.attempts),
        "first_successes": _count(ended, done & (messages.attempts == 0)),
        "wait_sum": _count(out, left < NEVER, wait),
        "run_sum": _count(ended, done & claimed, run),
        "slo_misses": _count(out, claimed & (wait > limits.slo_seconds)),
        "inversions": _count(out, inverted),
        "starved": _count(out, starved),
        **depth(messages.ready, left, midnight),
    }
    waits, runs = _by_hour(out, wait, claimed), _by_hour(ended, np.maximum(run, 0), done & claimed)
    return [
        {name: values[hour].item() for name, values in counts.items()}
        | _spread("wait", waits[hour])
        | _spread("run", runs[hour])
        for hour in range(HOURS)
    ]


def _hour(times: Times, midnight: int) -> NDArray[np.int64]:
    """Return the hour of the day of each time, -1 for another day's."""
    hour = (times - midnight) // HOUR
    return np.where((hour >= 0) & (hour < HOURS), hour, -1)


def _count(hour: NDArray[np.int64], mask: Flags | None = None, weights: Any = None) -> NDArray[Any]:
    """Return the number in each hour, or the sum of the weights."""
    wanted = hour >= 0 if mask is None else (hour >= 0) & mask
    if weights is None:
        return np.bincount(hour[wanted], minlength=HOURS)
    found = np.bincount(hour[wanted], weights=weights[wanted], minlength=HOURS)
    return found.astype(weights.dtype)


def _by_hour(hour: NDArray[np.int64], values: NDArray[np.float64], mask: Flags) -> list[NDArray[np.float64]]:
    wanted = (hour >= 0) & mask
    order = np.argsort(hour[wanted], kind="stable")
    return np.split(values[wanted][order], np.searchsorted(hour[wanted][order], np.arange(1, HOURS)))


def _spread(name: str, values: NDArray[np.float64]) -> dict[str, Any]:
    """Return exact percentiles, and the histogram of durations in seconds."""
    if not len(values):
        return {**{f"{name}_p{percent}": None for percent in PERCENTS}, f"{name}_histogram": "{}"}
    exact = np.percentile(values, PERCENTS).tolist()
    buckets = np.floor(PER_DOUBLING * np.log2(np.maximum(values, LEAST_SECONDS) / LEAST_SECONDS)).astype(np.int64)
    numbers, counts = np.unique(buckets, return_counts=True)
    histogram = {str(number): int(count) for number, count in zip(numbers, counts, strict=True)}
    named = {f"{name}_p{percent}": value for percent, value in zip(PERCENTS, exact, strict=True)}
    return {**named, f"{name}_histogram": json.dumps(histogram)}


def depth(ready: Times, left: Times, midnight: int) -> dict[str, NDArray[Any]]:
    """Return for each hour the depth at its start, the greatest and the mean."""
    edges = midnight + HOUR * np.arange(HOURS + 1)
    came, went = np.sort(ready), np.sort(left)
    start = np.searchsorted(came, edges[:-1], "left") - np.searchsorted(went, edges[:-1], "left")
    # At one instant, messages leave before others come.
    times = np.concatenate([went, came])
    changes = np.concatenate([np.full(len(went), -1), np.ones(len(came), int)])
    order = np.argsort(times, kind="stable")
    standing, times = np.cumsum(changes[order]), times[order]
    cuts = np.searchsorted(times, edges, "left")
    most = [standing[cuts[each] : cuts[each + 1]].max(initial=start[each]) for each in range(HOURS)]
    area = _sum_up_to(went, edges) - _sum_up_to(came, edges)
    return {"depth_start": start, "depth_max": np.array(most), "depth_mean": np.diff(area) / HOUR}


def _sum_up_to(times: Times, edges: Times) -> NDArray[np.float64]:
    """Return the sum over all times of min(time, edge), for each edge, counted from the first edge."""
    shifted, origin = np.maximum(times - edges[0], 0), edges - edges[0]
    before = np.searchsorted(shifted, origin, "left")
    sums = np.concatenate([[0.0], np.cumsum(np.minimum(shifted, origin[-1]), dtype=float)])
    found: NDArray[np.float64] = sums[before] + (len(times) - before) * origin
    return found


def inversions(messages: MessageColumns) -> Flags:
    """Return which messages were claimed while one of a higher level stood in line, and stayed there."""
    found = np.zeros(len(messages.level), bool)
    claimed = messages.claimed < NEVER
    for level in np.unique(messages.level):
        higher = messages.where(messages.level == level)
        standing = np.searchsorted(np.sort(higher.ready), messages.claimed, "left") - np.searchsorted(
            np.sort(higher.left), messages.claimed, "right"
        )
        # A message that was ready and left at one instant did not stand in line.
        found |= claimed & (messages.level < level) & (standing > 0)
    return found


def starvation(messages: MessageColumns, limits: WaitLimits) -> Flags:
    """Return which messages waited too long while others of a higher level were claimed."""
    overtaken = np.zeros(len(messages.level), np.int64)
    for level in np.unique(messages.level):
        higher = messages.where((messages.level == level) & (messages.claimed < NEVER))
        claims = np.sort(higher.claimed)
        during = np.searchsorted(claims, messages.left, "left") - np.searchsorted(claims, messages.ready, "right")
        overtaken += np.where(messages.level < level, np.maximum(during, 0), 0)
    waited = (messages.left - messages.ready) > limits.starved_seconds * SECOND
    return (messages.claimed < NEVER) & waited & (overtaken > 0)


def fairness(messages: MessageColumns, midnight: int) -> list[dict[str, Any]]:
    """Return for each hour the consumers and Jain's index of their work: 1 is even, 1/n all to one.

    The consumers of an hour are those that finished messages on that day both before its end and after its start.
    """
    hour = _hour(messages.finished, midnight)
    wanted = (hour >= 0) & messages.accepted & (messages.session >= 0)
    names, index = np.unique(messages.session[wanted], return_inverse=True)
    done = np.zeros((len(names), HOURS), np.int64)
    np.add.at(done, (index, hour[wanted]), 1)
    there = (np.cumsum(done, axis=1) > 0) & (np.cumsum(done[:, ::-1], axis=1)[:, ::-1] > 0)
    return [_jain(done[there[:, each], each]) for each in range(HOURS)]


def _jain(done: NDArray[np.int64]) -> dict[str, Any]:
    squares = int((done**2).sum())
    even = int(done.sum()) ** 2 / (len(done) * squares) if squares else None
    return {"consumers": len(done) if squares else 0, "fairness": even}
