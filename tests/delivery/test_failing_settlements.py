"""Settlements that cannot be written: on another connection, later, or never; the session is kept meanwhile."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.api import publish
from django_mq.delivery.consumer import settlements
from django_mq.delivery.consumer.heartbeat import HeartbeatThread
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import StoreUnavailable
from django_mq.models import History, Message, WorkerSession
from django_mq.notifications.base import Wake
from django_mq.stores.connections import private_connection
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store
from tests.conftest import hold_queues
from tests.stores import builders
from tests.support.mislaying import mislaid
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

#: More often than psycopg runs a statement before it prepares it.
OFTEN = 12
STATUS = Message.Status
on_postgresql = pytest.mark.django_db(databases=["postgresql"], transaction=True)
on_sqlite = pytest.mark.django_db(databases=["default"], transaction=True)


@contextmanager
def a_session(alias: str, *bodies: Any) -> Iterator[tuple[Session, list[Any]]]:
    """A session that has claimed these messages."""
    declare(shared_store(alias), "orders")
    for body in bodies:
        publish("orders", body)
    wake = Wake()
    session = Session(alias, kind="celery", wake=wake)
    try:
        yield session, session.settle_and_claim(ClaimRequest(queues=("orders",), credit=len(bodies))).claimed
    finally:
        session.close()
        session.store.close()
        wake.close()


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Keep other connections from writing a table of PostgreSQL."""
    # Not in the transaction of a store: the server would end that while it is idle.
    with closing(private_connection("postgresql")) as other:
        other.cursor().execute(f"BEGIN; LOCK TABLE {table} IN SHARE MODE")
        yield
        other.cursor().execute("ROLLBACK")


def states(alias: str) -> list[tuple[bool, bool]]:
    """Whether each message is claimed, and whether it came back."""
    rows = Message.objects.using(alias).order_by("id")
    return [(row.state == STATUS.CLAIMED, row.redelivered) for row in rows]


@on_postgresql
def test_a_connection_that_was_refused_often_can_still_commit() -> None:
    store = private_store("postgresql")
    store.database.connection.settings_dict["OPTIONS"]["options"] += " -c lock_timeout=20"  # type: ignore[attr-defined]
    builders.declare(store)
    builders.publish(store)
    with closing(store):
        session = builders.open_session(store)
        [message] = builders.claim(store, session)
        accepted = [builders.verdict(message, Verdict.ACCEPT)]
        with locked("django_mq_history"):
            for _ in range(OFTEN):
                with pytest.raises(StoreUnavailable, match="lock timeout"):
                    store.claims.settle_and_claim(session, accepted, None)

        assert not store.claims.settle_and_claim(session, accepted, None).void

    assert not Message.objects.using("postgresql").exists()


def test_a_session_whose_connection_cannot_settle_settles_over_a_new_one(
    committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlements, "RECONNECT_SECONDS", 0.1)
    with a_session(committed_database, 1) as (session, [message]):
        spoil(session)
        session.retire()

        session.accept(message)

        wait_until(lambda: not Message.objects.using(committed_database).exists(), seconds=20)
        wait_until(lambda: not WorkerSession.objects.using(committed_database).exists())


def spoil(session: Session) -> None:
    """Let the heartbeat's connection renew the session, and settle nothing."""
    kept = session.heartbeat
    assert isinstance(kept, HeartbeatThread)

    class Spoilt(type(kept.store.claims)):  # type: ignore[misc]
        def settle_and_claim(self, *_: Any) -> Any:
            raise StoreUnavailable("this connection settles nothing")

    kept.store.claims.__class__ = Spoilt


def test_finished_messages_that_can_never_be_settled_go_back_and_running_ones_stay(
    committed_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alias = committed_database
    monkeypatch.setattr(settlements, "RECONNECT_SECONDS", 0.1)
    monkeypatch.setattr(settlements, "GIVE_UP_SECONDS", 0.2)
    with a_session(alias, "runs", "finished") as (session, [_, finished]), mislaid(alias, "django_mq_history"):
        session.accept(finished)

        wait_until(lambda: states(alias) == [(True, False), (False, True)], lambda: caplog.text[-500:], seconds=20)
        wait_until(lambda: session.held == 1)

    assert not History.objects.using(alias).exists()


@on_sqlite
def test_a_session_that_can_settle_nothing_and_give_nothing_back_is_not_renewed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    alias = hold_queues(settings, "default")
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 2}
    with a_session(alias, "runs", "finished") as (session, [runs, finished]):
        kept = session.heartbeat
        assert isinstance(kept, HeartbeatThread)
        with mislaid(alias, "django_mq_message"):
            session.accept(finished)
            wait_until(lambda: session.settlements.failing_seconds() > 0)
            monkeypatch.setattr(settlements, "GIVE_UP_SECONDS", 0.0)
            assert not session.is_stuck  # one runs
            session.accept(runs)
            assert session.is_stuck
            deadline = WorkerSession.objects.using(alias).get().deadline

            kept.renew()

            assert WorkerSession.objects.using(alias).get().deadline == deadline


@on_postgresql
def test_a_session_is_renewed_while_its_settlements_wait_for_a_lock(settings: Settings) -> None:
    alias = hold_queues(settings, "postgresql")
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 2, "MAINTENANCE_SECONDS": 3600}
    with a_session(alias, "runs", "finished") as (session, [_, finished]), locked("django_mq_history"):
        session.accept(finished)
        wait_until(
            lambda: session.settlements.failing_seconds() > 0, seconds=conf.load().STATEMENT_TIMEOUT_SECONDS / 2
        )
        renewed = WorkerSession.objects.using(alias).get().heartbeat_at

        wait_until(lambda: WorkerSession.objects.using(alias).get().heartbeat_at > renewed)
