"""What the parent of a Celery worker notes of a handler's message that a process of its pool has settled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_mq.api import publish
from django_mq.delivery.consumer.handlers import consumer, forget
from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.operator.queue_editor import create_queue
from django_mq.engine.decisions.verdict import Verdict
from django_mq.integrations.celery.native import NativeMessage, Settled, deliver, interrupted, pack
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest, Settlement
from tests.delivery.builders import a_handler, a_policy
from tests.delivery.test_unit_of_work import LEFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.stores.records import Claimed

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture
def delays() -> list[float]:
    """Of messages that came back, the delays, as the worker's loop is told."""
    return []


@pytest.fixture
def session(committed_database: str, delays: list[float]) -> Iterator[Session]:
    create_queue("orders", {"max_in_flight": 1}, using=committed_database)
    publish("orders", using=committed_database)
    wake = Wake()
    driver = Driver(queues=lambda: ("orders",), came_back=delays.append)
    session = Session(committed_database, kind="celery", wake=wake, driver=driver)
    yield session
    session.close()
    wake.close()


@pytest.fixture
def message(session: Session) -> NativeMessage:
    (claimed,) = session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1, slots=1)).claimed
    channel: Any = SimpleNamespace(policy_of=lambda _: a_policy(), decode_body=lambda body, _: body)
    return NativeMessage(claimed, session, a_handler(transactional=True), channel)


def test_the_acknowledgement_of_a_transactional_handler_makes_the_loop_look(
    session: Session, message: NativeMessage
) -> None:
    message.settle_done()

    assert (session.held, len(session.settlements), session.settlements.ended) == (0, 0, 1)
    assert session.flush()
    assert session.settlements.ended == 0


def test_a_handler_sees_nothing_of_a_celery_task_on_a_connection_that_is_kept(
    session: Session, message: NativeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alias = session.alias
    monkeypatch.setitem(connections.settings[alias], "CONN_MAX_AGE", None)
    statement, question = LEFT[connections[alias].vendor][0]
    seen = []

    def look() -> Any:
        with connections[alias].cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchone()

    def handle(_: Any) -> None:
        seen.append(look())

    def work() -> None:
        with connections[alias].cursor() as cursor:
            seen.append(look())
            cursor.execute(statement)
        deliver.run(alias, session.id, pack(message.claimed))
        with connections[alias].cursor() as cursor:
            seen.append(look())
        connections.close_all()

    consumer("orders")(handle)
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(work).result()
    finally:
        forget("orders")

    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize("settle", [NativeMessage.settle_done, lambda each: each.settle_rejected(requeue=False)])
def test_the_loop_learns_when_a_failed_message_is_due_again(
    session: Session, message: NativeMessage, delays: list[float], settle: Any
) -> None:
    claimed = message.claimed
    message.settled = Settlement(claimed.id, claimed.claim, Verdict.RELEASE, counted=True, delay_seconds=7.0)

    settle(message)

    assert (session.held, len(session.settlements)) == (0, 0)
    assert session.flush()
    assert delays == [7.0]


def test_a_handler_in_a_thread_is_asked_to_end_when_its_message_is_cancelled(
    session: Session, message: NativeMessage
) -> None:
    claimed = message.claimed

    @consumer("orders")
    def handle(received: ReceivedMessage) -> None:
        assert interrupted(claimed.receipt)
        received.raise_if_cancelled()

    try:
        with ThreadPoolExecutor(1) as pool, pytest.raises(Settled) as settled:
            pool.submit(_in_a_thread, session, claimed).result()
    finally:
        forget("orders")

    assert settled.value.args[0].verdict is Verdict.CANCEL
    assert not interrupted(claimed.receipt)


def _in_a_thread(session: Session, claimed: Claimed) -> None:
    try:
        deliver.run(session.alias, session.id, pack(claimed))
    finally:
        connections.close_all()
