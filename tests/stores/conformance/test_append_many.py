"""Publishing many messages at once: all of them, in order, or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from django_mq.errors import DuplicateMessage, QueueClosed, UnknownQueue
from tests.stores.builders import a_message, claim, declare, ids, publish
from tests.stores.conftest import IN_BOTH_WAYS

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

pytestmark = IN_BOTH_WAYS


def test_the_ids_come_back_in_the_given_order(store: Store, orders: str, session: int) -> None:
    messages = [a_message(priority=index % 10) for index in range(25)]

    numbers = store.publications.append_many(messages)

    assert numbers == sorted(numbers)
    stored = {message.id: message.message_id for message in claim(store, session)}
    assert [stored[number] for number in numbers] == [message.message_id for message in messages]


def test_many_may_go_to_several_queues(store: Store, orders: str) -> None:
    declare(store, "bills")

    store.publications.append_many([a_message(), a_message("bills"), a_message()])

    assert {name: counts.ready for name, counts in store.queues.counts().items()} == {"bills": 1, "orders": 2}


def test_each_of_many_has_its_own_times_and_properties(store: Store, orders: str, session: int) -> None:
    past = datetime(2021, 1, 1, tzinfo=UTC)
    first = a_message(deliver_at=past, headers='{"a": 1}', body=b"\x00", correlation_id="one")
    second = a_message(ttl_seconds=60, properties='{"b": 2}', group_key="two", type="t", told_to="shop")

    store.publications.append_many([first, second, a_message(delay_seconds=60)])

    one, two = claim(store, session)
    assert (one.deliver_at, one.headers, one.body, one.correlation_id) == (past, '{"a": 1}', b"\x00", "one")
    assert (two.properties, two.group_key, two.type, two.told_to) == ('{"b": 2}', "two", "t", "shop")
    assert two.expires_at == two.published_at + timedelta(seconds=60)
    assert store.queues.counts()[orders].scheduled == 1


def test_none_is_many_too(store: Store) -> None:
    assert store.publications.append_many([]) == []


def test_one_unknown_queue_refuses_them_all(store: Store, orders: str) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.publications.append_many([a_message(), a_message("nowhere"), a_message()])

    assert store.queues.counts()[orders].total == 0


def test_one_closed_queue_refuses_them_all(store: Store, orders: str, edit_queue: EditQueue) -> None:
    edit_queue(declare(store, "shop"), closed=True)

    with pytest.raises(QueueClosed, match="shop"):
        store.publications.append_many([a_message(), a_message("shop")])

    assert store.queues.counts()[orders].total == 0


def test_two_of_them_with_the_same_id_refuse_them_all(store: Store, orders: str) -> None:
    twice = a_message()

    with pytest.raises(DuplicateMessage, match=f"Two of the messages have the id {twice.message_id}"):
        store.publications.append_many([twice, a_message(), twice])

    assert store.queues.counts()[orders].total == 0


def test_one_that_is_there_already_refuses_them_all(store: Store, orders: str, session: int) -> None:
    there = a_message()
    id_ = store.publications.append(there)

    with pytest.raises(DuplicateMessage, match=str(there.message_id)):
        store.publications.append_many([a_message(), there])

    assert ids(claim(store, session)) == [id_]


def test_a_repeated_publish_of_the_same_messages_counts_as_written(store: Store, orders: str) -> None:
    messages = [a_message(), a_message()]
    store.publications.append_many(messages)

    assert store.publications.append_many(messages, again=True) == []
    assert store.queues.counts()[orders].ready == 2


def test_a_repeated_publish_of_many_is_no_excuse_for_other_duplicates(store: Store, orders: str) -> None:
    there = a_message()
    store.publications.append(there)

    with pytest.raises(DuplicateMessage):
        store.publications.append_many([there, a_message()], again=True)

    assert store.queues.counts()[orders].ready == 1


def test_after_a_refusal_the_store_goes_on(store: Store, orders: str) -> None:
    with pytest.raises(UnknownQueue):
        store.publications.append_many([a_message("nowhere")])

    assert publish(store) > 0
