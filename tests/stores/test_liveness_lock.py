"""PostgreSQL notices the end of a worker's connection, and the worker notices it as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connections

from django_mq.models import WorkerSession
from django_mq.stores.registry import private_store
from tests.stores.builders import DEADLINE_SECONDS, open_session, pass_time
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.postgresql.store import PostgreSQLStore

pytestmark = pytest.mark.django_db(databases=["postgresql"], transaction=True)


def a_store() -> PostgreSQLStore:
    store: PostgreSQLStore = private_store("postgresql")  # type: ignore[assignment]
    store.sessions.grace_seconds = 0.0  # the server has just been started for the tests
    return store


@pytest.fixture
def worker() -> Iterator[PostgreSQLStore]:
    """The store of a worker's heartbeat."""
    store = a_store()
    yield store
    store.close()


@pytest.fixture
def reaper() -> Iterator[PostgreSQLStore]:
    """The store of another."""
    store = a_store()
    yield store
    store.close()


def hold(store: PostgreSQLStore, session: int) -> bool:
    return store.sessions.hold_liveness_lock(session, deadline_seconds=DEADLINE_SECONDS)


def seconds_left(session: int) -> float:
    row = WorkerSession.objects.using("postgresql").get(pk=session)
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM %s - now())", [row.deadline])
        return float(cursor.fetchone()[0])


def cut(store: PostgreSQLStore) -> None:
    """Have the server end the connection."""
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(%s, 30000)", [store.database.connection.connection.info.backend_pid]
        )


def test_a_session_whose_connection_has_ended_is_left_the_time_to_come_back(
    worker: PostgreSQLStore, reaper: PostgreSQLStore
) -> None:
    reaper.sessions.reconnect_seconds = 10.0  # more than this test can be kept waiting
    session = open_session(worker)
    assert hold(worker, session)
    cut(worker)

    assert reaper.maintenance.due_duties()["reap"]
    shortened, again = reaper.sessions.shorten_deadlines(), reaper.sessions.shorten_deadlines()

    assert (shortened, again) == (1, 0)
    assert seconds_left(session) <= 10
    assert reaper.sessions.reap() == []
    pass_time(reaper, 11)
    assert [reaped.session_id for reaped in reaper.sessions.reap()] == [session]


def test_a_session_whose_connection_has_ended_is_not_prolonged(
    worker: PostgreSQLStore, reaper: PostgreSQLStore
) -> None:
    session = open_session(worker)
    assert hold(worker, session)
    assert reaper.sessions.prolong(session, deadline_seconds=1000)
    cut(worker)

    assert not reaper.sessions.prolong(session, deadline_seconds=1000)


def test_a_locked_session_keeps_its_deadline(worker: PostgreSQLStore, reaper: PostgreSQLStore) -> None:
    session = open_session(worker)
    hold(worker, session)

    assert not reaper.maintenance.due_duties()["reap"]
    assert reaper.sessions.shorten_deadlines() == 0


def test_a_session_without_a_lock_has_its_whole_deadline(reaper: PostgreSQLStore) -> None:
    open_session(reaper)

    assert not reaper.maintenance.due_duties()["reap"]
    assert reaper.sessions.shorten_deadlines() == 0


def test_a_worker_sees_that_its_connection_has_ended_and_takes_its_deadline_back(
    worker: PostgreSQLStore, reaper: PostgreSQLStore
) -> None:
    session = open_session(worker)
    hold(worker, session)
    assert not worker.sessions.has_hung_up()

    cut(worker)
    wait_until(worker.sessions.has_hung_up)
    reaper.sessions.shorten_deadlines()
    worker.close()
    wait_until(lambda: hold(worker, session))

    assert not worker.sessions.has_hung_up()
    assert reaper.sessions.shorten_deadlines() == 0
    assert seconds_left(session) > 3


def test_locking_again_over_the_same_connection_asks_nothing(worker: PostgreSQLStore) -> None:
    session = open_session(worker)
    hold(worker, session)
    worker.sessions.close(session)

    assert hold(worker, session)


def test_while_the_former_connection_lives_no_other_takes_the_lock(
    worker: PostgreSQLStore, reaper: PostgreSQLStore
) -> None:
    session = open_session(worker)
    hold(worker, session)

    assert not hold(reaper, session)
    assert reaper.sessions.shorten_deadlines() == 0


def test_a_new_server_shortens_no_deadline(worker: PostgreSQLStore, reaper: PostgreSQLStore) -> None:
    session = open_session(worker)
    hold(worker, session)
    cut(worker)
    reaper.sessions.grace_seconds = 365 * 86400.0

    assert not reaper.maintenance.due_duties()["reap"]
    assert reaper.sessions.shorten_deadlines() == 0


def test_a_connection_that_is_a_poolers_takes_no_lock(
    worker: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(worker)
    told = worker.database.connection.connection.info.backend_pid + 1
    info = type(worker.database.connection.connection.info)
    monkeypatch.setattr(info, "backend_pid", property(lambda _: told))

    assert hold(worker, session)

    assert not WorkerSession.objects.using("postgresql").get(pk=session).guarded
    assert not worker.sessions.has_hung_up()


def test_the_next_eldest_takes_over_when_the_eldest_ones_connection_has_ended(
    worker: PostgreSQLStore, reaper: PostgreSQLStore
) -> None:
    from tests.stores.conformance.test_sessions import ALIVE

    leader, next_one = open_session(worker), open_session(reaper)
    hold(worker, leader)
    before = reaper.sessions.renew(next_one, ALIVE)
    cut(worker)
    after = reaper.sessions.renew(next_one, ALIVE)

    assert before is not None
    assert after is not None
    assert (before.leader, after.leader) == (False, True)
