"""Moves, dead letters, redrives and retries: the rules of the queue that a message comes to hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import is_delivered_before
from django_mq.errors import QueueClosed, QueueFull
from tests.stores.builders import a_message, claim, declare, ids, publish, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

SCHEDULED, READY, DEAD = 0, 1, 3
APPLE = json.dumps({"sku": "apple"})


def ready(store: Store, queue: str) -> list[Any]:
    return [item.message_id for item in store.browser.browse(queue, states=[READY])]


def test_a_move_brings_as_much_as_fits_in_order(store: Store, orders: str) -> None:
    declare(store, "narrow", max_messages=3)
    publish(store, "narrow")
    published = [publish(store) for _ in range(4)]
    expected = ready(store, orders)

    assert len(store.operations.move(published, "narrow")) == 2
    assert ready(store, "narrow")[1:] == expected[:2]
    assert ready(store, orders) == expected[2:]
    with pytest.raises(QueueFull, match="is full"):
        store.operations.move(ids(store.browser.browse(orders, states=[READY])), "narrow")


def test_a_move_brings_as_many_bytes_as_fit(store: Store, orders: str) -> None:
    declare(store, "narrow", max_bytes=10)
    published = [publish(store, body=body) for body in (b"12345", b"123456", b"1")]

    assert len(store.operations.move(published, "narrow")) == 1


def test_a_queue_that_drops_what_is_published_drops_nothing_that_is_moved(store: Store, orders: str) -> None:
    declare(store, "narrow", max_messages=1, overflow="drop")
    published = [publish(store) for _ in range(3)]

    assert len(store.operations.move(published, "narrow")) == 1
    assert store.queues.counts()["orders"].ready == 2


def test_a_move_into_a_ring_drives_others_out(store: Store, orders: str) -> None:
    declare(store, "ring", max_messages=2, overflow="ring")
    store.admission.append([a_message("ring"), a_message("ring")])
    published = [publish(store) for _ in range(3)]
    expected = ready(store, orders)

    assert len(store.operations.move(published, "ring")) == 3
    assert ready(store, "ring") == expected[1:]


def test_nothing_is_moved_into_a_closed_queue(store: Store, orders: str, edit_queue: EditQueue) -> None:
    declare(store, "shut")
    id_ = publish(store)
    edit_queue("shut", closed=True)

    with pytest.raises(QueueClosed):
        store.operations.move([id_], "shut")

    assert store.queues.counts()["orders"].ready == 1


def test_a_moved_value_replaces_the_older_one(store: Store, orders: str) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku")
    store.admission.append([a_message("prices", headers=APPLE)])
    published = [publish(store, headers=APPLE), publish(store, headers=APPLE), publish(store)]
    moved = ready(store, orders)

    assert len(store.operations.move(published, "prices")) == 3
    assert ready(store, "prices") == moved[1:]


def test_a_value_in_advance_stays_where_it_is(store: Store, orders: str) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku")
    scheduled = publish(store, headers=APPLE, delay_seconds=60)

    assert len(store.operations.move([scheduled], "prices")) == 0
    assert store.queues.counts()["orders"].scheduled == 1


def test_of_two_copies_moved_by_rules_one_stays(store: Store, orders: str) -> None:
    declare(store, "copies")
    declare(store, "narrow", max_messages=5)
    message = a_message()
    ids_ = [store.publications.append(message), publish(store, "copies", message_id=message.message_id)]

    assert len(store.operations.move(ids_, "narrow")) == 1
    assert len(store.operations.move(ids_, "narrow")) == 0


# Dead letters


def die(store: Store, session: int, queue: str = "orders") -> None:
    for message in claim(store, session, queue):
        settle(store, session, message, Verdict.DEAD, reason="bad")


def test_a_dead_letter_that_finds_no_room_stays_dead_in_place(store: Store, session: int) -> None:
    declare(store, "failures", max_messages=1)
    declare(store, dead_letter_queue="failures")
    publish(store)
    publish(store)

    die(store, session)

    counts = store.queues.counts()
    assert (counts["failures"].ready, counts["orders"].dead) == (1, 1)


def test_a_dead_letter_does_not_go_to_a_closed_queue(store: Store, session: int, edit_queue: EditQueue) -> None:
    declare(store, "failures")
    declare(store, dead_letter_queue="failures")
    edit_queue("failures", closed=True)
    publish(store)

    die(store, session)

    counts = store.queues.counts()
    assert (counts["failures"].ready, counts["orders"].dead) == (0, 1)


def test_a_ring_keeps_the_latest_dead_letters(store: Store, session: int) -> None:
    declare(store, "failures", max_messages=2, overflow="ring")
    declare(store, dead_letter_queue="failures")
    for _ in range(3):
        publish(store)
    expected = ready(store, "orders")

    die(store, session)

    assert ready(store, "failures") == expected[1:]
    assert store.queues.counts()["orders"].dead == 0


def test_a_dead_letter_gets_the_time_to_live_of_its_new_queue(store: Store, session: int) -> None:
    declare(store, "failures", ttl_seconds=60.0)
    declare(store, dead_letter_queue="failures")
    publish(store)

    die(store, session)

    [letter] = claim(store, session, "failures")
    assert letter.expires_at is not None
    assert 59 < (letter.expires_at - letter.published_at).total_seconds() < 61


# Retries


def test_a_dead_value_that_is_retried_gives_way_to_a_later_one(store: Store, session: int) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku")
    store.admission.append([a_message("prices", headers=APPLE)])
    die(store, session, "prices")
    [newer] = store.admission.append([a_message("prices", headers=APPLE)])

    store.operations.redrive(ids(store.browser.browse("prices", states=[DEAD])))

    assert ids(store.browser.browse("prices", states=[READY, DEAD])) == [newer]


def test_a_dead_value_that_is_retried_is_the_latest_if_no_other_is_there(store: Store, session: int) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku")
    [id_] = store.admission.append([a_message("prices", headers=APPLE)])
    die(store, session, "prices")

    store.operations.redrive([id_])

    assert ids(store.browser.browse("prices", states=[READY])) == [id_]


@pytest.mark.parametrize("state", [READY, DEAD])
def test_a_dead_message_that_is_moved_counts_as_delivered_before(store: Store, session: int, state: int) -> None:
    declare(store, max_attempts=1)
    declare(store, "others")
    id_ = publish(store)
    if state == DEAD:
        [held] = claim(store, session)
        settle(store, session, held, Verdict.DEAD)

    assert len(store.operations.move([id_], "others")) == 1

    [moved] = claim(store, session, "others")
    assert (moved.redelivered, moved.attempts) == (is_delivered_before(state, redelivered=False), 0)
