"""What becomes of a tick, and what stays of an operator's changes: tables over plain values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_mq.engine.decisions.periodic import (
    Missed,
    Overlap,
    PreviousRun,
    TickStep,
    caught_up,
    changed_in,
    followed,
    is_old,
    is_too_old,
    jitter_of,
    look_at_of,
    problems_of,
    step_for,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("overlap", "before", "tick", "step"),
    [
        (Overlap.QUEUE, PreviousRun(None), NOON, TickStep.PUBLISH),
        (Overlap.SKIP, None, NOON, TickStep.PUBLISH),
        (Overlap.SKIP, PreviousRun(None), NOON + MINUTE, TickStep.WAIT),
        (Overlap.SKIP, PreviousRun(None), NOON, TickStep.SKIP),
        (Overlap.SKIP, PreviousRun(NOON - MINUTE), NOON, TickStep.PUBLISH),
        (Overlap.SKIP, PreviousRun(NOON), NOON, TickStep.PUBLISH),
        (Overlap.SKIP, PreviousRun(NOON), NOON - MINUTE, TickStep.SKIP),
        (Overlap.REPLACE, PreviousRun(None), NOON + MINUTE, TickStep.WAIT),
        (Overlap.REPLACE, PreviousRun(None), NOON, TickStep.REPLACE),
        (Overlap.REPLACE, PreviousRun(NOON), NOON - MINUTE, TickStep.PUBLISH),
    ],
)
def test_a_tick_is_published_skipped_or_waits_by_the_run_before(
    overlap: Overlap, before: PreviousRun | None, tick: datetime, step: TickStep
) -> None:
    assert step_for(tick, before, overlap, NOON) is step


@pytest.mark.parametrize(
    ("next_at", "waits", "look_at"),
    [
        (None, False, None),
        (NOON + 10 * MINUTE, False, NOON + 7.5 * MINUTE),
        (NOON + 2.6 * MINUTE, False, NOON + MINUTE),
        (NOON + 10 * MINUTE, True, NOON + 10 * MINUTE),
    ],
)
def test_a_tick_is_decided_ahead_of_its_time_unless_it_waits(
    next_at: datetime | None, waits: bool, look_at: datetime | None
) -> None:
    assert look_at_of(next_at, NOON, waits=waits) == look_at


def test_missed_ticks_are_caught_up_as_the_rule_says() -> None:
    missed = [NOON + number * MINUTE for number in range(5)]

    assert caught_up(missed, Missed.SKIP, 3) == ()
    assert caught_up(missed, Missed.ONCE, 3) == missed[-1:]
    assert caught_up(missed, Missed.ALL, 3) == missed[-3:]
    assert caught_up([], Missed.ALL, 3) == ()


def test_jitter_is_the_same_in_each_process_and_within_its_bound() -> None:
    found = [jitter_of("report", NOON + number * MINUTE, 30) for number in range(200)]

    assert found == [jitter_of("report", NOON + number * MINUTE, 30) for number in range(200)]
    assert 0 <= min(found) < 3
    assert 27 < max(found) < 30
    assert jitter_of("report", NOON, 0) == 0


def test_what_an_operator_changed_stays_when_the_code_changes() -> None:
    before, now = {"cron": "0 3 * * *", "tz": "UTC"}, {"cron": "0 4 * * *", "tz": "Europe/Berlin"}
    row = {"cron": "0 5 * * *", "tz": "UTC"}

    assert changed_in(row, before) == ["cron"]
    assert followed(row, before, now) == {"cron": "0 5 * * *", "tz": "Europe/Berlin"}
    assert followed(before, before, now) == now
    hourly = {"cron": "", "every_seconds": 3600}
    assert followed(row | {"every_seconds": None}, before | {"every_seconds": None}, hourly) == {
        "cron": "0 5 * * *",
        "every_seconds": None,
    }


def test_code_is_old_if_newer_code_has_begun_since() -> None:
    assert not is_old("a", [])
    assert not is_old("b", ["a"])
    assert not is_old("b", ["a", "b"])
    assert is_old("a", ["a", "b"])


def test_a_success_is_too_old_after_the_stated_age() -> None:
    assert is_too_old(NOON - MINUTE, NOON, 59)
    assert not is_too_old(NOON - MINUTE, NOON, 60)
    assert not is_too_old(NOON - MINUTE, NOON, None)


USUAL = {
    "cron": "0 3 * * *",
    "every_seconds": None,
    "jitter_seconds": 0,
    "most_missed": 100,
    "missed": "once",
    "overlap": "queue",
    "alert_seconds": None,
    "start_at": None,
    "end_at": None,
}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, None),
        ({"cron": ""}, "and not both"),
        ({"every_seconds": 5}, "and not both"),
        ({"cron": "", "every_seconds": 0}, "every_seconds is 0"),
        ({"cron": "", "every_seconds": -1}, "every_seconds is -1"),
        ({"cron": "", "every_seconds": float("nan")}, "every_seconds is nan"),
        ({"cron": "", "every_seconds": True}, "every_seconds is True"),
        ({"jitter_seconds": -1}, "jitter_seconds is -1"),
        ({"most_missed": 0}, "most_missed is 0"),
        ({"most_missed": 1.5}, "most_missed is 1.5"),
        ({"missed": "never"}, "missed is 'never'"),
        ({"overlap": "twice"}, "overlap is 'twice'"),
        ({"alert_seconds": 0}, "alert_seconds is 0"),
        ({"start_at": NOON.replace(tzinfo=None)}, "without a time zone"),
        ({"start_at": NOON, "end_at": NOON}, "not after start_at"),
        ({"start_at": "2024-01-01"}, "give an aware datetime"),
        ({"end_at": NOON.date()}, "give an aware datetime"),
        ({"start_at": NOON.replace(year=9999)}, "in the years 1970 to 9000"),
        ({"start_at": NOON.replace(year=1)}, "in the years 1970 to 9000"),
    ],
)
def test_impossible_values_are_named(given: dict[str, object], words: str | None) -> None:
    problems = list(problems_of(USUAL | given))

    assert (not problems) if words is None else words in problems[0]
