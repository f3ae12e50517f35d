"""When a handler that runs is asked to end, and why."""

from __future__ import annotations

from itertools import permutations

import pytest

from django_mq.engine.decisions.interruption import ERRORS, EndRequest, Interruption
from django_mq.engine.decisions.verdict import Ending, ending_of

CANCELLED, SOFT, STOPPING = Interruption.CANCELLED, Interruption.SOFT_TIME_LIMIT, Interruption.STOPPING


@pytest.mark.parametrize("reasons", list(permutations(Interruption)))
def test_of_several_reasons_the_strongest_counts_in_any_order(reasons: tuple[Interruption, ...]) -> None:
    request = EndRequest()
    for reason in reasons:
        request.ask(reason)

    assert request.at(0.0) is CANCELLED


@pytest.mark.parametrize(
    ("asked", "now", "expected"),
    [
        (None, 9.9, None),
        (None, 10.0, SOFT),
        (STOPPING, 9.9, STOPPING),
        (STOPPING, 10.0, SOFT),
        (CANCELLED, 10.0, CANCELLED),
    ],
)
def test_a_soft_time_limit_is_a_reason_once_it_is_over(
    asked: Interruption | None, now: float, expected: Interruption | None
) -> None:
    assert EndRequest(asked, soft_at=10.0).at(now) is expected


def test_what_an_attempt_counts_that_heeds_follows_from_the_error_that_it_raises() -> None:
    assert {reason: ending_of(error()) for reason, error in ERRORS.items()} == {
        Interruption.CANCELLED: Ending.REVOKED,
        Interruption.TIME_LIMIT: Ending.FAILED,
        Interruption.SOFT_TIME_LIMIT: Ending.FAILED,
        Interruption.STOPPING: Ending.RELEASED,
    }
