"""The progress of messages on each database: reported by handlers, written by a thread, read while they run."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connection
from django.http import HttpRequest

from django_mq.api import Reject, aprogress_of, consumer, progress_of, publish
from django_mq.bulk.pool import pool_for
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer.handlers import Way, forget
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.errors import AttemptEnded, InvalidMessage, InvalidProgress
from django_mq.models import Message, Queue
from django_mq.replies.models import MessageProgress
from django_mq.replies.panel import show_progress
from django_mq.replies.recorder import prune_progress
from django_mq.replies.reported import ReportedProgress
from django_mq.replies.reporter import write
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.testing.tester import QueueTester


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.02}
    declare(shared_store(committed_database), "reports")
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0, max_attempts=2)
    return committed_database


@contextmanager
def working(alias: str, handler: Handler, pool: Any = None) -> Iterator[None]:
    worker = Worker([handler], threads=2, using=alias, **({} if pool is None else {"pool": pool}))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)


def seen(alias: str, message_id: Any, fraction: float) -> ReportedProgress:
    """Wait until this much is reported of a message."""

    def found() -> ReportedProgress | None:
        reported = progress_of(message_id, using=alias)
        return reported if reported and reported.fraction == fraction else None

    reported = wait_until(found, f"the progress {fraction}")
    assert reported is not None
    return reported


@pytest.mark.parametrize("transactional", [False, True])
def test_what_a_handler_reports_is_seen_while_it_runs_and_stays(alias: str, transactional: bool) -> None:
    go_on = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        for page in range(1, 41):
            message.progress(page / 100, f"page {page}")
        assert go_on.wait(PATIENCE_SECONDS)
        message.progress(1)

    message_id = publish("reports", using=alias)
    assert progress_of(message_id, using=alias) is None
    with working(alias, a_handler(handle, queue="reports", transactional=transactional)):
        # SQLite lets nothing else write while the transaction of a handler is open.
        if not transactional or shared_store(alias).features.concurrent_writers:
            found = seen(alias, message_id, 0.4)
            assert (found.text, found.attempt, found.queue) == ("page 40", 1, "reports")
            message = Message.objects.using(alias).get()
            assert 'value="0.4"' in show_progress(HttpRequest(), message)
        go_on.set()
        assert seen(alias, message_id, 1.0).text == ""
    assert asyncio.run(aprogress_of(str(message_id), using=alias)) == progress_of(message_id, using=alias)


def test_the_progress_of_a_failed_attempt_stays_until_the_next_one_reports(alias: str) -> None:
    go_on = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        if message.attempt == 1:
            message.progress(0.9, "nearly")
            raise ValueError
        assert go_on.wait(PATIENCE_SECONDS)
        message.progress(0.1)
        raise Reject

    message_id = publish("reports", using=alias)
    with working(alias, a_handler(handle, queue="reports")):
        assert seen(alias, message_id, 0.9).attempt == 1
        go_on.set()
        assert seen(alias, message_id, 0.1).attempt == 2


def report(message: ReceivedMessage) -> None:
    message.progress(0.5, "half")


def report_all(messages: list[ReceivedMessage]) -> None:
    for message in messages:
        report(message)


async def areport(message: ReceivedMessage) -> None:
    report(message)


WAYS: dict[Way, tuple[Callable[..., Any], Any]] = {
    Way.BULK: (report_all, None),
    Way.EVENT_LOOP: (areport, partial(EventLoopPool, threads=1)),
}


@pytest.mark.django_db(transaction=True, databases="__all__")
@pytest.mark.parametrize("way", WAYS)
def test_handlers_of_many_and_coroutines_report_too(way: Way) -> None:
    declare(shared_store("default"), "reports")
    function, pool = WAYS[way]
    handler = a_handler(function, queue="reports", way=way)
    if way is Way.BULK:
        handler = replace(handler, bulk=10)
        pool = pool_for(handler)
    ids = [publish("reports") for _ in range(3)]
    with working("default", handler, pool):
        for each in ids:
            seen("default", each, 0.5)


def test_a_later_report_is_not_replaced_by_an_earlier_one(alias: str) -> None:
    store, now = shared_store(alias), clock.now()
    first = ReportedProgress(
        message_id=uuid4(), queue="reports", fraction=0.7, text="é \N{SNOWMAN}", attempt=2, reported_at=now
    )
    other = replace(first, message_id=uuid4(), text="")
    write(store, [first, other])
    write(store, [replace(first, fraction=0.2, attempt=1, reported_at=now - timedelta(seconds=1))])
    assert progress_of(first.message_id, using=alias) == first
    later = [replace(each, fraction=0.8, reported_at=now + timedelta(seconds=1)) for each in (first, other)]
    write(store, later)
    assert [progress_of(each.message_id, using=alias) for each in later] == later


def test_the_progress_of_messages_that_are_gone_is_deleted_after_a_day(alias: str) -> None:
    store = shared_store(alias)
    waiting = publish("reports", using=alias)
    for message_id in (waiting, uuid4()):
        values = {"queue_name": "reports", "fraction": 0.5, "attempt": 1}
        day_ago = clock.now() - timedelta(hours=25)
        MessageProgress.objects.using(alias).create(message_id=message_id, reported_at=day_ago, **values)

    assert (prune_progress(store, 100), prune_progress(store, 100)) == (1, 0)
    assert progress_of(waiting, using=alias) is not None


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_nothing_does_not_fail_the_handler_and_gets_it_later() -> None:
    declare(shared_store("default"), "reports")
    message_id = publish("reports")
    with connection.schema_editor() as editor:
        editor.delete_model(MessageProgress)
    with working("default", a_handler(report, queue="reports")):
        wait_until(lambda: not Message.objects.exists(), "the end of the message")
        with connection.schema_editor() as editor:
            editor.create_model(MessageProgress)
        seen("default", message_id, 0.5)


BAD = [
    *[(fraction, "") for fraction in (-0.1, 1.1, float("nan"), True, "0.5", None)],
    *[(0.5, text) for text in ("x" * 201, None, "\x00", "\ud800", 7)],
]


@pytest.mark.django_db
def test_a_report_that_cannot_be_is_refused_with_what_to_do(mq: QueueTester) -> None:
    declare(shared_store("default"), "reports")
    errors = []

    def handle(message: Any) -> None:
        for fraction, text in BAD:
            with pytest.raises(InvalidProgress, match="give a") as error:
                message.progress(fraction, text)
            errors.append(error.value)
        message.progress(0.25, "x" * 200)
        kept.append(message)

    kept: list[ReceivedMessage] = []
    consumer("reports")(handle)
    message_id = publish("reports")
    try:
        mq.drain("reports")
    finally:
        forget("reports")
    assert len(errors) == len(BAD)
    # In a test, it stays in the process.
    assert progress_of(message_id) == progress_of(str(message_id))
    assert not MessageProgress.objects.exists()
    with pytest.raises(AttemptEnded, match="has returned"):
        kept[0].changed().progress(0.5)
    with pytest.raises(InvalidMessage):
        progress_of("no id")
    assert progress_of(uuid4()) is None
