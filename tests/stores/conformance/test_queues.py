"""Queues and bindings: declared, read, deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.engine.decisions.routing import Route
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import QueueClosed, QueueInUse, UnknownQueue
from tests.stores.builders import claim, declare, ids, options, pass_time, publish, settle
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

pytestmark = AS_PUBLISHER


def test_declaring_creates_a_queue_with_its_options(store: Store) -> None:
    declare(store, "failures")
    declare(store, "expired")
    given = options(
        kind="last_value",
        last_value_key="sku",
        levels=3,
        due_order="keep_place",
        max_attempts=4,
        backoff_seconds=0.5,
        backoff_multiplier=3.0,
        backoff_cap_seconds=9.0,
        backoff_jitter=0.25,
        backoff_ticks_per_second=1000,
        dead_letter_queue="failures",
        max_messages=99,
        max_bytes=9999,
        overflow="flow",
        wait_seconds=2.5,
        expiry_queue="expired",
        ttl_seconds=12.5,
    )

    assert store.queues.declare("orders", given)

    record = store.queues.find("orders")
    assert record is not None
    assert {name: getattr(record, name) for name in given} == given
    assert (record.name, record.closed, record.paused) == ("orders", False, False)


def test_queues_that_were_created_later_are_named_afterwards(store: Store) -> None:
    declare(store, "orders")
    declare(store, "failures")
    declare(store, "expired")

    store.queues.link("orders", dead_letter_queue="failures")
    store.queues.link("orders", expiry_queue="expired")

    record = store.queues.find("orders")
    assert record is not None
    assert (record.dead_letter_queue, record.expiry_queue) == ("failures", "expired")


def test_declaring_again_keeps_the_options(store: Store) -> None:
    declare(store, levels=3)

    assert not store.queues.declare("orders", options(levels=5))

    record = store.queues.find("orders")
    assert record is not None
    assert record.levels == 3


def test_there_is_no_record_of_an_unknown_queue(store: Store) -> None:
    assert store.queues.find("nowhere") is None


def test_a_record_tells_whether_the_queue_is_paused_now(store: Store, orders: str) -> None:
    def paused() -> bool:
        record = store.queues.find(orders)
        assert record is not None
        return record.paused

    store.queues.set_paused(orders, paused=True, reason="tea", seconds=60)
    during = paused()
    pass_time(store, 61)

    assert (during, paused()) == (True, False)


def test_of_several_queues_the_paused_ones_are_named(store: Store, orders: str) -> None:
    for name in ("mails", "over"):
        store.queues.declare(name, options())
        store.queues.set_paused(name, paused=True, seconds=60 if name == "over" else None)
    store.queues.set_paused(orders, paused=False)
    during = store.queues.paused([orders, "over", "nowhere"])
    pass_time(store, 61)

    assert (during, store.queues.paused([orders, "mails", "over"]), store.queues.paused([])) == (
        {"over"},
        {"mails"},
        set(),
    )


# Deleting


def test_an_empty_queue_is_deleted(store: Store, orders: str) -> None:
    assert store.deletions.delete_queue(orders) == 0
    assert store.queues.find(orders) is None


def test_deleting_an_unknown_queue_is_an_error(store: Store) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.deletions.delete_queue("nowhere")


@pytest.mark.parametrize("delay", [None, 60.0], ids=["ready", "scheduled"])
def test_a_queue_with_messages_is_not_deleted(store: Store, orders: str, delay: float | None) -> None:
    publish(store, delay_seconds=delay)

    with pytest.raises(QueueInUse, match=orders):
        store.deletions.delete_queue(orders)

    assert store.queues.counts()[orders].total == 1


def test_force_deletes_the_messages_too(store: Store, orders: str, session: int) -> None:
    publish(store)
    settle(store, session, claim(store, session)[0], Verdict.DEAD, reason="bad")
    publish(store)
    publish(store, delay_seconds=60)

    assert store.deletions.delete_queue(orders, force=True) == 3
    assert store.queues.find(orders) is None


@pytest.mark.parametrize("limits", [{}, {"max_messages": 2}])
def test_force_sends_the_messages_to_the_dead_letter_queue(
    store: Store, session: int, limits: dict[str, int]
) -> None:
    declare(store, "failures", **limits)
    declare(store, dead_letter_queue="failures")
    published = [uuid4() for _ in range(2)]
    for message_id, delay in zip(published, (None, 60), strict=True):
        publish(store, message_id=message_id, delay_seconds=delay)

    assert store.deletions.delete_queue("orders", force=True) == 2

    claimed = claim(store, session, "failures")
    origins = [json.loads(message.headers) for message in claimed]
    assert [message.message_id for message in claimed] == published
    assert [(origin["x-origin-queue"], origin["x-dead-reason"]) for origin in origins] == [
        ("orders", "queue deleted")
    ] * 2
    assert store.queues.find("orders") is None


@pytest.mark.parametrize("why", ["closed", "full", "has one already"])
def test_a_queue_whose_dead_letter_queue_does_not_take_all_its_messages_is_not_deleted(
    store: Store, edit_queue: EditQueue, why: str
) -> None:
    declare(store, "failures", max_messages=1 if why == "full" else None)
    declare(store, dead_letter_queue="failures")
    first = uuid4()
    publish(store, message_id=first)
    publish(store)
    if why == "closed":
        edit_queue("failures", closed=True)
    elif why == "has one already":
        publish(store, "failures", message_id=first)

    with pytest.raises(QueueInUse, match="dead-letter queue or exchange 'failures'"):
        store.deletions.delete_queue("orders", force=True)

    assert store.queues.counts()["orders"].ready == 2


def test_a_dead_letter_queue_needs_room_for_all_messages_of_a_deleted_queue_before_values_replace_others(
    store: Store,
) -> None:
    declare(store, "failures", max_messages=2, kind="last_value", last_value_key="k")
    declare(store, dead_letter_queue="failures")
    for _ in range(3):
        publish(store, headers='{"k": "same"}')

    with pytest.raises(QueueInUse, match="dead-letter queue or exchange 'failures'"):
        store.deletions.delete_queue("orders", force=True)

    assert store.queues.counts()["orders"].ready == 3


def test_not_even_force_deletes_claimed_messages(store: Store, orders: str, session: int) -> None:
    publish(store)
    publish(store)
    claim(store, session, credit=1)

    with pytest.raises(QueueInUse, match="claimed"):
        store.deletions.delete_queue(orders, force=True)

    assert store.queues.counts()[orders].total == 2


@pytest.mark.parametrize("force", [False, True])
def test_a_dead_letter_queue_in_use_is_not_deleted(store: Store, force: bool) -> None:
    declare(store, "failures")
    declare(store, dead_letter_queue="failures")

    with pytest.raises(QueueInUse, match="dead-letter"):
        store.deletions.delete_queue("failures", force=force)


def test_a_deleted_queue_takes_no_messages(store: Store, orders: str) -> None:
    store.deletions.delete_queue(orders)

    with pytest.raises(UnknownQueue):
        publish(store)


def test_deleting_a_queue_deletes_its_bindings(store: Store, orders: str) -> None:
    store.exchanges.bind(exchange="x", exchange_type="direct", pattern="a", queue=orders)

    store.deletions.delete_queue(orders)

    assert store.exchanges.bindings("x") == []


# Bindings


def test_bindings_are_read_by_exchange_in_the_order_they_were_made(store: Store, orders: str) -> None:
    declare(store, "bills")
    for name, pattern in (("orders", "a.*"), ("bills", "b.#")):
        store.exchanges.bind(exchange="x", exchange_type="topic", pattern=pattern, queue=name)
    store.exchanges.bind(exchange="y", exchange_type="fanout", pattern="", queue=orders)

    assert store.exchanges.bindings("x") == [Route("topic", "a.*", "orders"), Route("topic", "b.#", "bills")]
    assert store.exchanges.bindings("z") == []


def test_binding_again_changes_nothing(store: Store, orders: str) -> None:
    for _ in range(2):
        store.exchanges.bind(exchange="x", exchange_type="direct", pattern="a", queue=orders)

    assert len(store.exchanges.bindings("x")) == 1


def test_binding_again_changes_the_selector(store: Store, orders: str) -> None:
    binding = {"exchange": "x", "exchange_type": "direct", "pattern": "a", "queue": orders}
    store.exchanges.bind(**binding, selector="region = 'eu'")
    store.exchanges.bind(**binding, selector="region = 'us'")

    assert store.exchanges.bindings("x") == [Route("direct", "a", orders, "region = 'us'")]


def test_a_binding_is_removed_once(store: Store, orders: str) -> None:
    store.exchanges.bind(exchange="x", exchange_type="direct", pattern="a", queue=orders)

    assert store.exchanges.unbind(exchange="x", pattern="a", queue=orders)
    assert not store.exchanges.unbind(exchange="x", pattern="a", queue=orders)
    assert store.exchanges.bindings("x") == []


def test_binding_an_unknown_queue_is_an_error(store: Store) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.exchanges.bind(exchange="x", exchange_type="direct", pattern="a", queue="nowhere")


def test_a_closed_queue_still_delivers(store: Store, orders: str, session: int, edit_queue: EditQueue) -> None:
    id_ = publish(store)
    edit_queue(orders, closed=True)

    with pytest.raises(QueueClosed):
        publish(store)
    assert ids(claim(store, session)) == [id_]
