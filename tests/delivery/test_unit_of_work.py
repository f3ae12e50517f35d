"""Each attempt is a unit of work: its connections are alive at the begin, and nothing of it is left at the end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connections, transaction
from django.db.backends.signals import connection_created

from django_mq.api import publish
from django_mq.delivery.consumer import unit_of_work as module
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.unit_of_work import unit_of_work
from django_mq.delivery.queues import declare
from django_mq.stores.connections import has_connected
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    Do = Callable[..., Any]

pytestmark = pytest.mark.on("sqlite", once="postgresql")

#: MariaDB's number for a session that does not exist, ER_NO_SUCH_THREAD.
UNKNOWN_SESSION = 1094
#: By vendor: what a handler may leave on its connection, and a question for it.
LEFT = {
    "postgresql": [
        ("SET app.tenant = 'A'", "SELECT coalesce(current_setting('app.tenant', true), '')"),
        ("SET statement_timeout = '1234'", "SELECT current_setting('statement_timeout')"),
        ("SET search_path = pg_catalog", "SELECT current_setting('search_path')"),
        ("SET TIME ZONE 'Asia/Tokyo'", "SELECT current_setting('TimeZone')"),
        ("SET ROLE pg_monitor", "SELECT current_user"),
        ("SET SESSION AUTHORIZATION pg_monitor", "SELECT session_user"),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "SELECT current_setting('default_transaction_read_only')",
        ),
        ("CREATE TEMPORARY TABLE draft (id int)", "SELECT to_regclass('draft')"),
        ("LISTEN orders", "SELECT count(*) FROM pg_listening_channels()"),
        (
            "SELECT pg_advisory_lock(42)",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        ),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "SELECT count(*) FROM pg_cursors WHERE name = 'c'"),
    ],
    "mysql": [
        ("SET @tenant = 'A'", "SELECT @tenant"),
        ("SET SESSION sql_mode = ''", "SELECT @@sql_mode"),
        ("DO get_lock('draft', 0)", "SELECT coalesce(is_used_lock('draft'), 0) = connection_id()"),
        ("CREATE TEMPORARY TABLE draft (id int)", "SHOW CREATE TABLE draft"),
    ],
    "sqlite": [
        ("CREATE TEMPORARY TABLE draft (id int)", "SELECT count(*) FROM sqlite_temp_master"),
        ("PRAGMA cache_size = 77", "PRAGMA cache_size"),
        ("ATTACH ':memory:' AS other", "SELECT count(*) FROM pragma_database_list WHERE name = 'other'"),
    ],
}


@pytest.fixture
def do() -> Iterator[Do]:
    """Run functions in one thread, as a worker does, and return what they return."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda function, *args: thread.submit(function, *args).result()
        thread.submit(connections.close_all).result()


