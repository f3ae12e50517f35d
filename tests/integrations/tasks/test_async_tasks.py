"""Django's tasks on the event loop of a worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.consumer.handlers import Way, handler_of
from django_mq.errors import ConfigurationError
from django_mq.integrations.tasks.backend import BackendOptions
from django_mq.models import Queue
from tests.integrations.tasks.conftest import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    Run = Callable[[], None]

pytestmark = pytest.mark.on("sqlite")


@pytest.fixture
def run(run: Run, settings: Settings) -> Run:
    """A worker of a site whose tasks run on the event loop."""
    use(settings, ASYNC=True)
    return run


def test_a_coroutine_and_a_function_run_on_the_event_loop(run: Run, work: Any) -> None:
    results = [work.later.enqueue("coroutine"), work.add.enqueue(1, 2), work.which_attempt.enqueue(2)]

    run()
    for result in results:
        result.refresh()

    assert handler_of("default").way is Way.EVENT_LOOP
    assert [result.return_value for result in results] == ["coroutine", 3, 2]
    assert [result.attempts for result in results] == [1, 1, 2]


def test_many_coroutines_wait_at_once(run: Run, work: Any) -> None:
    work.meetings.append(asyncio.Barrier(20))
    results = [work.meet.enqueue() for _ in range(20)]

    run()
    for result in results:
        result.refresh()

    assert [result.return_value for result in results] == [True] * 20


def test_a_task_that_fails_has_its_errors(run: Run, work: Any) -> None:
    failing, refused = work.pay.enqueue("refused"), work.refuse.enqueue()

    run()
    failing.refresh()
    refused.refresh()

    assert [error.exception_class for error in failing.errors] == [work.PaymentError] * 3
    assert (failing.status, refused.status, refused.attempts) == ("FAILED", "FAILED", 1)


def test_a_time_limit_cancels_a_coroutine(alias: str, run: Run, work: Any, settings: Settings) -> None:
    use(settings, ASYNC=True, TIME_LIMIT_SECONDS=0.05)
    Queue.objects.using(alias).update(max_attempts=1)
    result = work.sleep.enqueue()

    run()
    result.refresh()

    assert (result.status, [error.exception_class.__name__ for error in result.errors]) == (
        "FAILED",
        ["HandlerTimeout"],
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"ASYNC": 1}, "ASYNC is 1; use True or False"), ({"ASYNC": True, "TRANSACTIONAL": True}, "no transactions")],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        BackendOptions.read(options)
