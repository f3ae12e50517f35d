"""Every driver error becomes one of ours, and only what may pass by itself invites another try."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from django.db import connections

from django_mq.errors import LockHeld, StoreError, StoreUnavailable, TablesMissing
from django_mq.stores.connections import private_connection, translating
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store, store_for
from tests.stores.builders import claim, declare, open_session, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from django_mq.stores.sql.store import SQLStore

#: Aliases by the driver whose errors they wrap.
DRIVERS = {sqlite3: "default", psycopg: "postgresql"}

TRANSLATIONS: list[tuple[Exception, type[StoreError]]] = [
    (sqlite3.OperationalError("database is locked"), StoreUnavailable),
    (sqlite3.OperationalError("database table is locked: django_mq_message"), StoreUnavailable),
    (sqlite3.OperationalError("database or disk is full"), StoreUnavailable),
    (sqlite3.OperationalError("disk I/O error"), StoreUnavailable),
    (sqlite3.OperationalError("unable to open database file"), StoreUnavailable),
    (sqlite3.OperationalError("attempt to write a readonly database"), StoreUnavailable),
    (sqlite3.OperationalError("no such table: django_mq_message"), TablesMissing),
    (sqlite3.OperationalError("no such column: m.suspect"), TablesMissing),
    (sqlite3.OperationalError("table django_mq_message has no column named suspect"), TablesMissing),
    (sqlite3.OperationalError('near "RETURNING": syntax error'), StoreError),
    (sqlite3.IntegrityError("CHECK constraint failed: headers"), StoreError),
    (sqlite3.DatabaseError("database disk image is malformed"), StoreError),
    (psycopg.OperationalError("server closed the connection unexpectedly"), StoreUnavailable),
    (psycopg.OperationalError('FATAL: database "shop" does not exist'), StoreUnavailable),
    (psycopg.InterfaceError("connection already closed"), StoreUnavailable),
    (psycopg.errors.IdleInTransactionSessionTimeout("terminating connection"), StoreUnavailable),
    (psycopg.errors.AdminShutdown("terminating connection"), StoreUnavailable),
    (psycopg.errors.DeadlockDetected("deadlock detected"), StoreUnavailable),
    (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), LockHeld),
    (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), StoreUnavailable),
    (psycopg.errors.DiskFull("could not extend file"), StoreUnavailable),
    (psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"), StoreUnavailable),
    (psycopg.errors.UndefinedTable('relation "django_mq_message" does not exist'), TablesMissing),
    (psycopg.errors.UndefinedColumn('column "suspect" does not exist'), TablesMissing),
    (psycopg.errors.InsufficientPrivilege("permission denied for table django_mq_message"), StoreError),
    (psycopg.errors.InvalidTextRepresentation("invalid input syntax for type json"), StoreError),
    (psycopg.errors.UniqueViolation("duplicate key"), StoreError),
]


@pytest.mark.parametrize(
    ("error", "expected"), TRANSLATIONS, ids=[f"{type(error).__name__} {error}" for error, _ in TRANSLATIONS]
)
def test_each_driver_error_has_its_meaning(error: Exception, expected: type[StoreError]) -> None:
    alias = next(alias for driver, alias in DRIVERS.items() if isinstance(error, driver.Error))

    with pytest.raises(StoreError) as caught, translating(connections[alias]):
        raise error

    assert type(caught.value) is expected
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__cause__ is error


ON_MARIADB: list[tuple[str, int, type[StoreError]]] = [
    ("OperationalError", 2006, StoreUnavailable),  # server has gone away
    ("OperationalError", 2013, StoreUnavailable),  # lost connection during query
    ("OperationalError", 1040, StoreUnavailable),  # too many connections
    ("OperationalError", 1205, LockHeld),  # lock wait timeout
    ("OperationalError", 1213, StoreUnavailable),  # dead-lock
    ("OperationalError", 1290, StoreUnavailable),  # --read-only
    ("OperationalError", 1969, StoreUnavailable),  # max_statement_time
    ("OperationalError", 1114, StoreUnavailable),  # the table is full
    ("ProgrammingError", 1146, TablesMissing),
    ("OperationalError", 1054, TablesMissing),
    ("ProgrammingError", 1064, StoreError),  # syntax
    ("OperationalError", 1142, StoreError),  # permission
    ("OperationalError", 4025, StoreError),  # CHECK constraint, as of JSON
    ("IntegrityError", 1062, StoreError),
    ("DataError", 1406, StoreError),  # too long
]


@pytest.mark.django_db(databases=["mariadb"])
@pytest.mark.parametrize(("kind", "number", "expected"), ON_MARIADB)
def test_each_number_of_mariadb_has_its_meaning(kind: str, number: int, expected: type[StoreError]) -> None:
    driver: Any = connections["mariadb"].Database

    with pytest.raises(StoreError) as caught, translating(connections["mariadb"]):
        raise getattr(driver, kind)(number, "what the server says")

    assert type(caught.value) is expected


def test_an_error_of_ours_passes_untouched() -> None:
    with pytest.raises(KeyError), translating(connections["default"]):
        raise KeyError("ours")


# The real thing, on SQLite


@pytest.fixture
def file(tmp_path: Path, transactional_db: None) -> Path:
    """A copy of the migrated test database, to spoil."""
    target = tmp_path / "spoilt.sqlite3"
    with connections["default"].cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(target)])
    return target


@contextmanager
def store_on(path: Path, **options: Any) -> Iterator[SQLStore]:
    connection = private_connection("default")
    settings = connection.settings_dict
    connection.settings_dict = {**settings, "NAME": str(path), "OPTIONS": {"timeout": 0.05, **options}}
    store = store_for(connection, private=True)
    try:
        yield store
    finally:
        store.close()


def lock(path: Path) -> Callable[[], None]:
    """Hold the write lock until called."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    return holder.close