@pytest.fixture
def keep(committed_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database whose connections Django keeps for ever."""
    monkeypatch.setitem(connections.settings[committed_database], "CONN_MAX_AGE", None)
    return committed_database


def ask(alias: str, *statements: str) -> Any:
    """Run statements as one attempt does; return the first value of the last one, or its error."""
    with unit_of_work(), connections[alias].cursor() as cursor:
        try:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None
        except Exception as error:  # noqa: BLE001 - a table that is not there is an answer
            return type(error)


def test_without_conn_max_age_a_connection_lives_for_one_attempt(committed_database: str, do: Do) -> None:
    do(ask, committed_database, "SELECT 1")

    assert do(lambda: connections[committed_database].connection) is None
    assert not do(has_connected)


@pytest.mark.parametrize("max_age", [0, 60, None])
def test_what_one_attempt_leaves_on_its_connection_is_not_there_for_the_next(
    committed_database: str, do: Do, max_age: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings[committed_database], "CONN_MAX_AGE", max_age)
    answers = {}
    for statement, question in LEFT[connections[committed_database].vendor]:
        asked = [(question,), (statement, question), (question,)]
        answers[statement] = [do(ask, committed_database, *statements) for statements in asked]

    assert {statement for statement, (before, within, _) in answers.items() if within == before} == set()
    assert {statement for statement, (before, _, after) in answers.items() if after != before} == set()


def test_only_postgresql_keeps_its_connection(keep: str, do: Do) -> None:
    do(ask, keep, "SELECT 1")
    first = do(lambda: connections[keep].ensure_connection() or connections[keep].connection)
    do(ask, keep, "SELECT 1")

    assert (do(lambda: connections[keep].connection) is first) == (connections[keep].vendor == "postgresql")


def test_the_role_that_django_assumes_is_assumed_again(keep: str, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    if connections[keep].vendor != "postgresql":
        pytest.skip("Django assumes a role on PostgreSQL")
    monkeypatch.setitem(
        connections.settings, keep, {**connections.settings[keep], "OPTIONS": {"assume_role": "pg_monitor"}}
    )
    do(ask, keep, "RESET ROLE")

    assert do(ask, keep, "SELECT current_user") == "pg_monitor"


def test_what_the_driver_was_told_is_forgotten(keep: str, do: Do) -> None:
    if connections[keep].vendor != "postgresql":
        pytest.skip("other connections are closed")

    def attempt() -> Any:
        with unit_of_work():
            connections[keep].ensure_connection()
            driver: Any = connections[keep].connection
            before, driver.read_only = driver.read_only, True
            return before

    assert [do(attempt), do(attempt)] == [None, None]


def test_receivers_of_the_project_set_again_what_they_set_on_a_new_connection(keep: str, do: Do) -> None:
    if connections[keep].vendor != "postgresql":
        pytest.skip("other connections are closed")

    def set_up(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET app.site = 'shop'")

    connection_created.connect(set_up)
    try:
        do(ask, keep, "SET app.site = 'other'")

        assert do(ask, keep, "SELECT current_setting('app.site')") == "shop"
    finally:
        connection_created.disconnect(set_up)


def end_connections(alias: str) -> None:
    """End all other connections, as a server does that restarts, or has waited too long."""
    with connections[alias].cursor() as cursor:
        if connections[alias].vendor == "postgresql":
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        elif connections[alias].vendor == "mysql":
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
            )
            for (number,) in cursor.fetchall():
                end_session(cursor, number)


def end_session(cursor: Any, number: int) -> None:
    """End one session of MariaDB, if it has not ended since it was listed."""
    try:
        cursor.execute(f"KILL {number}")
    except OperationalError as error:
        if error.args[0] != UNKNOWN_SESSION:
            raise


@pytest.mark.parametrize("max_age", [0, 60, None])
def test_a_connection_that_was_ended_between_two_attempts_is_replaced(
    committed_database: str, do: Do, max_age: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings[committed_database], "CONN_MAX_AGE", max_age)
    do(ask, committed_database, "SELECT 1")
    end_connections(committed_database)

    assert do(ask, committed_database, "SELECT 7") == 7


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    keep: str, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.0)
    do(ask, keep, "SELECT 1")
    old = do(lambda: connections[keep].connection)

    def is_another() -> bool:
        with unit_of_work():
            connections[keep].ensure_connection()
            return connections[keep].connection is not old

    assert do(is_another)


def test_a_transaction_that_is_left_open_is_rolled_back(committed_database: str, do: Do) -> None:
    def leave_open() -> None:
        with unit_of_work():
            transaction.atomic(using=committed_database).__enter__()

    do(leave_open)

    assert not do(lambda: connections[committed_database].in_atomic_block)


def test_the_connection_of_a_callers_transaction_is_left_alone(committed_database: str, do: Do) -> None:
    def use(_: Any) -> None:
        with connections[committed_database].cursor() as cursor:
            cursor.execute("SELECT 1")

    def attempt() -> bool:
        with transaction.atomic(using=committed_database):
            wrapper = connections[committed_database]
            driver = wrapper.connection
            with unit_of_work():
                Delivery(a_claimed(), a_handler(use), a_policy()).run()
            use(None)
            return connections[committed_database] is wrapper and wrapper.connection is driver

    assert do(attempt)


def test_a_backend_of_another_package_is_made_anew(committed_database: str, do: Do) -> None:
    known = type(connections[committed_database])
    foreign = type("DatabaseWrapper", (known,), {"__module__": "tenants.backend"})

    def is_made_anew() -> bool:
        with unit_of_work():
            wrapper = connections[committed_database]
            wrapper.ensure_connection()
            wrapper.__class__ = foreign
        return connections[committed_database] is not wrapper

    assert do(is_made_anew)


def test_a_connection_that_cannot_be_put_in_order_does_not_end_the_worker(
    keep: str, do: Do, caplog: pytest.LogCaptureFixture
) -> None:
    def break_it() -> None:
        with unit_of_work():
            wrapper: Any = connections[keep]
            wrapper.ensure_connection()
            wrapper.close_if_unusable_or_obsolete = lambda: 1 / 0

    do(break_it)

    assert do(ask, keep, "SELECT 7") == 7
    assert "could not be put in order" in caplog.text


def test_the_log_of_statements_does_not_grow_under_debug(
    committed_database: str, do: Do, settings: Settings
) -> None:
    settings.DEBUG = True
    for _ in range(3):
        do(ask, committed_database, "SELECT 1")

    assert not do(lambda: connections[committed_database].queries_log)
    with closing(private_store(committed_database)) as store:
        assert store.queues.find("orders") is None
        assert not store.database.connection.queries_log  # type: ignore[attr-defined]  # of a store over SQL


# Django's pool.


@pytest.fixture
def pooled(committed_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a pool of one connection for the threads of a worker."""
    pytest.importorskip("psycopg_pool")
    known = connections.settings[committed_database]
    if "postgresql" not in known["ENGINE"]:
        pytest.skip("Django has a pool for PostgreSQL")
    options = {"pool": {"min_size": 1, "max_size": 1, "timeout": PATIENCE_SECONDS}}
    monkeypatch.setitem(connections.settings, committed_database, {**known, "OPTIONS": options})
    yield committed_database
    connections.create_connection(committed_database).close_pool()  # type: ignore[attr-defined]


def test_threads_share_a_pool_that_is_smaller(pooled: str) -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        assert [thread.submit(ask, pooled, "SELECT 7").result() for thread in (one, other, one)] == [7, 7, 7]


def test_a_connection_goes_back_to_the_pool_as_it_came(pooled: str, do: Do) -> None:
    question = "SELECT concat(current_user, current_setting('TimeZone'), current_setting('app.tenant', true))"
    before = do(ask, pooled, question)
    do(ask, pooled, "SET ROLE pg_monitor", "SET TIME ZONE 'Asia/Tokyo'", "SET app.tenant = 'A'")

    assert do(ask, pooled, question) == before


def test_a_pool_whose_connections_were_ended_serves_the_next_attempt(pooled: str, do: Do) -> None:
    do(ask, pooled, "SELECT 1")
    end_connections(pooled)

    assert do(ask, pooled, "SELECT 7") == 7


# Workers.


def test_the_handlers_of_a_worker_see_nothing_of_each_other(keep: str) -> None:
    declare(shared_store(keep), "orders")
    statement, question = LEFT[connections[keep].vendor][0]
    seen: list[Any] = []

    def handle(_: Any) -> None:
        with connections[keep].cursor() as cursor:
            cursor.execute(question)
            seen.append(cursor.fetchone())
            cursor.execute(statement)

    for number in range(3):
        publish("orders", number)
    with running(a_handler(handle), using=keep, threads=1):
        wait_until(lambda: len(seen) == 3)

    assert len(set(seen)) == 1
