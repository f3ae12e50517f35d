"""Browsing: which messages are shown, and as what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import browse, publish
from django_mq.delivery.queues import declare
from django_mq.engine.states import State
from django_mq.errors import CorruptMessage, MalformedSelector, UnknownQueue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings

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
        ("colour = 'red'", [1]),
        ("weight * 2 BETWEEN 5 AND 10", [1, 2]),
        ("NOT colour = 'red'", [2]),
        ("colour IS NULL", [3]),
        ("JMSType LIKE 'order.%' AND JMSPriority > 7", [1]),
        ("JMSCorrelationID = 'c' OR AMQSize > 1", [2]),
        (f"JMSExpiration = {round(MIDNIGHT.timestamp() * 1000)}", [2]),
        ("JMSDeliveryTime > JMSTimestamp", [3]),
        ("JMSDestination = 'orders'", [1, 2, 3]),
        ("", [1, 2, 3]),
    ],
)
def test_a_selector_says_which_messages_are_shown(orders: str, selector: str, wanted: list[int]) -> None:
    assert [each.body for each in browse("orders", states=STATES, selector=selector, using=orders)] == wanted


def test_the_limit_counts_what_is_shown(orders: str) -> None:
    [shown] = browse("orders", selector="colour = 'blue'", limit=1, using=orders)

    assert shown.body == 2


def test_a_selector_that_cannot_be_read_is_refused(orders: str) -> None:
    with pytest.raises(MalformedSelector) as caught:
        next(browse("orders", selector="colour = = 'red'", using=orders))

    assert caught.value.position == 9


@pytest.mark.parametrize("limit", [0, 1])
def test_a_queue_that_is_not_there_cannot_be_browsed(database: str, limit: int) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        next(browse("nowhere", limit=limit, using=database))


def test_a_declared_queue_that_was_never_used_shows_nothing(database: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {"QUEUES": {"declared": {"dead_letter_queue": "declared.dead"}}}

    assert list(browse("declared", using=database)) == []
    assert list(browse("declared.dead", using=database)) == []
    with pytest.raises(UnknownQueue):
        list(browse("undeclared", using=database))


def test_a_message_is_shown_as_a_handler_gets_it(database: str) -> None:
    declare(shared_store(database), "orders")
    body, headers = {"order": 7}, {"region": "eu"}
    id_ = publish("orders", body, headers=headers, type="order", priority=7, correlation_id="c", using=database)

    [shown] = browse("orders", using=database)

    assert (shown.id, shown.body, shown.headers) == (id_, body, headers)
    assert (shown.queue, shown.type, shown.priority, shown.correlation_id) == ("orders", "order", 7, "c")
    assert (shown.state, shown.attempts, shown.dead_reason) == (State.READY, 0, "")


def test_a_body_that_cannot_be_decoded_is_refused_when_it_is_read(database: str) -> None:
    declare(shared_store(database), "orders")
    publish("orders", b"{", content_type="application/json", using=database)

    [shown] = browse("orders", using=database)

    with pytest.raises(CorruptMessage):
        shown.body  # noqa: B018 - reading decodes
