"""Cancelling a message stops the handler that runs, and the message does not come back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq.api import Effect, cancel, publish, publish_many
from django_mq.delivery.consumer import worker as worker_module
from django_mq.delivery.consumer.worker import Worker
from django_mq.errors import HandlersHang
from django_mq.models import Attempt, History, Message, StopRequest, WorkerSession
from tests.delivery.builders import a_handler, running
from tests.delivery.test_recall import Slow, a_busy_worker, numbers, prepare
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from uuid import UUID

    from pytest_django import Settings

    from django_mq.delivery.codecs import ReceivedMessage

pytestmark = pytest.mark.on("sqlite", once="postgresql")

STATUS = Message.Status


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    return prepare(committed_database, settings)


def outcomes(alias: str) -> list[tuple[UUID | None, int]]:
    return list(History.objects.using(alias).order_by("id").values_list("message_id", "outcome"))


CANCELLED = History.Outcome.CANCELLED


@pytest.mark.parametrize("raises", [None, ValueError("cleaning up has failed")])
def test_a_handler_that_heeds_is_stopped_and_its_message_is_gone(alias: str, raises: Exception | None) -> None:
    begun = threading.Event()

    def work(message: ReceivedMessage) -> None:
        begun.set()
        wait_until(lambda: message.cancelled)
        if raises is not None:
            raise raises
        message.raise_if_cancelled()

    message = publish("orders")
    with running(a_handler(work), using=alias, threads=1):
        assert begun.wait(PATIENCE_SECONDS)

        [answer] = cancel(message, running=True)
        wait_until(lambda: outcomes(alias))

        assert (answer.effect, answer.queue, answer.done) == (Effect.STOPPING, "orders", False)
        assert outcomes(alias) == [(message, CANCELLED)]
        assert not Attempt.objects.using(alias).exists()
        wait_until(lambda: not StopRequest.objects.using(alias).exists())
    assert not Message.objects.using(alias).exists()


def test_a_handler_that_does_not_heed_is_given_up_and_named(
    alias: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "HEED_SECONDS", 0.1)
    with a_busy_worker(alias, 2) as slow:
        first = Message.objects.using(alias).order_by("id").values_list("message_id", flat=True)[0]
        cancel(first, running=True)
        wait_until(lambda: len(slow.begun) == 2)  # by a new thread
        wait_until(lambda: outcomes(alias))

        assert outcomes(alias) == [(first, CANCELLED)]
        assert f"has not ended 0.1 s after message {first} of queue 'orders' was cancelled" in caplog.text
        slow.may_end.set()
        wait_until(lambda: len(outcomes(alias)) == 2)

    assert [outcome for _, outcome in outcomes(alias)] == [CANCELLED, History.Outcome.ACCEPTED]


def test_a_worker_that_is_replaced_gives_everything_else_back_where_a_handler_does_not_heed(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "HEED_SECONDS", 0.1)
    slow, ids = Slow(), publish_many([("orders", number) for number in range(3)])
    worker = Worker([a_handler(slow)], threads=2, using=alias, is_replaced=True)
    with ThreadPoolExecutor(1) as apart:
        ended = apart.submit(worker.run)
        wait_until(lambda: len(slow.begun) == 2 and numbers(alias, STATUS.CLAIMED) == 3)

        cancel(ids[0], running=True)

        with pytest.raises(HandlersHang, match="Slow has not ended after its message was cancelled"):
            ended.result(PATIENCE_SECONDS)
    slow.may_end.set()
    assert outcomes(alias) == [(ids[0], CANCELLED)]
    assert numbers(alias, STATUS.READY) == 2


def test_a_cancel_in_a_transaction_stops_when_it_commits_and_reaches_what_has_not_begun(alias: str) -> None:
    slow = Slow()
    ids = publish_many([("orders", number) for number in range(3)])
    with running(a_handler(slow), using=alias, threads=1) as worker:
        wait_until(lambda: slow.begun and numbers(alias, STATUS.CLAIMED) == 3)
        with transaction.atomic(using=alias):
            assert [answer.effect for answer in cancel(ids[0], running=True)] == [Effect.STOPPING]
            transaction.set_rollback(True, using=alias)
        with transaction.atomic(using=alias):
            answers = cancel(ids[2], running=True)
        wait_until(lambda: outcomes(alias))  # while the only thread is busy
        assert not worker.session.settlements
        slow.may_end.set()
        wait_until(lambda: len(outcomes(alias)) == 3)

    assert [answer.effect for answer in answers] == [Effect.STOPPING]
    assert slow.begun == [0, 1]
    assert set(outcomes(alias)) == {
        (ids[0], History.Outcome.ACCEPTED),
        (ids[1], History.Outcome.ACCEPTED),
        (ids[2], CANCELLED),
    }


def test_what_runs_is_shown_with_the_session(alias: str) -> None:
    with a_busy_worker(alias, 2):
        first = Message.objects.using(alias).order_by("id").first()
        assert first is not None

        def shown() -> Any:
            return WorkerSession.objects.using(alias).get().running

        wait_until(shown)
        [(row, claim, handler, seconds)] = shown()
        assert (row, claim) == (first.pk, first.claim)
        assert handler.endswith("Slow")
        assert seconds >= 0
    assert numbers(alias, STATUS.CLAIMED) == 0
