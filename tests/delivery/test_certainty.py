"""After a pause longer than the deadline nothing begins before the lease is confirmed."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import publish_many
from django_mq.delivery.consumer import heartbeat
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.session import SessionEvent
from django_mq.models import Message
from django_mq.notifications.base import Wake
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.delivery.consumer.worker import Worker

pytestmark = pytest.mark.on("sqlite")


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with two messages in the queue ``orders``."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAINTENANCE_SECONDS": 3600}
    declare(shared_store(committed_database), "orders")
    publish_many([("orders", "runs"), ("orders", "waits")])
    return committed_database


class Gate:
    """A handler that waits with its first message until the gate is opened."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.is_open = threading.Event()

    def __call__(self, message: Any) -> None:
        self.begun.append(message.body)
        self.is_open.wait(PATIENCE_SECONDS)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.is_open.set()


def pause(worker: Worker) -> None:
    """Let the worker have been stopped for a long time."""
    worker.session.state.on(SessionEvent.OVERDUE)


def finish_elsewhere(alias: str) -> None:
    """Reap the worker's session and take its messages away."""
    with closing(private_store(alias)) as other:
        other.database.clock_offset = timedelta(days=1)
        wait_until(other.sessions.reap)
    Message.objects.using(alias).all().delete()


def test_a_worker_that_was_stopped_begins_no_message_that_was_finished_elsewhere(
    alias: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "ROUND_SECONDS", PATIENCE_SECONDS)  # the pool is the first to wake up
    with running(a_handler(gate, credit=2), using=alias, threads=1) as worker:
        wait_until(lambda: gate.begun and worker.session.held == 2)
        before = worker.session
        finish_elsewhere(alias)
        pause(worker)

        gate.is_open.set()
        worker.wake.set()

        wait_until(lambda: worker.session is not before)
        assert gate.begun == ["runs"]


def test_a_worker_that_was_stopped_goes_on_when_its_lease_is_confirmed(alias: str, gate: Gate) -> None:
    with running(a_handler(gate, credit=2), using=alias, threads=1) as worker:
        wait_until(lambda: gate.begun and worker.session.held == 2)
        before = worker.session
        pause(worker)
        gate.is_open.set()

        worker.session.renew_soon()

        wait_until(lambda: gate.begun == ["runs", "waits"])
        assert worker.session is before


def test_the_heartbeat_of_a_lost_session_confirms_nothing_and_tells_its_worker_nothing(
    alias: str, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    with running(a_handler(gate, credit=2), using=alias, threads=1) as worker:
        wait_until(lambda: gate.begun and worker.session.held == 2)
        before = worker.session
        # First: a heartbeat that comes right after the reaping would take back both messages.
        Message.objects.using(alias).order_by("-id")[0].delete()
        with closing(private_store(alias)) as other:
            other.database.clock_offset = timedelta(days=1)
            wait_until(other.sessions.reap)
        before.renew_soon()
        wait_until(lambda: worker.session is not before)
        told: list[Any] = []
        before.row.driver = replace(before.driver, on_command=told.append)

        assert before.heartbeat
        before.heartbeat.renew()
        gate.is_open.set()

        assert told == []
        assert "is confirmed again" not in caplog.text


def test_two_threads_that_give_back_at_once_leave_the_later_look(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Wake()) as wake, closing(Session(alias, kind="native", wake=wake)) as session:
        state = session.state
        state.miss_claim()
        first, second = state.resync_due(), state.resync_due()
        assert first is not None
        assert second is not None

        state.resynced(first)
        state.resynced(second)

        assert state.resync_due() is None
        monkeypatch.setattr("django_mq.delivery.consumer.lease.now", lambda: float("inf"))
        assert state.resync_due() is not None
