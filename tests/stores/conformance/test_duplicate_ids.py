"""Duplicate ids: what a queue has taken once it does not take again, as long as it remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import DuplicateMessage, QueueFull
from tests.stores.builders import a_message, claim, declare, ids, pass_time, settle
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER


def put(store: Store, *dedup_ids: str | None, queue: str = "orders") -> list[int]:
    return store.admission.append([a_message(queue, dedup_id=each) for each in dedup_ids])


def test_an_id_is_taken_once(store: Store, orders: str) -> None:
    first = a_message(dedup_id="order 1")
    store.admission.append([first])

    with pytest.raises(DuplicateMessage, match=f"'order 1' was used in queue 'orders' before.*{first.message_id}"):
        put(store, "order 1")

    assert store.queues.counts()["orders"].ready == 1


def test_ids_are_told_apart_as_they_are_spelt(store: Store, orders: str) -> None:
    assert len(put(store, "a", "A", "ä", None, None)) == 5


def test_each_queue_has_ids_of_its_own(store: Store, orders: str) -> None:
    declare(store, "mails")

    put(store, "a")
    put(store, "a", queue="mails")


def test_the_second_of_two_at_once_is_a_duplicate_and_nothing_is_written(store: Store, orders: str) -> None:
    with pytest.raises(DuplicateMessage):
        put(store, "a", "b", "a")

    assert store.queues.counts()["orders"].ready == 0
    put(store, "a", "b")


def test_an_id_is_remembered_when_its_message_is_long_done(store: Store, orders: str, session: int) -> None:
    put(store, "a")
    [message] = claim(store, session)
    settle(store, session, message, Verdict.ACCEPT)
    store.retention.prune()

    with pytest.raises(DuplicateMessage):
        put(store, "a")


def test_an_id_is_as_good_as_new_after_its_time(store: Store) -> None:
    declare(store, dedup_seconds=60.0)
    put(store, "a")
    pass_time(store, 59)
    with pytest.raises(DuplicateMessage):
        put(store, "a")

    pass_time(store, 2)

    put(store, "a")
    with pytest.raises(DuplicateMessage):
        put(store, "a")


def test_maintenance_forgets_what_is_over_its_time(store: Store) -> None:
    declare(store, dedup_seconds=60.0)
    declare(store, "for ever")
    put(store, "a", "b")
    put(store, "c", queue="for ever")
    pass_time(store, 61)
    put(store, "d")

    assert (store.retention.prune(), store.retention.prune()) == (2, 0)
    with pytest.raises(DuplicateMessage):
        put(store, "c", queue="for ever")


def test_maintenance_forgets_all_but_the_last_so_many(store: Store) -> None:
    declare(store, dedup_count=2)
    for each in ("a", "b", "c", "d"):
        put(store, each)
        pass_time(store, 1)

    assert store.retention.prune() == 2

    put(store, "a", "b")
    with pytest.raises(DuplicateMessage):
        put(store, "c")
    with pytest.raises(DuplicateMessage):
        put(store, "d")


def test_a_queue_may_remember_by_time_alone(store: Store) -> None:
    declare(store, dedup_count=0, dedup_seconds=60.0)
    put(store, "a")
    store.retention.prune()

    with pytest.raises(DuplicateMessage):
        put(store, "a")


def test_a_queue_may_remember_nothing(store: Store) -> None:
    declare(store, dedup_count=0)

    assert len(put(store, "a", "a")) == 2
    put(store, "a")


def test_what_was_refused_or_dropped_may_be_published_again(store: Store) -> None:
    declare(store, max_messages=1)
    declare(store, "dropping", max_messages=1, overflow="drop")
    put(store, "a")
    assert put(store, "a", "b", queue="dropping")[1] == 0
    with pytest.raises(QueueFull):
        put(store, "b")

    store.deletions.purge("orders")
    store.deletions.purge("dropping")

    put(store, "b")
    assert put(store, "b", queue="dropping") == ids(store.browser.browse("dropping", states=[1]))


def test_a_second_try_is_no_duplicate_of_the_first(store: Store, orders: str, session: int) -> None:
    message = a_message(dedup_id="a")
    store.admission.append([message])
    [claimed] = claim(store, session)
    settle(store, session, claimed, Verdict.ACCEPT)

    store.admission.append([message], again=True)

    assert store.queues.counts()["orders"].ready == 0


def test_the_ids_of_a_queue_go_with_it(store: Store, orders: str) -> None:
    put(store, "a")
    store.deletions.delete_queue(orders, force=True)
    declare(store)

    put(store, "a")
