"""One verdict: how a delivery ended, and how often the message was tried, make one settlement."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.verdict import (
    ACCEPT,
    RELEASE,
    AtOnce,
    Decision,
    Ending,
    Verdict,
    ending_of,
    verdict,
)
from django_mq.engine.options import QueueOptions
from django_mq.errors import (
    Cancelled,
    CorruptMessage,
    Decline,
    HandlerTimeout,
    Reject,
    Release,
    ResultNotSerialisable,
    Retry,
    SoftTimeLimitExceeded,
    WorkerLost,
    WorkerStopping,
)
from django_mq.inprocess.rules import Rules

DEAD = Decision(Verdict.DEAD, counted=True)
STEADY = QueueOptions(max_attempts=3, backoff_seconds=5.0, backoff_multiplier=2.0, backoff_jitter=0.0)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (Release(), Ending.RELEASED),
        (Reject("no"), Ending.REJECTED),
        (CorruptMessage(), Ending.REJECTED),
        (ResultNotSerialisable(), Ending.REJECTED),
        (Retry(), Ending.FAILED),
        (ValueError(), Ending.FAILED),
        (SystemExit(), Ending.FAILED),
        (HandlerTimeout(), Ending.FAILED),
        (WorkerLost(), Ending.FAILED),
        (SoftTimeLimitExceeded(), Ending.FAILED),
        (WorkerStopping(), Ending.RELEASED),
        (Cancelled(), Ending.REVOKED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_handler_raises_says_how_its_delivery_ended(error: BaseException, ending: Ending) -> None:
    assert ending_of(error) is ending


@pytest.mark.parametrize(
    "error", [ValueError(), Retry(), Release(), Decline(), Cancelled(), SoftTimeLimitExceeded()]
)
def test_a_message_that_was_cancelled_while_it_ran_does_not_come_back(error: BaseException) -> None:
    assert ending_of(error, cancelled=True) is Ending.REVOKED


def test_a_handler_may_reject_a_message_that_was_cancelled() -> None:
    assert ending_of(Reject("kept for later"), cancelled=True) is Ending.REJECTED


@pytest.mark.parametrize("attempt", [1, 3, 99])
@pytest.mark.parametrize(
    ("ending", "decision"),
    [
        (Ending.RETURNED, Decision(ACCEPT)),
        (Ending.RELEASED, Decision(RELEASE)),
        (Ending.REJECTED, DEAD),
        (Ending.REVOKED, Decision(Verdict.CANCEL)),
    ],
)
def test_only_a_failure_is_charged_max_attempts(ending: Ending, decision: Decision, attempt: int) -> None:
    assert verdict(ending, attempt, STEADY) == decision


def test_a_failed_delivery_waits_for_the_backoff_and_the_last_one_is_dead() -> None:
    decisions = [verdict(Ending.FAILED, attempt, STEADY) for attempt in (1, 2, 3, 4)]

    assert decisions == [
        Decision(RELEASE, counted=True, delay_seconds=5.0),
        Decision(RELEASE, counted=True, delay_seconds=10.0),
        DEAD,
        DEAD,
    ]


def test_a_delay_that_was_asked_for_replaces_the_backoff_but_gives_no_further_attempt() -> None:
    decisions = [verdict(Ending.FAILED, attempt, STEADY, 0.5) for attempt in (1, 3)]

    assert decisions == [Decision(RELEASE, counted=True, delay_seconds=0.5), DEAD]


@pytest.mark.parametrize("policy", [AtOnce(None), AtOnce(0), Rules(), QueueOptions(max_attempts=0)])
def test_without_a_maximum_no_attempt_is_the_last(policy: AtOnce | Rules | QueueOptions) -> None:
    assert verdict(Ending.FAILED, 10_000, policy, 0.0) == Decision(RELEASE, counted=True)


def test_the_backoff_draws_from_the_given_random_numbers() -> None:
    policy = Rules(backoff=Backoff(base_seconds=10, jitter=0.5, cap_seconds=60))

    assert verdict(Ending.FAILED, 1, policy, random=lambda: 0.25).delay_seconds == 11.25
