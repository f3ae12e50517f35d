"""Browsing by a selector: what the selector wants, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from django_mq.api import browse, publish
from django_mq.delivery.queues import declare
from django_mq.engine.states import State
from django_mq.errors import MalformedSelector, UnknownQueue
from django_mq.stores.registry import shared_store

MIDNIGHT = datetime(2100, 1, 1, tzinfo=UTC)
STATES = (State.READY, State.SCHEDULED)


@pytest.fixture
def orders(database: str) -> str:
    """A queue of three messages."""
    declare(shared_store(database), "orders", {"due_order": "keep_place"})
    letters: list[dict[str, Any]] = [
        {"headers": {"colour": "red", "weight": 5}, "type": "order.paid", "priority": 9},
        {"headers": {"colour": "blue", "weight": 2.5}, "correlation_id": "c", "expires_at": MIDNIGHT},
        {"deliver_at": MIDNIGHT},
    ]
    for number, given in enumerate(letters, start=1):
        publish("orders", number, using=database, **given)
    return database


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("colour = 'red'", [b"1"]),
        ("weight * 2 BETWEEN 5 AND 10", [b"1", b"2"]),
        ("NOT colour = 'red'", [b"2"]),
        ("colour IS NULL", [b"3"]),
        ("JMSType LIKE 'order.%' AND JMSPriority > 7", [b"1"]),
        ("JMSCorrelationID = 'c' OR AMQSize > 1", [b"2"]),
        (f"JMSExpiration = {round(MIDNIGHT.timestamp() * 1000)}", [b"2"]),
        ("JMSDeliveryTime > JMSTimestamp", [b"3"]),
        ("JMSDestination = 'orders'", [b"1", b"2", b"3"]),
        ("", [b"1", b"2", b"3"]),
    ],
)
def test_a_selector_says_which_messages_are_shown(orders: str, selector: str, wanted: list[bytes]) -> None:
    assert [each.body for each in browse("orders", states=STATES, selector=selector, using=orders)] == wanted


def test_the_limit_counts_what_is_shown(orders: str) -> None:
    [shown] = browse("orders", selector="colour = 'blue'", limit=1, using=orders)

    assert shown.body == b"2"


def test_a_selector_that_cannot_be_read_is_refused(orders: str) -> None:
    with pytest.raises(MalformedSelector) as caught:
        next(browse("orders", selector="colour = = 'red'", using=orders))

    assert caught.value.position == 9


@pytest.mark.parametrize("limit", [0, 1])
def test_a_queue_that_is_not_there_cannot_be_browsed(database: str, limit: int) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        next(browse("nowhere", limit=limit, using=database))
