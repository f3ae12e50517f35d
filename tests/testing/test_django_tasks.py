"""A drain runs Django's tasks, and their results are there."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.consumer.handlers import forget
from django_mq.stores.registry import shared_store
from tests.integrations.tasks.conftest import QUEUES, collect_ignore_glob, use
from tests.stores.builders import declare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.testing import QueueTester

pytestmark = pytest.mark.skipif(bool(collect_ignore_glob), reason="without django.tasks and django_tasks")


@pytest.fixture
def work(alias: str, settings: Settings) -> Iterator[Any]:
    """The tasks of the tests, and the handlers of their queues."""
    use(settings)
    from django_mq.integrations.tasks.running import serve_all

    declare(shared_store(alias), "default", max_attempts=2, backoff_seconds=60.0)
    serve_all()
    yield import_module("tests.integrations.tasks.work")
    for queue in QUEUES:
        forget(queue)


def test_a_task_is_tried_again_when_the_clock_moves_and_has_a_result(
    alias: str, work: Any, mq: QueueTester
) -> None:
    result = work.which_attempt.enqueue(2)

    assert mq.drain(raise_errors=False).outcomes == ["retried"]
    assert mq.drain(ahead=120).outcomes == ["accepted"]
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 2, 2)


def test_a_task_that_fails_raises_in_the_test_and_its_result_has_failed(
    alias: str, work: Any, mq: QueueTester
) -> None:
    result = work.which_attempt.enqueue(9)

    with pytest.raises(ValueError, match="attempt 1 of 9"):
        mq.drain()
    assert mq.drain(ahead=120, raise_errors=False).outcomes == ["dead"]
    result.refresh()
    assert (result.status, len(result.errors)) == ("FAILED", 2)
