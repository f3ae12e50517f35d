"""What SQLite does in a way of its own: receipts, claims that sort nothing, publishing past Django's cursor."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_mq.errors import StoreError, TablesMissing
from django_mq.models import Message
from django_mq.stores.registry import private_store, shared_store
from django_mq.stores.sqlite.database import as_driver_reads, parameters
from tests.stores.builders import a_message, declare

NOW = datetime(2031, 1, 1, 9, tzinfo=UTC)


def test_receipts_travel_by_claim_and_one_given_twice_travels_once() -> None:
    fitted = parameters({"ids": [1, 2, 3, 1], "claims": [7, 8, 7, 7]}, NOW)

    assert json.loads(fitted["held"]) == {"7": [1, 3], "8": [2]}


@pytest.mark.django_db(databases=["default"])
def test_a_claim_walks_the_ready_messages_in_order_and_sorts_nothing() -> None:
    store = private_store("default")
    params = store.database.fitted({"queue": "orders", "session": 1, "claim": 1, "credit": 10, "slots": 1})
    with store.database.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {store.database.text('claim')}", params)
        steps = " ".join(row[3] for row in cursor.fetchall())
    store.close()

    assert "django_mq_message_ready" in steps
    assert "B-TREE" not in steps


def test_the_driver_reads_names_where_django_has_its_own() -> None:
    assert as_driver_reads("SELECT %(a)s, strftime('%%s', %(b_2)s) % 3") == "SELECT :a, strftime('%s', :b_2) % 3"


@pytest.mark.django_db(databases=["default"])
class TestPublishingPastDjangosCursor:
    """Wrappers and logs of the connection see the statements, and errors are the usual ones."""

    @pytest.fixture(autouse=True)
    def queue(self) -> None:
        declare(shared_store("default"))

    def test_whoever_watches_the_connection_sees_every_publish(self) -> None:
        with CaptureQueriesContext(connection) as seen:
            shared_store("default").publications.append(a_message())

        assert len(seen) == 1
        assert Message.objects.count() == 1

    def test_whoever_wraps_the_connection_sees_every_publish(self) -> None:
        seen: list[str] = []

        def wrapper(execute: Any, sql: str, *rest: Any) -> Any:
            seen.append(sql)
            return execute(sql, *rest)

        with connection.execute_wrapper(wrapper):
            shared_store("default").publications.append(a_message())

        assert len(seen) == 1

    def test_nothing_is_published_in_a_transaction_that_is_broken(self) -> None:
        with transaction.atomic():
            transaction.set_rollback(True)
            with pytest.raises(StoreError, match="current transaction"):
                shared_store("default").publications.append(a_message())
        assert not Message.objects.exists()

    def test_what_the_database_refuses_is_said_as_ever(self) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_mq_message RENAME TO elsewhere")
            with pytest.raises(TablesMissing):
                shared_store("default").publications.append(a_message())
            transaction.set_rollback(True)
