"""Sorted queues: messages are delivered by the value of a header, least first."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery import publisher
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.errors import InvalidMessage
from tests.stores.builders import a_message, claim, declare, ids, pass_time, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage

BY_NUMBER: dict[str, Any] = {"kind": "fifo", "sort_key": "weight"}
BY_TIME: dict[str, Any] = {"kind": "fifo", "sort_key": "deadline", "sort_type": "time"}


def weighing(weight: Any, queue: str = "orders", **given: Any) -> NewMessage:
    headers = {} if weight is None else {"weight": weight}
    return a_message(queue, headers=json.dumps(headers), body=str(weight).encode(), **given)


def publish(store: Store, *weights: Any, queue: str = "orders", **given: Any) -> None:
    publisher.append(store, [weighing(weight, queue, **given) for weight in weights])


def waiting(store: Store, queue: str = "orders") -> list[str]:
    return [message.body.decode() for message in store.browser.browse(queue, states=[State.READY.value])]


def test_the_least_number_is_first_and_equal_ones_stand_by_arrival(store: Store, session: int) -> None:
    declare(store, **BY_NUMBER)
    publish(store, 10, 9, 2.5, -1, 9.0, 1e300)

    assert waiting(store) == ["-1", "2.5", "9", "9.0", "10", "1e+300"]
    assert [message.body for message in claim(store, session)] == [b"-1", b"2.5", b"9", b"9.0", b"10", b"1e+300"]


def test_the_earliest_deadline_is_first(store: Store, session: int) -> None:
    declare(store, **BY_TIME)
    now = datetime(2031, 5, 1, 12, tzinfo=UTC)
    for hours in (3, 1, 2):
        headers = json.dumps({"deadline": (now + timedelta(hours=hours)).isoformat()})
        publisher.append(store, [a_message(headers=headers, body=str(hours).encode())])

    assert [message.body for message in claim(store, session)] == [b"1", b"2", b"3"]


def test_without_a_number_nothing_is_written(store: Store) -> None:
    declare(store, **BY_NUMBER)
    declare(store, "others")

    for weight in (None, "7", True, [1]):
        with pytest.raises(InvalidMessage, match="'orders' is sorted by the header 'weight'"):
            publisher.append(store, [weighing(1), weighing(1, "others"), weighing(weight)])

        assert (waiting(store), waiting(store, "others")) == ([], []), weight


def test_a_returned_message_retakes_its_place(store: Store, session: int) -> None:
    declare(store, **BY_NUMBER)
    publish(store, 2, 3)
    [second, third] = claim(store, session)
    publish(store, 1, 2.5)

    settle(store, session, third, Verdict.RELEASE)
    settle(store, session, second, Verdict.RELEASE)

    assert waiting(store) == ["1", "2", "2.5", "3"]


@pytest.mark.parametrize("due_order", ["due_first", "keep_place"])
def test_a_message_that_becomes_due_stands_by_its_number(store: Store, session: int, due_order: str) -> None:
    declare(store, **BY_NUMBER, due_order=due_order)
    publish(store, 1, 3)
    publish(store, 2, 0, delay_seconds=10)
    pass_time(store, 20)

    assert [message.body for message in claim(store, session)] == [b"0", b"1", b"2", b"3"]


def test_a_message_that_is_moved_stands_by_its_number_or_first_without_one(store: Store) -> None:
    declare(store, **BY_NUMBER)
    declare(store, "others")
    publish(store, 2)
    publish(store, 3, 1, "none", None, queue="others")

    store.operations.move(ids(store.browser.browse("others", states=[State.READY.value])), "orders")

    assert waiting(store) == ["none", "None", "1", "2", "3"]


@pytest.mark.parametrize("where", [{"dead_letter_queue": "orders"}, {"dead_letter_exchange": "failures"}])
def test_dead_letters_are_sorted_where_they_arrive(store: Store, session: int, where: dict[str, Any]) -> None:
    declare(store, **BY_NUMBER)
    declare(store, "others", **where)
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="orders")
    publish(store, 2)
    publish(store, 3, 1, None, queue="others")

    for message in claim(store, session, "others"):
        settle(store, session, message, Verdict.DEAD)

    assert waiting(store) == ["None", "1", "2", "3"]


def test_a_limited_queue_is_sorted_too(store: Store) -> None:
    declare(store, **BY_NUMBER, max_messages=4)
    declare(store, "others")
    publish(store, 2, 1)
    publish(store, 3, 0, 9, queue="others")

    assert (
        len(store.operations.move(ids(store.browser.browse("others", states=[State.READY.value])), "orders")) == 2
    )

    assert (waiting(store), waiting(store, "others")) == (["0", "1", "2", "3"], ["9"])


def test_another_priority_or_time_leaves_the_place(store: Store) -> None:
    declare(store, **BY_NUMBER)
    publish(store, 2, 1, 3)
    [_, second, _] = store.browser.browse("orders", states=[State.READY.value])

    assert len(store.operations.prioritise([second.id], 9)) == 1
    [first, *_] = store.browser.browse("orders", states=[State.READY.value])
    assert len(store.operations.reschedule([first.id], datetime.now(UTC) - timedelta(hours=1))) == 1

    assert waiting(store) == ["1", "2", "3"]


def test_any_numbers_come_in_their_order(store: Store, session: int) -> None:
    declare(store, **BY_NUMBER)
    random = Random(9)
    weights = [random.choice([random.randint(-9, 9), random.uniform(-1e6, 1e6)]) for _ in range(60)]
    for weight in weights:
        publish(store, weight)

    found = [float(message.body) for message in claim(store, session, credit=100)]

    assert found == sorted(map(float, weights))
