"""The figures of a day against a second count of the same, in plain loops, and against days that are known."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

import numpy as np
import pytest

from django_mq.engine.histograms import bucket
from django_mq.insights import reading
from django_mq.pipeline.insights.figures import (
    ALL_LEVELS,
    HOUR,
    NEVER,
    SCHEMA,
    SECOND,
    MessageColumns,
    WaitLimits,
    hours_of_day,
)

DEFAULTS = WaitLimits()
MIDNIGHT = 1_772_409_600 * SECOND


@dataclass(frozen=True)
class Row:
    """One message; times in seconds since midnight."""

    ready: float
    claimed: float | None
    finished: float | None
    level: int = 4
    outcome: str = "accepted"
    attempts: int = 0
    session: int = 1


def micros(value: float | None) -> int:
    return NEVER if value is None else MIDNIGHT + round(value * SECOND)


def columns(rows: list[Row]) -> MessageColumns:
    return MessageColumns(
        level=np.array([row.level for row in rows]),
        published=np.array([micros(row.ready) for row in rows]),
        ready=np.array([micros(row.ready) for row in rows]),
        claimed=np.array([micros(row.claimed) for row in rows]),
        finished=np.array([micros(row.finished) for row in rows]),
        accepted=np.array([row.outcome == "accepted" for row in rows]),
        expired=np.array([row.outcome == "expired" for row in rows]),
        attempts=np.array([row.attempts for row in rows]),
        session=np.array([row.session for row in rows]),
    )


def count(rows: list[Row], limits: WaitLimits = DEFAULTS) -> dict[tuple[int, int], dict[str, Any]]:
    found = hours_of_day(columns(rows), MIDNIGHT, limits)
    return {(row["level"], (row["hour"] - MIDNIGHT) // HOUR): row for row in found}


def a_day(seed: int, size: int = 400) -> list[Row]:
    """A day with a rush, an outage from 10 to 12, expiries, retries, and messages of the days around it."""
    dice = random.Random(seed)
    rows = []
    for _ in range(size):
        ready = dice.choice([dice.uniform(-7200, 90000), dice.gauss(36000, 1800)])
        claimed = ready + dice.expovariate(1 / dice.choice([2.0, 900.0]))
        if 36000 <= claimed < 43200:
            claimed = 43200 + dice.uniform(0, 60)
        finished = claimed + dice.expovariate(1 / 3)
        outcome = dice.choices(["accepted", "expired", "purged"], [20, 1, 1])[0]
        taken = None if outcome != "accepted" else claimed
        attempts = dice.choices([0, 1, 3], [8, 1, 1])[0]
        rows.append(Row(ready, taken, finished, dice.randrange(10), outcome, attempts, dice.randrange(3)))
    return [Row(100 * number, None, None, 9) for number in range(3)] + rows


def plain(rows: list[Row], level: int, hour: int, limits: WaitLimits) -> dict[str, Any]:
    """The same figures, message by message."""
    start, end = hour * 3600.0, (hour + 1) * 3600.0
    mine = [row for row in rows if level in (ALL_LEVELS, row.level)]

    def left(row: Row) -> float:
        return min(value for value in (row.claimed, row.finished, 1e18) if value is not None)

    def within(value: float | None) -> bool:
        return value is not None and start <= value < end

    done = [row for row in mine if within(row.finished) and row.outcome == "accepted"]
    waits = [left(row) - row.ready for row in mine if within(left(row)) and row.claimed is not None]
    claims = [row for row in mine if within(row.claimed)]
    edges = sorted(
        {start, *(row.ready for row in mine if within(row.ready)), *(left(r) for r in mine if within(left(r)))}
    )
    inverted = [
        row for row in claims if any(o.level > row.level and o.ready < (row.claimed or 0) < left(o) for o in rows)
    ]
    starved = [
        row
        for row in claims
        if left(row) - row.ready > limits.starved_seconds
        and any(o.level > row.level and o.claimed is not None and row.ready < o.claimed < left(row) for o in rows)
    ]
    return {
        "arrivals": sum(within(row.ready) for row in mine),
        "completions": len(done),
        "expired": sum(within(row.finished) and row.outcome == "expired" for row in mine),
        "removed": sum(within(row.finished) and row.outcome == "purged" for row in mine),
        "retries": sum(row.attempts for row in done),
        "first_successes": sum(row.attempts == 0 for row in done),
        "wait_sum": sum(left(row) - row.ready for row in mine if within(left(row))),
        "waits": sorted(waits),
        "depth_start": sum(row.ready < start <= left(row) for row in mine),
        "depth_max": max(sum(row.ready <= edge < left(row) for row in mine) for edge in edges),
        "depth_mean": sum(max(0.0, min(left(row), end) - max(row.ready, start)) for row in mine) / 3600,
        "slo_misses": sum(wait > limits.slo_seconds for wait in waits),
        "inversions": len(inverted),
        "starved": len(starved),
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_random_day_is_counted_as_message_by_message(seed: int) -> None:
    rows, limits = a_day(seed), WaitLimits(slo_seconds=30, starved_seconds=120)

    counted = count(rows, limits)

    assert any(row["inversions"] for row in counted.values())
    assert any(row["starved"] for row in counted.values())
    for (level, hour), row in counted.items():
        said = plain(rows, level, hour, limits)
        waits = said.pop("waits")
        assert {name: row[name] for name in said} == pytest.approx(said, abs=1e-3), (level, hour)
        if len(waits) > 1:
            exact = quantiles(waits, n=100, method="inclusive")
            assert [row["wait_p50"], row["wait_p95"], row["wait_p99"]] == pytest.approx(
                [exact[49], exact[94], exact[98]], abs=1e-3
            )
            assert json.loads(row["wait_histogram"]) == {
                str(number): [bucket(wait) for wait in waits].count(number) for number in {*map(bucket, waits)}
            }


def test_planted_inversions_are_found() -> None:
    urgent = Row(ready=10, claimed=100, finished=101, level=9)
    overtaken_by = [Row(ready=5, claimed=50 + number, finished=60, level=1) for number in range(7)]
    together = Row(ready=6, claimed=100, finished=101, level=1)

    counted = count([urgent, *overtaken_by, together])

    assert counted[ALL_LEVELS, 0]["inversions"] == 7
    assert counted[1, 0]["inversions"] == 7
    assert counted[9, 0]["inversions"] == 0


def test_strict_order_has_no_inversions() -> None:
    rows = [Row(ready=0, claimed=100 - level, finished=101, level=level) for level in range(10)]

    assert count(rows)[ALL_LEVELS, 0]["inversions"] == 0


def test_a_starved_message_is_told_from_a_mere_backlog() -> None:
    rush = [
        Row(ready=2 * number, claimed=2 * number + 1, finished=2 * number + 2, level=9) for number in range(300)
    ]
    starved = Row(ready=1, claimed=601, finished=602, level=0)
    backlog = Row(ready=3601, claimed=4200, finished=4201, level=0)

    counted = count([*rush, starved, backlog])

    assert counted[0, 0]["starved"] == 1
    assert counted[0, 1]["starved"] == 0
    assert counted[0, 1]["slo_misses"] == 1


def test_an_outage_carries_its_depth_over_midnight() -> None:
    rows = [Row(ready=-3600 + number, claimed=7200 + number, finished=7300 + number) for number in range(60)]

    counted = count(rows)

    assert [counted[ALL_LEVELS, hour]["depth_start"] for hour in (0, 1, 2)] == [60, 60, 60]
    assert counted[ALL_LEVELS, 0]["depth_mean"] == 60
    assert counted[ALL_LEVELS, 0]["arrivals"] == 0
    assert (ALL_LEVELS, 3) not in counted


def test_little_s_law_holds_over_a_day() -> None:
    rows = [row for row in a_day(7) if row.ready > 0 and row.finished is not None and row.finished < 86000]

    counted = [row for (level, _), row in count(rows).items() if level == ALL_LEVELS]

    stood = sum(row["depth_mean"] for row in counted) * 3600
    assert stood == pytest.approx(sum(row["wait_sum"] for row in counted), rel=1e-6)


def test_fairness_counts_those_who_got_nothing() -> None:
    even = [Row(ready=0, claimed=1, finished=10 + number, session=number % 2) for number in range(10)]
    # The third is there before and after the second hour, and is given nothing in it.
    third = [Row(ready=0, claimed=1, finished=at, session=2) for at in (20, 7300)]
    busy = [Row(ready=0, claimed=1, finished=3700, session=session) for session in (0, 0, 1, 1)]
    late = [Row(ready=0, claimed=1, finished=7400, session=session) for session in (0, 1)]

    counted = count([*even, *third, *busy, *late])

    assert counted[ALL_LEVELS, 0]["consumers"] == 3
    assert counted[ALL_LEVELS, 1]["consumers"] == 3
    assert counted[ALL_LEVELS, 1]["fairness"] == pytest.approx(16 / (3 * 8))
    assert counted[ALL_LEVELS, 2]["fairness"] == 1


def test_nothing_is_no_hours() -> None:
    assert count([Row(ready=90000, claimed=90001, finished=90002)]) == {}


def test_what_is_counted_of_an_hour_is_what_can_be_taken_along() -> None:
    counted = {column.split()[0] for column in SCHEMA.split(",")}

    assert counted - {"queue"} == {*reading.HOUR} - {"queue_name"}
