"""A handler's rules for its failures, over those of its queue."""

from __future__ import annotations

import re
from typing import Any

import pytest

from django_mq.engine.decisions.places import place_of
from django_mq.engine.decisions.retries import Retries
from django_mq.engine.decisions.verdict import RELEASE, AtOnce, Decision, Ending, Verdict, verdict
from django_mq.engine.options import QueueOptions
from django_mq.errors import CorruptMessage, HandlerTimeout, Reject, Release, Retry, WorkerLost

QUEUE = QueueOptions(
    max_attempts=9, backoff_seconds=4.0, backoff_multiplier=3.0, backoff_cap_seconds=40.0, backoff_jitter=0.0
)
DEAD = Decision(Verdict.DEAD, counted=True)


def delays(own: Retries, queue: Any = QUEUE) -> list[float]:
    policy = own.over(queue)
    return [verdict(Ending.FAILED, attempt, policy).delay_seconds for attempt in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, [4, 12, 36, 40]),
        ({"backoff_seconds": 1.0}, [1, 3, 9, 27]),
        ({"backoff_multiplier": 1.0}, [4, 4, 4, 4]),
        ({"backoff": "constant"}, [4, 4, 4, 4]),
        ({"backoff": "linear", "backoff_seconds": 10}, [10, 20, 30, 40]),
        ({"backoff": "linear", "backoff_cap_seconds": 10}, [4, 8, 10, 10]),
        ({"backoff": "exponential"}, [4, 8, 16, 32]),
        ({"backoff": "exponential", "backoff_multiplier": 1.5}, [4, 6, 9, 13.5]),
        # The queue's cap does not cut the delay that the handler names.
        ({"backoff_seconds": 100.0}, [100, 100, 100, 100]),
        ({"backoff_seconds": 100.0, "backoff_cap_seconds": 1000}, [100, 300, 900, 1000]),
    ],
)
def test_what_a_handler_leaves_out_is_what_its_queue_says(own: dict[str, Any], expected: list[float]) -> None:
    assert delays(Retries(**own)) == expected


def test_a_queue_without_backoff_leaves_all_to_the_handler() -> None:
    assert delays(Retries(backoff="linear", backoff_seconds=2, backoff_cap_seconds=60), AtOnce(9)) == [2, 4, 6, 8]
    assert delays(Retries(max_attempts=5), AtOnce(9)) == [0, 0, 0, 0]


@pytest.mark.parametrize(("most", "last"), [(None, 9), (3, 3), (20, 20), (1, 1)])
def test_the_attempts_of_a_handler_may_be_fewer_or_more_than_those_of_its_queue(
    most: int | None, last: int
) -> None:
    policy = Retries(max_attempts=most).over(QUEUE)

    assert verdict(Ending.FAILED, last, policy) == DEAD
    assert last == 1 or verdict(Ending.FAILED, last - 1, policy).verdict is RELEASE


def test_jitter_is_drawn_for_every_kind() -> None:
    policy = Retries(backoff="linear", backoff_seconds=10, backoff_jitter=0.5).over(QUEUE)

    assert verdict(Ending.FAILED, 2, policy, random=lambda: 0.75).delay_seconds == 12.5


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, [Ending.FAILED] * 4),
        ({"reject_on": OSError}, [Ending.REJECTED, Ending.REJECTED, Ending.FAILED, Ending.FAILED]),
        # The most specific class counts, as with ``except`` in the right order.
        (
            {"reject_on": [OSError], "retry_on": (ConnectionError, Exception)},
            [Ending.REJECTED, Ending.FAILED, Ending.FAILED, Ending.FAILED],
        ),
        ({"reject_on": Exception, "release_on": TimeoutError}, [Ending.REJECTED] * 3 + [Ending.FAILED]),
        ({"release_on": (OSError,)}, [Ending.RELEASED, Ending.RELEASED, Ending.FAILED, Ending.FAILED]),
        # With retry_on, an error that no option names is rejected; what is no error of the handler is not.
        ({"retry_on": ConnectionError}, [Ending.REJECTED, Ending.FAILED, Ending.REJECTED, Ending.FAILED]),
    ],
)
def test_the_class_of_an_error_says_how_an_attempt_ends(own: dict[str, Any], expected: list[Ending]) -> None:
    errors = [FileNotFoundError(), ConnectionResetError(), ValueError(), SystemExit()]

    assert [Retries(**own).ending_of(error) for error in errors] == expected


def test_a_chosen_outcome_and_a_lost_worker_are_as_without_rules() -> None:
    own = Retries(retry_on=(KeyError,), reject_on=(ValueError,), release_on=(Exception,))
    expected = {
        Release: Ending.RELEASED,
        Reject: Ending.REJECTED,
        Retry: Ending.FAILED,
        WorkerLost: Ending.FAILED,
        CorruptMessage: Ending.REJECTED,
    }

    assert {kind: own.ending_of(kind()) for kind in expected} == expected
    assert own.ending_of(HandlerTimeout()) is Ending.RELEASED


