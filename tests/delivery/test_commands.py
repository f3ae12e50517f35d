"""What an operator tells a worker, and how it follows while it works."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.api import publish, publish_many
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.hints import tell_workers
from django_mq.delivery.operator.commands import MOST_CREDIT, send_command
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import OutOfRange
from django_mq.models import Consumer, Message, WorkerSession
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from typing import Any

    from pytest_django import Settings

pytestmark = pytest.mark.on("sqlite", once="postgresql")

CLAIMED = Message.Status.CLAIMED


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queue ``orders``; without a hint no worker would look for an hour."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "SESSION_SECONDS": 10_800.0}
    declare(shared_store(committed_database), "orders")
    return committed_database


class Gate:
    """A handler that counts its messages and lets them go when it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.begun: list[Any] = []

    def __call__(self, message: Any) -> None:
        self.begun.append(message.body)
        self.opened.wait(PATIENCE_SECONDS)

    def wait_for(self, number: int) -> None:
        wait_until(lambda: len(self.begun) >= number, lambda: f"{number} messages; came {self.begun}")


def session_of(worker: Worker) -> int:
    wait_until(lambda: worker.session.id is not None, lambda: "a session")
    assert worker.session.id is not None
    return worker.session.id


def told(worker: Worker, **what: Any) -> None:
    """Tell the worker, and wait until it knows."""
    before = worker.session.command
    assert send_command(session_of(worker), using=worker.session.alias, **what)
    wait_until(lambda: worker.session.command != before, lambda: "the worker to hear of it")


def test_a_quiet_worker_finishes_what_it_holds_and_claims_no_more_until_it_works_again(alias: str) -> None:
    gate = Gate()
    with running(a_handler(gate, credit=1), using=alias, threads=1) as worker:
        publish("orders", "first")
        gate.wait_for(1)
        told(worker, mode=WorkerMode.QUIET)
        publish("orders", "second")
        gate.opened.set()
        wait_until(lambda: not Message.objects.using(alias).filter(state=CLAIMED), lambda: "the first to end")

        rows = Message.objects.using(alias).values_list("state", flat=True)
        assert (list(rows), gate.begun) == ([Message.Status.READY], ["first"])

        told(worker, mode=WorkerMode.WORK)
        gate.wait_for(2)


def test_a_worker_that_is_told_to_stop_ends_after_what_runs(alias: str) -> None:
    gate = Gate()
    worker = Worker([a_handler(gate, credit=5)], threads=1, using=alias)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        publish_many([("orders", number) for number in range(3)])
        gate.wait_for(1)
        told(worker, mode=WorkerMode.STOP)
        # It is known before it is followed: only what has been given back can begin no more.
        ready = Message.objects.using(alias).filter(state=Message.Status.READY)
        wait_until(lambda: ready.count() == 2, lambda: "what had not begun to be given back")
    finally:
        gate.opened.set()
        worker.wake.set()
        thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert gate.begun == [0]
    left = Message.objects.using(alias).values_list("state", "attempts")
    assert list(left) == [(Message.Status.READY, 0)] * 2
    assert not WorkerSession.objects.using(alias).exists()


def test_a_given_credit_bounds_what_is_held_until_the_workers_own_comes_back(alias: str) -> None:
    gate = Gate()
    with running(a_handler(gate, credit=4), using=alias, threads=1) as worker:
        wait_until(lambda: worker.session.id is not None, lambda: "a session")
        told(worker, credit=2)
        publish_many([("orders", number) for number in range(10)])
        gate.wait_for(1)
        wait_until(lambda: worker.session.held == 2, lambda: f"2 held; {worker.session.held} are")

        told(worker, credit=0)
        wait_until(lambda: worker.session.held == 4, lambda: f"4 held; {worker.session.held} are")
        gate.opened.set()


def test_the_row_says_what_the_consumers_of_a_quiet_worker_do(alias: str) -> None:
    with running(a_handler(), using=alias) as worker:
        told(worker, mode=WorkerMode.QUIET, credit=3)
        consumer = Consumer.objects.using(alias)
        wait_until(
            lambda: consumer.filter(state="stopping", credit_limit=3).exists(), lambda: str(consumer.values())
        )
        row = WorkerSession.objects.using(alias).get()
        assert (row.conduct, row.given_credit, row.slots, row.busy) == ("quiet", 3, 2, 0)
        assert row.memory_bytes is None or row.memory_bytes > 0


def test_a_worker_hears_through_redis_what_it_is_told(alias: str, settings: Settings, redis_url: str) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": redis_url, "REDIS_PREFIX": f"test-{uuid4().hex}"}

    def hears(worker: Worker, **what: Any) -> None:
        before = worker.session.command
        assert send_command(session_of(worker), using=alias, **what)
        wait_until(lambda: has_heard(worker, before), lambda: f"the worker to hear of {what}")

    def has_heard(worker: Worker, before: Any) -> bool:
        # A hint may be lost, as while the worker is still subscribing; hinted again it must come through.
        tell_workers(using=alias)
        return worker.session.command != before

    with running(a_handler(), using=alias, threads=1) as worker:
        hears(worker, mode=WorkerMode.QUIET)
        hears(worker, credit=2)
        hears(worker, mode=WorkerMode.WORK)
        hears(worker, mode=WorkerMode.STOP)
        sessions = WorkerSession.objects.using(alias)
        wait_until(lambda: not sessions.exists(), lambda: "the worker to end")


@pytest.mark.parametrize("credit", [-1, MOST_CREDIT + 1])
def test_a_credit_out_of_range_is_refused_before_anything_is_written(credit: int) -> None:
    with pytest.raises(OutOfRange, match="give 0 to"):
        send_command(1, credit=credit)
