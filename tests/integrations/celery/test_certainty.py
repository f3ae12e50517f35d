"""A Celery worker that was suspended for longer than the deadline begins no message that others may have."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from celery.concurrency.prefork import TaskPool as Processes
from celery.concurrency.thread import TaskPool as Threads
from kombu import Connection, Consumer, Producer, Queue
from kombu.asynchronous import Hub

from django_mq.delivery.consumer import heartbeat
from django_mq.delivery.consumer.session import Session
from django_mq.engine.decisions.session import SessionEvent
from django_mq.errors import SessionLost
from django_mq.integrations.celery import publisher
from django_mq.integrations.celery.step import begin_if_certain
from django_mq.models import Message
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

THINGS = Queue("things")


@pytest.fixture(autouse=True)
def absent_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat is the last to wake up after the pause."""
    monkeypatch.setattr(heartbeat, "ROUND_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def consumer(connection: Connection) -> Iterator[list[Any]]:
    """What a consumer has received."""
    received: list[Any] = []
    with Consumer(connection.default_channel, [THINGS], on_message=received.append) as made:
        made.qos(prefetch_count=4)
        yield received


def pause(session: Session) -> None:
    session.state.on(SessionEvent.OVERDUE)


def take_away(alias: str) -> None:
    """Reap every session, and finish its messages elsewhere."""
    with closing(private_store(alias)) as other:
        other.database.clock_offset = timedelta(days=1)
        wait_until(other.sessions.reap)
    Message.objects.using(alias).all().delete()


def session_of(connection: Connection) -> Session:
    """The consumer's session, which holds a message."""
    Producer(connection.default_channel).publish("held", routing_key="things")
    connection.drain_events(timeout=PATIENCE_SECONDS)
    found: Session = connection.transport.deliveries.session
    assert found.id is not None
    return found


def test_a_loop_that_was_stopped_has_its_lease_confirmed_before_its_pool_is_given_anything(
    connection: Connection, consumer: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_workers", set())
    session = session_of(connection)
    hub = Hub()
    connection.register_with_event_loop(hub)
    pause(session)

    next(hub.loop)

    assert session.may_begin
    hub.close()


def test_a_loop_that_was_stopped_ends_when_its_session_was_reaped(
    connection: Connection, consumer: list[Any], committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_workers", set())
    session = session_of(connection)
    hub = Hub()
    connection.register_with_event_loop(hub)
    session.wake.clear()
    take_away(committed_database)
    pause(session)

    with pytest.raises(SessionLost):
        next(hub.loop)

    hub.close()


def test_what_was_claimed_before_the_pause_is_handed_over_when_the_lease_is_confirmed(
    connection: Connection, consumer: list[Any]
) -> None:
    session = session_of(connection)
    Producer(connection.default_channel).publish("one", routing_key="things")
    connection.transport.deliveries.buffer.add(
        session.settle_and_claim(ClaimRequest(queues=("things",), credit=1)).claimed
    )
    pause(session)

    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0)
    assert len(consumer) == 1

    session.ensure_certain()
    connection.drain_events(timeout=PATIENCE_SECONDS)
    assert [message.payload for message in consumer] == ["held", "one"]


class Request:
    """What a pool knows of Celery's request: its method, and through that its message."""

    def __init__(self, session: Session) -> None:
        self.message = self
        self.session = session
        self.accepted = False

    def on_accepted(self, *_: Any) -> None:
        self.accepted = True


@pytest.fixture
def session(url: str, committed_database: str, connection: Connection) -> Iterator[Session]:
    THINGS(connection.default_channel).declare()
    wake = Wake()
    made = Session(committed_database, kind="celery", wake=wake)
    Producer(connection.default_channel).publish("held", routing_key="things")
    assert made.settle_and_claim(ClaimRequest(queues=("things",), credit=1)).claimed
    yield made
    made.close()
    wake.close()


def run_in_a_thread(request: Request) -> bool:
    """Give a task to a pool of threads that was prepared twice, as by a reconnect; return whether it ran."""
    pool, ran = Threads(limit=1), []
    for _ in range(2):
        begin_if_certain(pool)
    result = pool.apply_async(
        ran.append, ("it",), {}, accept_callback=request.on_accepted, callback=lambda _: None
    )
    result.wait(PATIENCE_SECONDS)
    pool.executor.shutdown()
    assert request.accepted == bool(ran)
    return bool(ran)


def test_a_thread_begins_a_task_once_the_lease_is_confirmed(session: Session) -> None:
    pause(session)

    assert run_in_a_thread(Request(session))
    assert session.may_begin


def test_a_thread_begins_no_task_whose_session_was_reaped(session: Session, committed_database: str) -> None:
    take_away(committed_database)
    pause(session)

    assert not run_in_a_thread(Request(session))


def test_a_pool_of_processes_is_left_as_it_is() -> None:
    pool = Processes(limit=1)

    before = pool.on_apply

    begin_if_certain(pool)

    assert pool.on_apply == before
