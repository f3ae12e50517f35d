"""The database goes away, is full, or comes back: nothing is lost, and everybody says why."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_mq import outages
from django_mq.api import publish, publish_many
from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import StoreUnavailable
from django_mq.models import History, Message, WorkerSession
from django_mq.outages import PAUSES
from django_mq.stores.records import ClaimRequest, Failure, SessionInfo, Settlement
from django_mq.stores.registry import private_store
from tests.delivery.builders import a_handler, running
from tests.stores.builders import open_session
from tests.support.site import a_site_on
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django import DjangoDbBlocker, Settings

    from tests.services.postgresql import PostgreSQL


@pytest.fixture
def on_postgresql(
    postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """A site with a server that may be stopped."""
    with a_site_on(postgresql_server.url, settings, django_db_blocker) as alias:
        yield alias


@pytest.fixture
def on_sqlite(tmp_path: Path, settings: Settings, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A site with a disk that may be full."""
    with a_site_on(f"sqlite:///{tmp_path}/site.sqlite3", settings, django_db_blocker) as alias:
        yield alias


def finished(alias: str) -> int:
    try:
        return History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count()
    except Exception:  # noqa: BLE001 - the restart has broken this thread's connection, too
        connections[alias].close()
        return 0


def test_a_worker_outlives_a_restart_of_the_database(on_postgresql: str, postgresql_server: PostgreSQL) -> None:
    seen: list[Any] = []
    gate, begun = threading.Event(), threading.Semaphore(0)

    def handle(message: Any) -> None:
        begun.release()
        gate.wait(PATIENCE_SECONDS)
        seen.append(message.body)

    publish_many([("orders", number) for number in range(50)])
    with running(a_handler(handle), using=on_postgresql, threads=4):
        for _ in range(4):
            assert begun.acquire(timeout=PATIENCE_SECONDS)

        postgresql_server.restart()
        gate.set()

        wait_until(lambda: finished(on_postgresql) == 50, lambda: f"50, there are {finished(on_postgresql)}")

    assert set(seen) == set(range(50))
    assert not Message.objects.using(on_postgresql).exists()


def test_a_worker_waits_for_a_database_that_is_away(on_postgresql: str, postgresql_server: PostgreSQL) -> None:
    seen: list[Any] = []
    with running(a_handler(lambda message: seen.append(message.body)), using=on_postgresql) as worker:
        publish("orders", "before")
        wait_until(lambda: finished(on_postgresql) == 1)
        postgresql_server.kill()
        with pytest.raises(StoreUnavailable, match=r"cannot be used now|is gone"):
            publish("orders", "meanwhile")
        worker.wake.set()

        postgresql_server.start()
        publish("orders", "after")
        wait_until(lambda: finished(on_postgresql) == 2)

    assert seen == ["before", "after"]


def test_a_publish_outside_a_transaction_finds_a_new_connection(
    on_postgresql: str, postgresql_server: PostgreSQL
) -> None:
    publish("orders", "before")

    postgresql_server.restart()

    publish("orders", "after")
    publish_many([("orders", 1), ("orders", 2)])
    assert Message.objects.using(on_postgresql).count() == 4


def test_a_worker_stops_though_the_database_is_away(on_postgresql: str, postgresql_server: PostgreSQL) -> None:
    with running(a_handler(), using=on_postgresql) as worker:
        publish("orders", 1)
        wait_until(lambda: finished(on_postgresql) == 1)
        postgresql_server.kill()
        worker.wake.set()
    postgresql_server.start()
    connections[on_postgresql].close()


def fill_the_disk(alias: str, *, full: bool) -> None:
    """Let the file grow no further, or again, on every connection that Django opens from now on."""
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        pages = cursor.fetchone()[0] if full else 1 << 30
    connections[alias].close()
    limit = f"PRAGMA journal_mode=WAL; PRAGMA max_page_count = {pages};"
    connections[alias].settings_dict["OPTIONS"]["init_command"] = limit


def test_a_full_disk_refuses_a_publish_with_a_sentence_and_loses_nothing(on_sqlite: str) -> None:
    kept = publish("orders", "kept")
    fill_the_disk(on_sqlite, full=True)

    with pytest.raises(StoreUnavailable, match="database or disk is full"):
        publish("orders", "x" * 100_000)
    with pytest.raises(StoreUnavailable, match="database or disk is full"):
        publish_many([("orders", "x" * 50_000), ("orders", "x" * 50_000)])

    assert [row.message_id for row in Message.objects.using(on_sqlite)] == [kept]
    fill_the_disk(on_sqlite, full=False)
    publish("orders", "x" * 100_000)