def test_a_locked_database_is_unavailable_and_later_available(file: Path) -> None:
    with store_on(file) as store:
        declare(store)
        unlock = lock(file)

        with pytest.raises(StoreUnavailable, match="locked"):
            publish(store)
        unlock()

        assert publish(store) > 0


def test_a_locked_database_can_still_be_looked_at_by_an_idle_worker(file: Path) -> None:
    with store_on(file, init_command="PRAGMA journal_mode=WAL") as store:
        declare(store)
        session = open_session(store)
        unlock = lock(file)
        try:
            assert claim(store, session) == []
            assert not store.maintenance.due_duties()["reap"]
            assert store.volatile.take(["replies"]) == []
        finally:
            unlock()


def test_a_full_disk_is_unavailable(file: Path) -> None:
    with store_on(file) as store:
        declare(store)
        with store.database.connection.cursor() as cursor:
            cursor.execute("PRAGMA max_page_count = 1")

        with pytest.raises(StoreUnavailable, match="full"):
            publish(store, body=b"x" * 1_000_000)


def test_a_read_only_file_is_unavailable(file: Path) -> None:
    with store_on(file) as store:
        with store.database.connection.cursor() as cursor:
            cursor.execute("PRAGMA query_only = 1")

        with pytest.raises(StoreUnavailable, match="readonly"):
            declare(store)


def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path: Path, db: None) -> None:
    with store_on(tmp_path / "missing" / "file.sqlite3") as store, pytest.raises(StoreUnavailable, match="open"):
        store.queues.counts()


def test_a_database_without_our_tables_says_to_migrate(tmp_path: Path, db: None) -> None:
    with store_on(tmp_path / "empty.sqlite3") as store, pytest.raises(TablesMissing, match="migrate"):
        store.queues.counts()


def test_a_failed_transaction_leaves_the_store_usable(file: Path) -> None:
    with store_on(file) as store:
        declare(store)
        unlock = lock(file)
        with pytest.raises(StoreUnavailable):
            store.operations.cancel([1])
        unlock()

        assert store.operations.cancel([1]) == []


# The real thing, on PostgreSQL


@pytest.mark.django_db(databases=["postgresql"])
def test_tables_that_are_missing_on_postgresql_say_to_migrate() -> None:
    store = shared_store("postgresql")
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("ALTER TABLE django_mq_message RENAME TO gone")

    with pytest.raises(TablesMissing, match="migrate"):
        store.queues.counts()


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_connection_that_was_cut_is_unavailable_and_opens_anew() -> None:
    store, other = private_store("postgresql"), shared_store("postgresql")
    declare(store)
    with other.database.connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [store.database.connection.connection.info.backend_pid])

    with pytest.raises(StoreUnavailable):
        store.queues.counts()
    store.close()

    assert list(store.queues.counts()) == ["orders"]
    store.close()


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
@pytest.mark.parametrize("options", [{}, {"kind": "last_value", "last_value_key": "sku"}])
def test_a_connection_that_was_cut_in_an_exchange_is_unavailable_and_opens_anew(options: dict[str, Any]) -> None:
    store, other = private_store("postgresql"), shared_store("postgresql")
    declare(store, **options)
    session, request = open_session(store), ClaimRequest(queues=("orders",), credit=1)
    store.claims.settle_and_claim(session, [], request)  # from now on, it knows the rules of the queue
    with other.database.connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [store.database.connection.connection.info.backend_pid])

    with pytest.raises(StoreUnavailable):
        store.claims.settle_and_claim(session, [], request)

    assert store.claims.settle_and_claim(session, [], request).claimed == []
    store.close()


@pytest.mark.django_db(databases=["postgresql"])
def test_an_error_of_the_driver_without_a_number_is_a_lost_connection() -> None:
    """The driver says so when the connection ends in the middle of a pipeline."""
    with pytest.raises(StoreUnavailable), translating(connections["postgresql"]):
        raise psycopg.DatabaseError("server closed the connection unexpectedly")


# The real thing, on MariaDB


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
@pytest.mark.parametrize("exchanging", [False, True], ids=["a look", "a round trip"])
def test_a_connection_to_mariadb_that_was_cut_is_unavailable_and_opens_anew(exchanging: bool) -> None:
    store, other = private_store("mariadb"), shared_store("mariadb")
    declare(store)
    session, request = open_session(store), ClaimRequest(queues=("orders",), credit=1)

    def use() -> list[Any]:
        return (
            store.claims.settle_and_claim(session, [], request).claimed
            if exchanging
            else list(store.queues.counts())
        )

    with other.database.connection.cursor() as cursor:
        cursor.execute("KILL CONNECTION %s", [store.database.connection.connection.thread_id()])
    with pytest.raises(StoreUnavailable):
        use()
    store.close()

    assert use() == ([] if exchanging else ["orders"])
    store.close()
