"""One attempt: everything that a handler does or a message contains becomes a settlement."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.delivery.codecs import ReceivedMessage
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.unit_of_work import unit_of_work
from django_mq.engine.decisions.interruption import Interruption
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import Decline, Reject, Release, Retry
from django_mq.stores.connections import has_connected
from django_mq.stores.records import Settlement
from tests.delivery.builders import a_claimed, a_handler, a_policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def run(
    function: Callable[[Any], Any],
    policy: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
    **claimed: Any,
) -> Settlement:
    """Run one attempt."""
    return Delivery(a_claimed(**claimed), a_handler(function, **own or {}), a_policy(**policy or {})).run()


class IgnoringReceipt:
    """Equals a settlement of any message with these values."""

    def __init__(self, *decided: Any, **others: Any) -> None:
        self.expected = Settlement(0, 0, *decided, **others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settlement) and replace(other, id=0, claim=0) == self.expected

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return repr(self.expected)


def raising(error: BaseException) -> Callable[[Any], Any]:
    def function(_: Any) -> None:
        raise error

    return function


def test_a_handler_that_returns_accepts() -> None:
    settlement = run(lambda _: "ignored")

    assert (settlement.verdict, settlement.counted, settlement.failure) == (Verdict.ACCEPT, False, None)


def test_the_handler_is_given_the_decoded_message() -> None:
    seen: list[Any] = []

    run(seen.append, body=b'{"a": 1}', headers='{"h": 2}', attempts=3, priority=7, redelivered=True)

    (message,) = seen
    assert (message.body, message.headers) == ({"a": 1}, {"h": 2})
    assert (message.attempt, message.priority, message.redelivered, message.queue) == (4, 7, True, "orders")


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError()])
def test_whatever_is_raised_counts_an_attempt_and_is_repeated_later(error: BaseException) -> None:
    settlement = run(raising(error), {"backoff_seconds": 5.0, "backoff_jitter": 0.0})

    assert (settlement.verdict, settlement.counted, settlement.delay_seconds) == (Verdict.RELEASE, True, 5.0)
    assert settlement.failure is not None
    assert settlement.failure.error == type(error).__name__
    assert "in function" in settlement.failure.traceback


def test_the_delay_grows_with_the_attempts_up_to_its_cap() -> None:
    policy = {
        "backoff_seconds": 1.0,
        "backoff_multiplier": 3.0,
        "backoff_cap_seconds": 10.0,
        "backoff_jitter": 0.0,
    }

    delays = [run(raising(ValueError()), policy, attempts=number).delay_seconds for number in range(4)]

    assert delays == [1.0, 3.0, 9.0, 10.0]


def test_the_last_attempt_is_a_dead_letter_with_its_reason() -> None:
    settlement = run(raising(ValueError("bad total")), {"max_attempts": 3}, attempts=2)

    assert (settlement.verdict, settlement.counted) == (Verdict.DEAD, True)
    assert settlement.reason == "ValueError: bad total"
    assert settlement.failure is not None


def test_without_a_maximum_no_attempt_is_the_last() -> None:
    assert run(raising(ValueError()), {"max_attempts": 0}, attempts=1_000_000).verdict is Verdict.RELEASE


async def a_coroutine(_: Any) -> None:
    """Return an awaitable."""


class AnAwaitable:
    """Runs only when it is awaited."""

    def __await__(self) -> Iterator[None]:
        """Run."""
        yield


async def an_async_generator() -> AsyncIterator[None]:
    """Run only when it is iterated."""
    yield


@pytest.mark.parametrize(
    "function",
    [
        partial(a_coroutine),
        lambda _: AnAwaitable(),
        lambda _: (number for number in ()),
        lambda _: an_async_generator(),
    ],
)
def test_a_handler_that_returns_work_that_has_not_run_fails_its_attempt(function: Callable[[Any], Any]) -> None:
    settlement = run(function)

    assert (settlement.verdict, settlement.counted) == (Verdict.RELEASE, True)
    assert settlement.failure is not None
    assert settlement.failure.error == "HandlerNotRun"
    assert "did not run" in settlement.failure.detail


def test_reject_is_a_dead_letter_at_once() -> None:
    settlement = run(raising(Reject("not ours")))

    assert (settlement.verdict, settlement.reason) == (Verdict.DEAD, "Reject: not ours")


def test_release_gives_back_uncounted_and_without_a_failure() -> None:
    settlement = run(raising(Release()))

    assert (settlement.verdict, settlement.counted, settlement.failure) == (Verdict.RELEASE, False, None)


@pytest.mark.parametrize(
    ("release", "delay"),
    [
        (Release(0), 0.0),
        (Release(60), 60.0),
        (Release("busy", delay_seconds=timedelta(minutes=1)), 60.0),
        (Release("busy"), 0.0),
        # Nonsense takes the backoff: at once would be without end.
        (Release(-1), 2.0),
        (Release(True), 2.0),
        (Release(float("nan")), 2.0),
        (Release(Decimal(60)), 2.0),
    ],
    ids=repr,
)
def test_a_release_waits_uncounted_as_long_as_it_says(release: Release, delay: float) -> None:
    policy = {"max_attempts": 1, "backoff_seconds": 2.0, "backoff_jitter": 0.0}

    assert run(raising(release), policy, attempts=5) == IgnoringReceipt(Verdict.RELEASE, delay_seconds=delay)


def test_decline_gives_back_for_others_uncounted_and_without_a_failure() -> None:
    settlement = run(raising(Decline("not here")))

    assert (settlement.verdict, settlement.counted, settlement.failure) == (Verdict.DECLINE, False, None)


def test_retry_counts_and_chooses_its_delay() -> None:
    settlement = run(raising(Retry("busy", delay_seconds=42)))

    assert (settlement.verdict, settlement.counted, settlement.delay_seconds) == (Verdict.RELEASE, True, 42)


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)], ids=["whole", "fraction", "timedelta"])
def test_a_number_alone_is_the_delay_of_a_retry(delay: Any) -> None:
    settlement = run(raising(Retry(delay)))

    assert (settlement.verdict, settlement.counted, settlement.delay_seconds) == (Verdict.RELEASE, True, 60.0)
    assert settlement.failure is not None
    assert settlement.failure.detail == ""


@pytest.mark.parametrize("outcome", [Retry, Release])
def test_two_delays_are_refused(outcome: type[Retry | Release]) -> None:
    with pytest.raises(TypeError, match=f"{outcome.__name__} was given two delays, 60 and 5"):
        outcome(60, delay_seconds=5)


def test_retry_without_a_delay_takes_the_queues_backoff() -> None:
    settlement = run(raising(Retry("busy")), {"backoff_seconds": 7.0, "backoff_jitter": 0.0})

    assert settlement.delay_seconds == 7.0


@pytest.mark.parametrize(
    ("wish", "delay"),
    [(timedelta(minutes=1), 60.0), (float("inf"), 2.0), (float("nan"), 2.0), ("60", 2.0), (-1, 2.0)],
    ids=["timedelta", "infinite", "not a number", "text", "negative"],
)
def test_retry_takes_a_timedelta_and_falls_back_to_the_backoff_for_nonsense(wish: Any, delay: float) -> None:
    settlement = run(raising(Retry(delay_seconds=wish)), {"backoff_seconds": 2.0, "backoff_jitter": 0.0})

    assert (settlement.verdict, settlement.counted, settlement.delay_seconds) == (Verdict.RELEASE, True, delay)


@pytest.mark.parametrize("number", [Decimal(60), Fraction(60)], ids=["Decimal", "Fraction"])
def test_a_number_that_is_no_delay_is_no_reason_either(number: Any, caplog: pytest.LogCaptureFixture) -> None:
    settlement = run(raising(Retry(number)), {"backoff_seconds": 2.0, "backoff_jitter": 0.0})

    assert (settlement.delay_seconds, settlement.failure and settlement.failure.detail) == (2.0, "")
    assert "impossible delay" in caplog.text


def test_the_last_retry_is_a_dead_letter() -> None:
    assert run(raising(Retry("busy")), {"max_attempts": 1}).verdict is Verdict.DEAD


@pytest.mark.parametrize(("attempts", "expected"), [(0, Verdict.RELEASE), (1, Verdict.DEAD)])
def test_an_outcome_that_cannot_be_judged_is_a_failed_attempt_like_any_other(
    attempts: int, expected: Verdict
) -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    wish: Any = Unspeakable()
    settlement = run(raising(Retry(delay_seconds=wish)), {"max_attempts": 2}, attempts=attempts)

    assert (settlement.verdict, settlement.counted) == (expected, True)
    assert settlement.failure is not None
    assert settlement.failure.error == "ZeroDivisionError"


STEADY = {"max_attempts": 3, "backoff_seconds": 2.0, "backoff_jitter": 0.0}


@pytest.mark.parametrize(
    ("own", "error", "decided"),
    [
        ({"max_attempts": 1}, ValueError(), (Verdict.DEAD, True, 0.0)),
        ({"max_attempts": 9}, ValueError(), (Verdict.RELEASE, True, 8.0)),
        ({"backoff": "constant", "max_attempts": 0}, ValueError(), (Verdict.RELEASE, True, 2.0)),
        ({"reject_on": ValueError, "max_attempts": 0}, ValueError(), (Verdict.DEAD, True, 0.0)),
        ({"retry_on": KeyError, "max_attempts": 0}, ValueError(), (Verdict.DEAD, True, 0.0)),
        ({"release_on": ValueError}, ValueError(), (Verdict.RELEASE, False, 60.0)),
        ({"release_on": ValueError, "release_seconds": 5}, ValueError(), (Verdict.RELEASE, False, 5.0)),
        ({"release_on": ValueError}, Retry(7), (Verdict.DEAD, True, 0.0)),
        ({"max_attempts": 9, "retry_on": ValueError}, Retry(7), (Verdict.RELEASE, True, 7.0)),
    ],
    ids=str,
)
def test_the_rules_of_a_handler_stand_over_those_of_its_queue(
    own: dict[str, Any], error: Exception, decided: tuple[Verdict, bool, float]
) -> None:
    settlement = run(raising(error), STEADY, own, attempts=2)

    assert (settlement.verdict, settlement.counted, settlement.delay_seconds) == decided


def seven(attempt: int, error: BaseException) -> Any:
    return timedelta(seconds=7) if isinstance(error, KeyError) and attempt == 2 else None


def failing(attempt: int, error: BaseException) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("function", "delay", "is_logged"),
    [
        (seven, 7.0, False),
        (lambda attempt, error: attempt * 100, 200.0, False),
        (lambda attempt, error: 0, 0.0, False),
        (lambda attempt, error: None, 4.0, False),
        (failing, 4.0, True),
        (lambda attempt, error: -1, 4.0, True),
        (lambda attempt, error: float("nan"), 4.0, True),
        (lambda attempt, error: True, 4.0, True),
        (lambda attempt, error: "60", 4.0, True),
        (lambda attempt, error: 10**20, 4.0, True),
    ],
)
def test_a_backoff_of_ones_own_that_fails_is_logged_and_the_queues_is_used(
    function: Callable[[int, BaseException], Any],
    delay: float,
    is_logged: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settlement = run(raising(KeyError()), STEADY, {"backoff": function}, attempts=1)

    assert settlement.delay_seconds == delay
    assert ("backoff of a handler has failed" in caplog.text) is is_logged


def test_the_cap_of_a_handler_cuts_its_own_function() -> None:
    own = {"backoff": lambda attempt, error: 100, "backoff_cap_seconds": 30}

    assert run(raising(KeyError()), STEADY, own).delay_seconds == 30.0


@pytest.mark.parametrize(("minutes", "expected"), [(5, Verdict.RELEASE), (15, Verdict.DEAD)])
def test_a_message_that_is_too_old_for_a_retry_is_dead(minutes: int, expected: Verdict) -> None:
    published = datetime.now(UTC) - timedelta(minutes=minutes)

    settlement = run(raising(KeyError()), STEADY, {"retry_within_seconds": 600}, published_at=published)

    assert settlement.verdict is expected


@pytest.mark.parametrize(
    ("own", "runs"),
    [({}, True), ({"max_attempts": 3}, False), ({"max_attempts": 4}, True), ({"max_attempts": 0}, True)],
)
def test_a_message_whose_worker_died_at_the_handlers_last_attempt_is_not_given_to_it_again(
    own: dict[str, Any],
    runs: bool,
) -> None:
    seen: list[Any] = []

    settlement = run(seen.append, {"max_attempts": 9}, own, attempts=3, suspect=True)

    assert bool(seen) is runs
    if not runs:
        # Its last attempt is counted and recorded.
        assert settlement == IgnoringReceipt(Verdict.DEAD, reason="worker lost")


@pytest.mark.parametrize("given", [{"body": b"{"}, {"headers": "["}, {"headers": "[]"}, {"body": b"\xff"}])
def test_a_corrupt_message_is_dead_before_the_handler_sees_it(given: dict[str, Any]) -> None:
    seen: list[Any] = []

    settlement = run(seen.append, **given)

    assert seen == []
    assert settlement.verdict is Verdict.DEAD
    assert settlement.reason.startswith("CorruptMessage: The ")


def test_an_error_that_cannot_say_what_it_is_is_a_failure_all_the_same() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("nothing to say")

    settlement = run(raising(MuteError()))

    assert settlement.verdict is Verdict.RELEASE
    assert settlement.failure is not None
    assert settlement.failure.error == "MuteError"


def enter_and_forget(alias: str) -> None:
    transaction.atomic(using=alias).__enter__()


def switch_autocommit_off(alias: str) -> None:
    transaction.set_autocommit(False, using=alias)


@pytest.mark.parametrize("careless", [enter_and_forget, switch_autocommit_off])
def test_a_transaction_left_open_does_not_reach_the_next_attempt(
    committed_database: str, careless: Callable[[str], None]
) -> None:
    def usual(_: Any) -> None:
        with transaction.atomic(using=committed_database), connections[committed_database].cursor() as cursor:
            cursor.execute("SELECT 1")

    def attempts() -> list[Verdict]:
        verdicts = []
        for function in (lambda _: careless(committed_database), usual):
            with unit_of_work():
                verdicts.append(run(function).verdict)
        connections.close_all()
        return verdicts

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(attempts).result() == [Verdict.ACCEPT, Verdict.ACCEPT]


def test_a_thread_that_never_connected_has_no_connection_to_put_in_order(committed_database: str) -> None:
    def look() -> tuple[bool, bool]:
        before = has_connected()
        try:
            with connections[committed_database].cursor() as cursor:
                cursor.execute("SELECT 1")
            return before, has_connected()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(look).result() == (False, True)


def test_what_an_error_says_forges_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    run(raising(Reject("no\nCRITICAL all is lost\x1b[2J")), queue_name="orders\nERROR forged")

    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert "all is lost" in record.getMessage()


def test_a_failed_attempt_is_a_warning_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    run(raising(ValueError("no stock")), {"backoff_seconds": 5.0, "backoff_jitter": 0.0})

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "failed on message" in record.getMessage()
    assert "attempt 1, again in 5.0 s: ValueError('no stock')" in record.getMessage()
    assert "in function" in caplog.text


def test_a_message_that_dies_of_an_error_is_an_error_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    run(raising(ValueError("no stock")), {"max_attempts": 1}, type="orders.tasks.pack")

    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert " ('orders.tasks.pack') of queue 'orders'" in record.getMessage()
    assert "the message is dead: 'ValueError: no stock'" in record.getMessage()
    assert "in function" in caplog.text


@pytest.mark.parametrize(("error", "level"), [(Retry(), "INFO"), (Reject("spoilt"), "WARNING")])
def test_an_outcome_that_the_handler_chose_has_no_traceback(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="django_mq")

    run(raising(error))

    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == (level, None)


def test_a_handled_message_is_a_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="django_mq.delivery")

    run(lambda _: None)

    (record,) = caplog.records
    assert (record.levelname, "has handled message" in record.getMessage()) == ("DEBUG", True)


# Handlers that are asked to end.


def interrupted(reason: Interruption, error: BaseException | None = None) -> Settlement:
    """Run an attempt that is asked to end while it runs, and raises an error or heeds."""

    def function(message: ReceivedMessage) -> None:
        assert not message.cancelled
        message.raise_if_cancelled()
        delivery.message.end_request.ask(reason)
        assert message.cancelled
        if error is not None:
            raise error
        message.raise_if_cancelled()

    delivery = Delivery(a_claimed(), a_handler(function), a_policy(max_attempts=5))
    return delivery.run()


@pytest.mark.parametrize(
    ("reason", "error", "expected"),
    [
        (Interruption.CANCELLED, None, (Verdict.CANCEL, False, None)),
        (Interruption.CANCELLED, ValueError(), (Verdict.CANCEL, False, None)),
        (Interruption.CANCELLED, Reject("kept"), (Verdict.DEAD, True, "Reject")),
        (Interruption.STOPPING, None, (Verdict.RELEASE, False, None)),
        (Interruption.STOPPING, ValueError(), (Verdict.RELEASE, True, "ValueError")),
        (Interruption.SOFT_TIME_LIMIT, None, (Verdict.RELEASE, True, "SoftTimeLimitExceeded")),
        (Interruption.TIME_LIMIT, None, (Verdict.RELEASE, True, "HandlerTimeout")),
    ],
)
def test_what_an_attempt_counts_that_was_asked_to_end(
    reason: Interruption, error: BaseException | None, expected: tuple[Any, ...]
) -> None:
    settlement = interrupted(reason, error)

    failure = settlement.failure and settlement.failure.error
    assert (settlement.verdict, settlement.counted, failure) == expected


def test_a_handler_that_returns_accepts_although_it_was_asked_to_end() -> None:
    delivery = Delivery(a_claimed(), a_handler(lambda _: None), a_policy())
    delivery.message.end_request.ask(Interruption.CANCELLED)

    assert delivery.run().verdict is Verdict.ACCEPT


def test_a_message_that_a_middleware_has_changed_is_cancelled_with_the_first_one() -> None:
    first = ReceivedMessage(a_claimed())
    copy = first.changed(body=b"1").changed(body=b"2")

    first.end_request.ask(Interruption.CANCELLED)

    assert copy.cancelled


@pytest.mark.parametrize(("hard", "soft", "within"), [(50, None, 50), (None, 20, 20), (50, 20, 20)])
def test_the_deadline_of_a_message_is_the_first_time_limit(hard: Any, soft: Any, within: float) -> None:
    found: list[Any] = []
    handler = a_handler(
        lambda message: found.append(message.deadline), time_limit_seconds=hard, soft_time_limit_seconds=soft
    )
    before = datetime.now(UTC)

    Delivery(a_claimed(), handler, a_policy()).run()

    assert before + timedelta(seconds=within) <= found[0] <= datetime.now(UTC) + timedelta(seconds=within)


def test_a_message_without_a_time_limit_has_no_deadline() -> None:
    assert ReceivedMessage(a_claimed()).deadline is None


def test_a_soft_time_limit_ends_a_handler_that_heeds_it() -> None:
    def function(message: ReceivedMessage) -> None:
        while True:
            message.raise_if_cancelled()

    handler = a_handler(function, soft_time_limit_seconds=0.001)
    settlement = Delivery(a_claimed(), handler, a_policy()).run()

    assert settlement.failure is not None
    assert (settlement.counted, settlement.failure.error) == (True, "SoftTimeLimitExceeded")