def test_a_full_disk_keeps_claimed_messages_where_they_are(on_sqlite: str) -> None:
    publish("orders", 1)
    store = private_store(on_sqlite)
    session = store.sessions.open(
        SessionInfo(name="w", kind="native", host="h", pid=1, version="1"), deadline_seconds=60
    )
    (message,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    verdict = Settlement(
        message.id, message.claim, Verdict.RELEASE, counted=True, failure=Failure("E", "x" * 100_000)
    )
    with store.database.connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("PRAGMA page_count")
        cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0]}")

    with pytest.raises(StoreUnavailable, match="database or disk is full"):
        store.claims.settle_and_claim(session, [verdict], None)
    assert Message.objects.using(on_sqlite).get().state == Message.Status.CLAIMED

    store.close()  # a new connection has room again
    assert store.claims.settle_and_claim(session, [verdict], None).void == frozenset()
    assert Message.objects.using(on_sqlite).get().attempts == 1
    store.close()


def test_a_worker_waits_for_tables_that_are_gone_and_says_so_once_an_interval(
    on_sqlite: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "INTERVALS", Backoff())  # log each failure
    seen: list[Any] = []
    publish("orders", 1)
    with running(a_handler(lambda message: seen.append(message.body)), using=on_sqlite) as worker:
        wait_until(lambda: seen == [1] and finished(on_sqlite) == 1)
        with connections[on_sqlite].cursor() as cursor:
            cursor.execute("ALTER TABLE django_mq_message RENAME TO mislaid")
        wait_until(lambda: "run manage.py migrate" in caplog.text)
        began = time.monotonic()
        for _ in range(1000):
            worker.wake.set()  # hints that come meanwhile do not hurry it
        wait_until(lambda: refusals(caplog) >= 3)
        # Three pauses, each twice as long as the last: a machine that is busy makes them longer only.
        assert refusals(caplog) <= 3 + (time.monotonic() - began) / PAUSES.base_seconds
        with connections[on_sqlite].cursor() as cursor:
            cursor.execute("ALTER TABLE mislaid RENAME TO django_mq_message")
        publish("orders", 2)
        wait_until(lambda: seen == [1, 2])


def refusals(caplog: pytest.LogCaptureFixture) -> int:
    return sum(
        "refuses a statement" in record.getMessage() and record.funcName == "_recover" for record in caplog.records
    )


@contextmanager
def refusing(alias: str, when: str, *, table: str = "django_mq_attempt") -> Iterator[None]:
    """Have the database refuse some rows for good."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            f"CREATE TRIGGER refusing BEFORE INSERT ON {table} WHEN {when} BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    yield
    with connections[alias].cursor() as cursor:
        cursor.execute("DROP TRIGGER refusing")


def test_a_settlement_that_is_refused_for_its_details_is_written_without_them(on_sqlite: str) -> None:
    seen: list[Any] = []

    def handle(message: Any) -> None:
        seen.append(message.body)
        if message.body == "bad":
            raise KeyError("refuse me")

    with refusing(on_sqlite, "NEW.error = 'KeyError'"), running(a_handler(handle), using=on_sqlite):
        publish_many([("orders", "bad"), *(("orders", number) for number in range(20))])
        wait_until(lambda: finished(on_sqlite) == 20)
        wait_until(lambda: Message.objects.using(on_sqlite).filter(attempts=1).exists())

    (bad,) = Message.objects.using(on_sqlite)
    assert bad.state in {Message.Status.SCHEDULED, Message.Status.READY}


def test_a_settlement_that_is_refused_altogether_gives_its_message_back_and_keeps_nobody_waiting(
    on_sqlite: str,
) -> None:
    outcome = f"NEW.outcome = {History.Outcome.ACCEPTED.value} AND NEW.type = 'bad'"
    with refusing(on_sqlite, outcome, table="django_mq_history"), running(a_handler(), using=on_sqlite):
        publish("orders", "bad", type="bad")
        publish_many([("orders", number) for number in range(20)])
        wait_until(lambda: finished(on_sqlite) == 20)
        wait_until(lambda: Message.objects.using(on_sqlite).filter(attempts=1).exists())

    (bad,) = Message.objects.using(on_sqlite)
    assert (bad.type, bad.state) == ("bad", Message.Status.SCHEDULED)


def test_a_long_wait_for_a_foreign_write_lock_is_an_outage_in_which_no_session_is_reaped(on_sqlite: str) -> None:
    with (
        closing(private_store(on_sqlite)) as store,
        closing(sqlite3.connect(connections[on_sqlite].settings_dict["NAME"], check_same_thread=False)) as foreign,
    ):
        session = open_session(store, deadline_seconds=-1)
        store.sessions.outage_seconds = 0.0  # type: ignore[attr-defined]
        foreign.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.1, foreign.commit)
        release.start()

        with pytest.raises(StoreUnavailable, match="locked for"):
            store.sessions.reap()

        release.join()
        assert WorkerSession.objects.using(on_sqlite).get().pk == session
