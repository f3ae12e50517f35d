"""Publishing a hundred messages at once: a store may take another way then, with the same results."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.errors import DuplicateMessage, QueueClosed, UnknownQueue
from tests.stores.builders import a_message, claim, declare, ids, pass_time, publish
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, NewMessage
    from tests.stores.conftest import EditQueue

pytestmark = AS_PUBLISHER

#: Messages that differ from each other in all that a message may bring.
KINDS: list[dict[str, Any]] = [
    {},
    {"body": b"\x00\xff\\x41", "content_type": "application/octet-stream", "content_encoding": "binary"},
    {"body": b"", "headers": '{"a": "\u20ac \\"quoted\\""}'},
    {"type": "order \u20ac \U0001d11e", "correlation_id": "c-1", "group_key": "\t\n\\N"},
    {"properties": '{"b": [1, 2]}', "correlation_id": "c-2"},
]
#: Orders, levels and times to live.
QUEUES: dict[str, dict[str, Any]] = {
    "fifo": {"kind": "fifo"},
    "ten levels": {"levels": 10},
    "three levels": {"levels": 3},
    "a time to live": {"ttl_seconds": 60.5},
}


def a_hundred(*more: NewMessage) -> list[NewMessage]:
    """A hundred different messages, and these."""
    return [a_message(priority=index % 10, **KINDS[index % len(KINDS)]) for index in range(100)] + list(more)


def looks(messages: list[Claimed]) -> list[dict[str, Any]]:
    """What is to be seen of the messages, without what is each one's own."""
    return [
        asdict(message)
        | {"expires_at": message.expires_at and message.expires_at - message.published_at}
        | dict.fromkeys(("id", "claim", "message_id", "published_at"))
        for message in messages
    ]


def test_the_ids_of_a_hundred_come_back_in_the_given_order(store: Store, orders: str, session: int) -> None:
    messages = a_hundred()

    numbers = store.publications.append_many(messages)

    assert numbers == sorted(numbers)
    stored = {message.id: message.message_id for message in claim(store, session)}
    assert [stored[number] for number in numbers] == [message.message_id for message in messages]


@pytest.mark.parametrize("options", QUEUES.values(), ids=QUEUES.keys())
def test_a_hundred_at_once_are_what_they_would_be_alone(
    store: Store, session: int, options: dict[str, Any]
) -> None:
    declare(store, **options)

    for message in a_hundred():
        store.publications.append(message)
    alone = claim(store, session, credit=200)
    store.publications.append_many(a_hundred())
    at_once = claim(store, session, credit=200)

    assert len(at_once) == 100
    assert looks(at_once) == looks(alone)


def test_a_hundred_are_published_now_by_the_store_s_clock(store: Store, orders: str, session: int) -> None:
    pass_time(store, 3600)
    publish(store)
    store.publications.append_many(a_hundred())

    one, *hundred = claim(store, session, credit=200)

    assert len(hundred) == 100
    assert all(abs(other.published_at - one.published_at) < timedelta(minutes=1) for other in hundred)


def test_those_after_a_hundred_come_behind_them(store: Store, session: int) -> None:
    declare(store, kind="fifo")

    before = publish(store)
    numbers = store.publications.append_many(a_hundred())
    after = publish(store)

    assert ids(claim(store, session, credit=200)) == [before, *numbers, after]


def test_a_hundred_may_go_to_several_queues(store: Store, orders: str) -> None:
    declare(store, "bills")

    store.publications.append_many(a_hundred(a_message("bills")))

    assert {name: counts.ready for name, counts in store.queues.counts().items()} == {"bills": 1, "orders": 100}


def test_one_of_a_hundred_may_be_delayed(store: Store, orders: str) -> None:
    store.publications.append_many(a_hundred(a_message(delay_seconds=60)))

    counts = store.queues.counts()[orders]
    assert (counts.ready, counts.scheduled) == (100, 1)


def test_an_unknown_queue_refuses_all_the_hundred(store: Store, orders: str) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.publications.append_many(a_hundred(a_message("nowhere")))

    assert store.queues.counts()[orders].total == 0


def test_a_closed_queue_refuses_all_the_hundred(store: Store, orders: str, edit_queue: EditQueue) -> None:
    edit_queue(declare(store, "shop"), closed=True)

    with pytest.raises(QueueClosed, match="shop"):
        store.publications.append_many(a_hundred(a_message("shop")))

    assert store.queues.counts()[orders].total == 0


def test_the_same_id_twice_refuses_all_the_hundred(store: Store, orders: str) -> None:
    twice = a_message()

    with pytest.raises(DuplicateMessage, match=f"Two of the messages have the id {twice.message_id}"):
        store.publications.append_many(a_hundred(twice, twice))

    assert store.queues.counts()[orders].total == 0


def test_one_that_is_there_already_refuses_all_the_hundred(store: Store, orders: str, session: int) -> None:
    there = a_message()
    id_ = store.publications.append(there)

    with pytest.raises(DuplicateMessage, match=str(there.message_id)):
        store.publications.append_many(a_hundred(there))

    assert ids(claim(store, session)) == [id_]


def test_a_repeated_publish_of_a_hundred_counts_as_written(store: Store, orders: str) -> None:
    messages = a_hundred()
    store.publications.append_many(messages)

    assert store.publications.append_many(messages, again=True) == []
    assert store.queues.counts()[orders].ready == 100


def test_after_a_refusal_of_a_hundred_the_store_goes_on(store: Store, orders: str) -> None:
    there = a_message()
    store.publications.append(there)
    with pytest.raises(DuplicateMessage):
        store.publications.append_many(a_hundred(there))

    assert len(store.publications.append_many(a_hundred())) == 100