def test_no_retry_begins_after_its_time() -> None:
    policy = Retries(backoff="constant", backoff_seconds=10).over(QUEUE)

    found = [verdict(Ending.FAILED, 1, policy, left_seconds=left).verdict for left in (None, 10.0, 9.9, -1.0)]
    assert found == [RELEASE, RELEASE, Verdict.DEAD, Verdict.DEAD]
    assert verdict(Ending.RELEASED, 1, policy, 60, left_seconds=0.0) == Decision(RELEASE, delay_seconds=60)
    assert verdict(Ending.RETURNED, 1, policy, left_seconds=0.0).verdict is Verdict.ACCEPT


def test_the_time_for_retries_counts_from_the_publication_or_the_time_that_was_named() -> None:
    own, published = Retries(retry_within_seconds=100), 1_800_000_000.0
    due = place_of(published + 500, due_first=True)

    assert own.left_seconds(published, 0, published + 30) == 70
    assert own.left_seconds(published, due, published + 530) == 70
    assert own.left_seconds(published, due, published + 700) == -100
    # The place of a sorted queue is no time.
    assert own.left_seconds(published, -5, published + 30) == 70
    assert Retries().left_seconds(published, 0, published) is None


def three(attempt: int, error: BaseException, third: int) -> float:
    return attempt


async def waiting(attempt: int, error: BaseException) -> float:
    return attempt


class NoError:
    """A class that cannot be raised."""


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"max_attempts": -1}, "max_attempts is -1; use 0 to"),
        ({"max_attempts": True}, "max_attempts is True; it must be of type int"),
        ({"max_attempts": 2.5}, "max_attempts is 2.5; it must be of type int"),
        ({"backoff_seconds": -1}, "backoff_seconds is -1; use 0 to"),
        ({"backoff_seconds": float("nan")}, "backoff_seconds is nan; it must"),
        ({"backoff_seconds": float("inf")}, "backoff_seconds is inf; it must"),
        ({"backoff_multiplier": 0}, "backoff_multiplier is 0; use 1 to"),
        ({"backoff_jitter": 2}, "backoff_jitter is 2; use 0 to 1"),
        ({"backoff_cap_seconds": "60"}, "backoff_cap_seconds is '60'; it must be of type float"),
        ({"backoff_seconds": 9, "backoff_cap_seconds": 3}, "backoff_cap_seconds is 3, below backoff_seconds, 9"),
        (
            {"backoff": "fibonacci"},
            "backoff is 'fibonacci'; use one of constant, linear, exponential, or a function",
        ),
        ({"backoff": 5}, "backoff is 5; use one of"),
        (
            {"backoff": "constant", "backoff_multiplier": 3},
            "backoff_multiplier has no effect with backoff 'constant'",
        ),
        ({"backoff": max, "backoff_seconds": 3}, "backoff_seconds has no effect beside a function"),
        ({"backoff": lambda: 1}, "backoff cannot be called with two positional arguments"),
        ({"backoff": three}, "backoff cannot be called with two positional arguments"),
        ({"backoff": waiting}, "backoff does not run when it is called"),
        ({"release_seconds": 0}, "release_seconds is 0; use 0.001 to"),
        ({"release_seconds": None}, "release_seconds is None; it must be of type float"),
        ({"retry_within_seconds": 0}, "retry_within_seconds is 0; use 0.001 to"),
        ({"retry_within_seconds": -5}, "retry_within_seconds is -5; use 0.001 to"),
        ({"retry_within_seconds": True}, "retry_within_seconds is True; it must"),
        ({"retry_on": "ValueError"}, "retry_on is 'ValueError'; give a class of exceptions"),
        ({"retry_on": [NoError]}, "retry_on has <class .*NoError'>, which is no class of exceptions"),
        ({"reject_on": ValueError("x")}, "reject_on is ValueError"),
        ({"reject_on": (ValueError("x"),)}, "reject_on has ValueError.*no class of exceptions"),
        ({"reject_on": (KeyboardInterrupt,)}, "reject_on has .*no class of exceptions"),
        ({"release_on": (Release,)}, "release_on has Release, which chooses an outcome by itself"),
        ({"retry_on": OSError, "reject_on": (OSError,)}, "OSError is in retry_on and in reject_on"),
    ],
)
def test_what_cannot_be_is_named(own: dict[str, Any], words: str) -> None:
    [problem] = Retries(**own).problems()

    assert re.match(words, problem), problem


@pytest.mark.parametrize(
    "own",
    [
        {"max_attempts": 0},
        {"backoff": max},
        {"backoff": lambda attempt, error: 5, "backoff_cap_seconds": 60, "backoff_jitter": 0.1},
        {"retry_on": ValueError, "reject_on": [KeyError], "release_on": (OSError, TimeoutError)},
        {"retry_on": [], "release_seconds": 5, "retry_within_seconds": 86_400},
    ],
)
def test_what_can_be_is_taken(own: dict[str, Any]) -> None:
    assert list(Retries(**own).problems()) == []
