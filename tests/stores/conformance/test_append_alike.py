"""Publishing messages that differ in nothing but their ids and bodies: as if each had been published alone."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from django_mq.delivery.codecs import new_message_ids
from django_mq.errors import DuplicateMessage, QueueClosed, UnknownQueue
from django_mq.stores.records import Times
from tests.stores.builders import a_message, claim, declare, publish
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed
    from tests.stores.conftest import EditQueue

pytestmark = AS_PUBLISHER

BODIES = [b"", b"\x00\xff\\x41", b'"\xe2\x82\xac\n"', *(b"%d" % number for number in range(60))]
KINDS: list[dict[str, Any]] = [
    {"priority": 9},
    {"content_type": "application/octet-stream", "content_encoding": "binary", "headers": '{"a": "\u20ac"}'},
    {"type": "order \u20ac", "correlation_id": "c-1", "group_key": "\t\n\\N", "properties": '{"b": [1, 2]}'},
    {"ttl_seconds": 60.0},
    {"told_to": "shop"},
]


def look(message: Claimed) -> dict[str, Any]:
    lasts = message.expires_at and message.expires_at - message.published_at
    own = dict.fromkeys(("id", "claim", "message_id", "published_at"))
    return asdict(message) | own | {"expires_at": lasts}


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_can_tell_them_from_messages_that_were_published_one_by_one(
    store: Store, orders: str, session: int, kind: dict[str, Any]
) -> None:
    like = a_message(**kind)
    message_ids = new_message_ids(len(BODIES))
    for body in BODIES:
        store.publications.append(replace(like, message_id=UUID(bytes=new_message_ids(1)[0]), body=body))
    alone = claim(store, session, credit=len(BODIES))

    store.publications.append_alike(like, message_ids, BODIES)

    together = claim(store, session, credit=len(BODIES))
    assert [message.message_id.bytes for message in together] == message_ids
    assert [look(message) for message in together] == [look(message) for message in alone]


def test_the_queue_gives_them_levels_and_a_time_to_live(store: Store, session: int) -> None:
    declare(store, "orders", levels=2, ttl_seconds=30.0)

    store.publications.append_alike(a_message(priority=9), new_message_ids(60), [b"1"] * 60)

    message = claim(store, session)[0]
    assert message.level == 1
    assert message.expires_at == message.published_at + timedelta(seconds=30)


#: A queue's options by what they have to do with the times that a message brings.
QUEUES: list[dict[str, Any]] = [
    {},
    {"due_order": "keep_place"},
    {"min_ttl_seconds": 7200.0},
    {"max_ttl_seconds": 90.0},
    {"ttl_seconds": 50.0},
]


@pytest.mark.parametrize("options", QUEUES)
def test_each_may_bring_its_own_times(store: Store, session: int, options: dict[str, Any]) -> None:
    for name in ("alone", "together"):
        declare(store, name, **options)
    now = int(time.time() * 1_000_000)
    due = [None, now - 60_000_000, now + 86_400_000_000, now - 61_000_001] * 20
    ends = [None, now + 3_600_000_000, now + 3_600_000_001, None, None] * 16
    times = Times(due, ends)
    for number, (at, end) in enumerate(times.moments()):
        store.publications.append(a_message("alone", body=b"%d" % number, deliver_at=at, expires_at=end))

    store.publications.append_alike(
        a_message("together"), new_message_ids(80), [b"%d" % n for n in range(80)], times
    )

    assert standing(store, "together") == standing(store, "alone")
    assert len(standing(store, "together")) == 80
    lives = {name: lifetimes(claim(store, session, name), times) for name in ("alone", "together")}
    assert lives["together"] == lives["alone"]
    assert len(lives["together"]) == 60


def standing(store: Store, name: str) -> list[tuple[Any, ...]]:
    found = store.browser.browse(name, states=[0, 1])
    return sorted((each.body, each.state, each.level, each.place, each.deliver_at) for each in found)


def lifetimes(messages: list[Claimed], times: Times) -> dict[bytes, Any]:
    """When each expires if it says so itself, else after what time."""
    own = {end for _, end in times.moments()}
    return {
        each.body: each.expires_at
        if each.expires_at in own or each.expires_at is None
        else each.expires_at - each.published_at
        for each in messages
    }


def test_one_id_that_is_taken_refuses_them_all(store: Store, orders: str) -> None:
    message = a_message()
    store.publications.append(message)

    with pytest.raises(DuplicateMessage):
        store.publications.append_alike(message, [*new_message_ids(60), message.message_id.bytes], [b"1"] * 61)

    assert store.queues.counts()[orders].total == 1
    publish(store)


def test_an_unknown_and_a_closed_queue_take_none(store: Store, orders: str, edit_queue: EditQueue) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.publications.append_alike(a_message("nowhere"), new_message_ids(60), [b"1"] * 60)
    edit_queue(orders, closed=True)
    with pytest.raises(QueueClosed):
        store.publications.append_alike(a_message(), new_message_ids(60), [b"1"] * 60)

    assert store.queues.counts()[orders].total == 0
