"""Tables that grow without need are told of, with what mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import connections

from django_mq.stores.postgresql.settings import (
    LATE_SECONDS,
    LONG_SECONDS,
    MOST_DEAD_ROWS,
    OpenTransaction,
    untended,
)
from django_mq.stores.records import MUCH_LOOSE, Space
from django_mq.stores.registry import private_store, shared_store
from django_mq.stores.sqlite.store import FILE, JOURNAL, MOST_JOURNAL, journal_size
from django_mq.stores.sqlite.store import untended as untended_file
from tests.conftest import ALIASES

if TYPE_CHECKING:
    from pathlib import Path

DEAD = Space("django_mq_message", 10**9, rows=MOST_DEAD_ROWS, dead_rows=MOST_DEAD_ROWS + 1, tended_seconds=60.0)
OLD = OpenTransaction(4711, LONG_SECONDS + 1, "psql")

on_postgresql = pytest.mark.skipif("postgresql" not in ALIASES.values(), reason="needs PostgreSQL")


def test_dead_rows_that_are_cleaned_up_in_time_are_no_problem() -> None:
    few = replace(DEAD, dead_rows=MOST_DEAD_ROWS)
    a_small_share = replace(DEAD, rows=100 * MOST_DEAD_ROWS)

    assert [list(untended([each], OLD)) for each in (few, a_small_share)] == [[], []]
    assert list(untended([DEAD], None)) == []
    assert list(untended([replace(DEAD, tended_seconds=None)], None)) == []


def test_an_old_transaction_is_named() -> None:
    [(problem, mend)] = untended([DEAD], OLD)

    assert "process 4711 (psql)" in problem
    assert "pg_terminate_backend(4711)" in mend
    assert list(untended([DEAD], OLD._replace(seconds=LONG_SECONDS - 1))) == []


@pytest.mark.parametrize("settings", ["autovacuum_enabled=false", "fillfactor=50, autovacuum_enabled=off"])
def test_a_table_that_nobody_vacuums_is_given_its_vacuum_back(settings: str) -> None:
    [(_, mend)] = untended([replace(DEAD, settings=settings)], OLD)

    assert mend == "ALTER TABLE django_mq_message RESET (autovacuum_enabled);"


def test_a_late_vacuum_is_given_its_statement() -> None:
    late = replace(DEAD, tended_seconds=LATE_SECONDS + 1)

    [(_, bare)] = untended([late], None)
    [(_, set_before)] = untended([replace(late, settings="autovacuum_vacuum_scale_factor=0.01")], None)

    assert bare.startswith("ALTER TABLE django_mq_message SET (autovacuum_vacuum_scale_factor = 0.01")
    assert set_before.startswith("VACUUM (ANALYZE) django_mq_message;")


def test_indexes_and_files_that_are_mostly_empty_are_told_of() -> None:
    loose = Space("django_mq_message", 3 * MUCH_LOOSE, 2 * MUCH_LOOSE)

    assert [mend for _, mend in untended([loose], None)] == ["REINDEX TABLE CONCURRENTLY django_mq_message;"]
    assert [mend[:6] for _, mend in untended_file([replace(loose, table=FILE)])] == ["VACUUM"]
    assert list(untended([replace(loose, size=5 * MUCH_LOOSE)], None)) == []


def test_a_journal_that_is_never_emptied_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "db-wal").write_bytes(b"x" * 10)

    assert journal_size({"NAME": tmp_path / "db"}) == 10
    assert journal_size({"NAME": ":memory:"}) == 0
    assert list(untended_file([Space(JOURNAL, MOST_JOURNAL)])) == []
    [(_, mend)] = untended_file([Space(JOURNAL, MOST_JOURNAL + 1)])
    assert "wal_checkpoint" in mend


@on_postgresql
@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_new_indexes_hold_little_for_nothing() -> None:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_mq_attempt"
            " (message_id, queue_name, number, failed_at, worker, error, detail, traceback)"
            " SELECT gen_random_uuid(), 'q', 1, now(), '', 'e', '', '' FROM generate_series(1, 20000)"
        )
        cursor.execute("REINDEX TABLE django_mq_attempt")
        cursor.execute("ANALYZE django_mq_attempt")
        [fresh] = [one for one in shared_store("postgresql").server.spaces() if one.table == "django_mq_attempt"]
        cursor.execute("DELETE FROM django_mq_attempt WHERE mod(id, 10) > 0")
        cursor.execute("VACUUM ANALYZE django_mq_attempt")
        [worn] = [one for one in shared_store("postgresql").server.spaces() if one.table == "django_mq_attempt"]
        cursor.execute("SELECT pg_indexes_size('django_mq_attempt')")
        [size] = cursor.fetchone()

    assert fresh.loose < 0.2 * size
    assert worn.loose > 0.6 * size
    assert worn.tended_seconds is not None


@on_postgresql
@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_the_transaction_that_holds_cleaning_up_back_is_found() -> None:
    store = private_store("postgresql")
    name = f"reader-{uuid4().hex[:8]}"
    try:
        with store.database.transaction():
            store.database.connection.cursor().execute("SET application_name = %s", [name])  # type: ignore[attr-defined]
            store.database.connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # type: ignore[attr-defined]
            store.database.connection.cursor().execute("SELECT 1 FROM django_mq_queue")  # type: ignore[attr-defined]
            rows = shared_store("postgresql").database.rows("longest_transaction")  # type: ignore[attr-defined]
    finally:
        store.close()

    assert len(rows) == 1
    assert rows[0][1] >= 0
