"""A redrive in stages: a few first, the rest when these have succeeded, at a rate, up to the first failure."""

from __future__ import annotations

from typing import Any

import pytest

from django_mq.engine.decisions.staged_redrive import (
    RedriveEvidence,
    RedriveOutcome,
    Stages,
    StageStep,
    due_at_rate,
    next_step,
    outcome_of,
    used_seconds,
)

SEND, WAIT, DONE, STOP = StageStep
SUCCEEDED, FAILED, REMOVED = RedriveOutcome


def stages(**values: Any) -> Stages:
    given = {"first": 10, "per_minute": None, "sent": 0, "handled": 0, "failed": 0, "has_more": True}
    given |= values
    return Stages(**{"known": given["handled"]} | given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (SEND, 10)),
        ({"sent": 7}, (SEND, 3)),
        ({"sent": 10}, (WAIT, 0)),
        ({"sent": 10, "handled": 9}, (WAIT, 0)),
        ({"sent": 10, "handled": 10}, (SEND, 500)),
        # What was removed is replaced by others.
        ({"sent": 10, "handled": 1, "known": 10}, (SEND, 9)),
        ({"sent": 10, "known": 10}, (SEND, 10)),
        ({"sent": 20, "known": 19, "handled": 9}, (WAIT, 0)),
        ({"sent": 10, "known": 10, "has_more": False}, (DONE, 0)),
        ({"sent": 10, "handled": 10, "failed": 1}, (STOP, 0)),
        ({"sent": 800, "handled": 301, "failed": 1}, (STOP, 0)),
        ({"sent": 800, "handled": 10}, (SEND, 500)),
        ({"sent": 4, "has_more": False}, (WAIT, 0)),
        ({"sent": 4, "handled": 4, "has_more": False}, (DONE, 0)),
        ({"has_more": False}, (DONE, 0)),
        ({"first": 0}, (SEND, 500)),
        ({"first": 0, "sent": 500}, (SEND, 500)),
        ({"first": 0, "sent": 500, "failed": 1}, (STOP, 0)),
        ({"first": 0, "per_minute": 60.0}, (SEND, 5)),
        ({"per_minute": 60.0, "sent": 8}, (SEND, 2)),
        ({"per_minute": 6.0}, (WAIT, 0)),
    ],
)
def test_the_next_step(given: dict[str, Any], expected: tuple[StageStep, int]) -> None:
    assert next_step(stages(**given), 5.0, 500) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (RedriveEvidence(has_failed=False, is_dead=False, is_there=True, is_accepted=None), None),
        (RedriveEvidence(has_failed=True, is_dead=False, is_there=True, is_accepted=None), FAILED),
        (RedriveEvidence(has_failed=False, is_dead=True, is_there=False, is_accepted=None), FAILED),
        (RedriveEvidence(has_failed=False, is_dead=False, is_there=False, is_accepted=None), SUCCEEDED),
        (RedriveEvidence(has_failed=False, is_dead=False, is_there=False, is_accepted=True), SUCCEEDED),
        (RedriveEvidence(has_failed=False, is_dead=False, is_there=False, is_accepted=False), REMOVED),
    ],
)
def test_what_becomes_of_a_message(known: RedriveEvidence, expected: RedriveOutcome | None) -> None:
    assert outcome_of(known) == expected


@pytest.mark.parametrize("per_minute", [0.5, 1.0, 7.0, 60.0, 1000.0])
def test_over_an_hour_the_rate_is_kept_and_no_message_is_lost_to_rounding(per_minute: float) -> None:
    unused, sent = 0.0, 0
    for _ in range(720):
        unused += 5.0
        number = due_at_rate(per_minute, unused)
        unused -= used_seconds(per_minute, unused, number)
        sent += number

    assert sent == pytest.approx(60 * per_minute, abs=1)


def test_after_an_outage_a_minute_is_made_up_for() -> None:
    assert due_at_rate(60.0, 3600.0) == 60
    assert used_seconds(60.0, 3600.0, 60) == 3600.0


def test_a_rate_slower_than_the_catch_up_still_sends() -> None:
    assert [due_at_rate(0.5, seconds) for seconds in (119.0, 121.0, 3600.0)] == [0, 1, 1]
