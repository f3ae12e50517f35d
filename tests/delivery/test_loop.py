"""The heartbeat speaks for a loop: no longer than the loop lives, and it names one that stands still."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from django_mq.api import publish
from django_mq.delivery.consumer.lease import Driver, Loop
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state.fleet import fleet, supplies
from django_mq.engine.decisions.session import STANDING_SECONDS, LoopState, loop_state
from django_mq.models import Consumer, Message, WorkerSession
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    #: Opens a session that has claimed a message of ``orders``.
    Open = Callable[[Loop], Session]

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture
def alias(committed_database: str) -> str:
    """A database with a queue ``orders``."""
    declare(shared_store(committed_database), "orders")
    return committed_database


@pytest.fixture
def open_session(alias: str) -> Iterator[Open]:
    opened: list[tuple[Session, Wake]] = []

    publish("orders")  # not in another thread, whose connection would stay open

    def make(loop: Loop) -> Session:
        wake = Wake()
        session = Session(alias, kind="native", wake=wake, driver=Driver(loop=lambda: loop))
        opened.append((session, wake))
        session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1))
        return session

    yield make
    for session, wake in opened:
        session.close()
        session.store.close()
        wake.close()


@pytest.mark.parametrize(
    ("is_over", "still_seconds", "state"),
    [
        (False, 0.0, LoopState.TURNS),
        (False, STANDING_SECONDS - 1, LoopState.TURNS),
        (False, STANDING_SECONDS, LoopState.STANDS),
        (False, 1e9, LoopState.STANDS),  # however long: work may run in it
        (True, 0.0, LoopState.ENDED),
    ],
)
def test_only_the_end_of_a_loop_ends_its_heartbeat(
    *, is_over: bool, still_seconds: float, state: LoopState
) -> None:
    assert loop_state(is_over=is_over, still_seconds=still_seconds) is state


def test_the_messages_of_a_loop_whose_thread_has_ended_are_ready_again(alias: str, open_session: Open) -> None:
    loop = Loop()

    def drive() -> None:
        loop.turn()
        open_session(loop)

    thread = threading.Thread(target=drive)
    thread.start()
    thread.join(PATIENCE_SECONDS)

    wait_until(lambda: not WorkerSession.objects.using(alias).exists(), "the end of the session")
    assert Message.objects.using(alias).get().state == Message.Status.READY


def test_a_session_whose_loop_has_failed_is_not_renewed_and_settles_until_its_deadline(
    alias: str, open_session: Open, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop()
    loop.turn()
    session = open_session(loop)
    loop.fail(ValueError("a broken pipe"))
    wait_until(lambda: "has ended: ValueError('a broken pipe')" in caplog.text)

    before = WorkerSession.objects.using(alias).get().deadline
    assert session.heartbeat is not None
    session.heartbeat.renew()
    assert WorkerSession.objects.using(alias).get().deadline == before

    with closing(private_store(alias)) as other:
        assert not other.sessions.reap()
    message = Message.objects.using(alias).get()
    assert {(message.pk, message.claim)} == session.receipts


def test_a_loop_that_stands_still_is_named_and_keeps_its_messages(
    alias: str,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 6}  # consumers are written at each renewal
    gate, begun = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        gate.wait(PATIENCE_SECONDS)

    consumers = Consumer.objects.using(alias)
    with running(a_handler(handle), using=alias, name="shop-1") as worker:
        publish("orders")
        assert begun.wait(PATIENCE_SECONDS)
        worker._loop.turns = standing = Loop()
        standing.turn(waits_seconds=-STANDING_SECONDS)
        monkeypatch.setattr(standing, "turn", lambda **_: None)
        wait_until(lambda: consumers.filter(state="still").exists(), lambda: str(consumers.values()))
        with pytest.raises(SystemExit):
            call_command("mq_doctor", "--database", alias)
        call_command("mq_workers", "--database", alias)

        assert Message.objects.using(alias).get().state == Message.Status.CLAIMED
        worker._loop.turns = Loop()
        wait_until(lambda: not consumers.filter(state="still").exists(), lambda: str(consumers.values()))
        gate.set()

    assert "The loop of 'shop-1' has made no turn" in caplog.text
    said = capsys.readouterr().out
    assert "The loop of worker shop-1 makes no turn" in said
    assert "its loop stands still" in said


def test_a_worker_that_ends_is_shown_as_stopping_and_counts_for_no_queue(alias: str) -> None:
    gate, begun = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        gate.wait(PATIENCE_SECONDS)

    consumers = Consumer.objects.using(alias)
    with running(a_handler(handle), using=alias) as worker:
        publish("orders")
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop()
        wait_until(lambda: consumers.filter(state="stopping").exists(), lambda: str(consumers.values()))
        assert supplies(fleet(using=alias))["orders"].awake == 0
        gate.set()
