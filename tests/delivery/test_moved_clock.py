"""A test moves the clock a week, and everything that waits for its time is there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import publish
from django_mq.delivery.consumer.worker import Worker
from django_mq.models import History
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store
from django_mq.testing import QueueTester
from tests.delivery.builders import a_handler, running
from tests.stores.builders import declare
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WEEK, DAY = timedelta(days=7), timedelta(days=1)


@pytest.fixture
def move() -> Iterator[Callable[[timedelta], None]]:
    with QueueTester() as mq:
        yield mq.move_clock


@pytest.fixture
def alias(committed_database: str) -> str:
    declare(shared_store(committed_database), "orders", backoff_seconds=86400.0, backoff_jitter=0.0)
    return committed_database


def drain(alias: str, function: Callable[[Any], Any]) -> None:
    Worker([a_handler(function)], threads=1, using=alias).run(until_empty=True)


def test_a_scheduled_message_and_a_retry_come_when_the_clock_is_moved(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    handled: list[tuple[str, int]] = []

    def handle(message: Any) -> None:
        handled.append((message.body, message.attempt))
        if message.body == "fails" and message.attempt == 1:
            raise ValueError

    publish("orders", "later", delay=6 * DAY, using=alias)
    publish("orders", "fails", using=alias)
    publish("orders", "late", delay=8 * DAY, using=alias)
    drain(alias, handle)
    assert handled == [("fails", 1)]

    move(WEEK)
    drain(alias, handle)

    assert sorted(handled[1:]) == [("fails", 2), ("later", 1)]


def test_a_message_expires_when_the_clock_is_moved(alias: str, move: Callable[[timedelta], None]) -> None:
    publish("orders", "short", ttl=6 * DAY, using=alias)
    publish("orders", "long", ttl=8 * DAY, using=alias)
    move(WEEK)
    handled: list[str] = []

    drain(alias, lambda message: handled.append(message.body))
    shared_store(alias).maintenance.expire(10)

    assert handled == ["long"]
    assert History.objects.using(alias).filter(outcome=History.Outcome.EXPIRED).count() == 1


def test_the_messages_of_a_session_come_back_when_the_clock_is_moved(
    alias: str, move: Callable[[timedelta], None]
) -> None:
    store = shared_store(alias)
    publish("orders", 1, using=alias)
    session = store.sessions.open(
        SessionInfo(name="w", kind="native", host="h", pid=1, version="1"), deadline_seconds=60
    )
    assert len(store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed) == 1

    move(WEEK)

    assert [each.released for each in store.sessions.reap()] == [1]


def test_a_worker_that_runs_meanwhile_handles_what_is_due(alias: str, move: Callable[[timedelta], None]) -> None:
    handled: list[str] = []
    publish("orders", "later", delay=6 * DAY, using=alias)

    with running(a_handler(lambda message: handled.append(message.body)), using=alias):
        publish("orders", "first", using=alias)
        wait_until(lambda: handled == ["first"])
        move(WEEK)
        publish("orders", "second", using=alias)
        wait_until(lambda: sorted(handled) == ["first", "later", "second"])
