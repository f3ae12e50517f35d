"""What SQLite's store does in a way of its own: how receipts travel, and that a claim sorts nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from django_mq.stores.registry import private_store
from django_mq.stores.sqlite.values import parameters

NOW = datetime(2031, 1, 1, 9, tzinfo=UTC)


def test_receipts_travel_by_claim_and_one_given_twice_travels_once() -> None:
    fitted = parameters({"ids": [1, 2, 3, 1], "claims": [7, 8, 7, 7]}, NOW)

    assert json.loads(fitted["held"]) == {"7": [1, 3], "8": [2]}


@pytest.mark.django_db(databases=["default"])
def test_a_claim_walks_the_ready_messages_in_order_and_sorts_nothing() -> None:
    store = private_store("default")
    params = store._params({"queue": "orders", "session": 1, "claim": 1, "credit": 10, "slots": 1})
    with store.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {store._text('claim')}", params)
        steps = " ".join(row[3] for row in cursor.fetchall())
    store.close()

    assert "django_mq_message_ready" in steps
    assert "B-TREE" not in steps
