"""Queues that are deleted when no worker uses them, and queues in which nothing expires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.options import QueueOptions
from django_mq.stores.records import Heartbeat
from tests.stores.builders import (
    DEADLINE_SECONDS,
    claim,
    declare,
    lose_worker,
    open_session,
    pass_time,
    publish,
    settle,
)

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

ORDERS = ("orders",)


def is_there(store: Store) -> bool:
    return store.queues.find("orders") is not None


def test_an_empty_queue_goes_with_the_last_session_that_receives(store: Store) -> None:
    declare(store, auto_delete=True)
    store.exchanges.bind(exchange="news", exchange_type="fanout", pattern="", queue="orders")
    first, last = (open_session(store, queues=ORDERS) for _ in range(2))
    publish(store)
    settle(store, first, claim(store, first)[0], Verdict.ACCEPT)

    store.sessions.close(first)
    assert is_there(store)
    store.sessions.close(last)

    assert (is_there(store), store.exchanges.bindings("news"), store.queues.occupied()) == (False, [], [])


def test_a_queue_with_messages_stays_for_the_next_worker(store: Store) -> None:
    declare(store, auto_delete=True)
    stopped, killed = (open_session(store, queues=ORDERS) for _ in range(2))
    for session in (stopped, killed):
        publish(store)
        claim(store, session)

    store.sessions.close(stopped)
    lose_worker(store, killed)
    assert (store.deletions.delete_unused(), len(store.browser.browse("orders", states=[1]))) == ({}, 2)

    store.deletions.purge("orders")
    assert store.deletions.delete_unused() == {"orders": 0}


def test_a_queue_with_messages_goes_when_it_expires(store: Store) -> None:
    declare(store, "failures")
    declare(store, auto_delete=True, expires_seconds=60, dead_letter_queue="failures")
    session = open_session(store, queues=ORDERS)
    publish(store)
    store.sessions.close(session)
    pass_time(store, 59)
    assert store.deletions.delete_unused() == {}

    pass_time(store, 1)

    assert store.deletions.delete_unused() == {"orders": 1}
    [dead] = store.browser.browse("failures", states=[1])
    assert dead.dead_reason == "queue deleted"


def test_an_empty_queue_goes_with_a_session_that_has_died(store: Store) -> None:
    declare(store, auto_delete=True)
    session = open_session(store, queues=ORDERS)

    lose_worker(store, session)

    assert not is_there(store)


def test_a_queue_goes_that_its_session_consumes_no_more(store: Store) -> None:
    declare(store, auto_delete=True)
    session = open_session(store, queues=ORDERS)
    assert store.deletions.delete_unused() == {}

    store.sessions.renew(session, Heartbeat(deadline_seconds=DEADLINE_SECONDS, queues=("others",)))

    assert store.maintenance.due_duties().get("delete_unused", True)
    assert store.deletions.delete_unused() == {"orders": 0}


def test_an_auto_delete_queue_waits_for_its_first_consumer(store: Store) -> None:
    declare(store, auto_delete=True)
    publish(store)
    store.sessions.close(open_session(store, queues=("others",)))

    assert store.deletions.delete_unused() == {}
    assert is_there(store)


def test_a_queue_expires_when_no_worker_has_used_it_for_so_long(store: Store) -> None:
    declare(store, "failures")
    declare(store, expires_seconds=60, dead_letter_queue="failures")
    for _ in range(2):
        publish(store)
    pass_time(store, 59)
    assert store.deletions.delete_unused() == {}
    publish(store)  # publishing is no use

    pass_time(store, 1)

    assert store.deletions.delete_unused() == {"orders": 3}
    assert (is_there(store), len(store.browser.browse("failures", states=[1]))) == (False, 3)


def test_a_queue_does_not_expire_while_a_worker_receives(store: Store) -> None:
    declare(store, expires_seconds=60)
    session = open_session(store, queues=ORDERS, deadline_seconds=1000)
    pass_time(store, 500)
    assert store.deletions.delete_unused() == {}

    store.sessions.close(session)
    pass_time(store, 59)
    assert store.deletions.delete_unused() == {}
    pass_time(store, 1)
    assert store.deletions.delete_unused() == {"orders": 0}


def test_a_declaration_lets_the_time_begin_again(store: Store) -> None:
    declare(store, expires_seconds=60)
    pass_time(store, 59)
    store.deletions.note_use(["orders", "nothing"])
    pass_time(store, 59)
    assert store.deletions.delete_unused() == {}


def test_an_unused_queue_stays_whose_dead_letter_queue_is_full(store: Store) -> None:
    declare(store, "failures", max_messages=1)
    publish(store, "failures")
    declare(store, expires_seconds=60, dead_letter_queue="failures")
    publish(store)
    pass_time(store, 60)

    assert store.deletions.delete_unused() == {}
    assert len(store.browser.browse("orders", states=[1])) == 1


def test_a_dead_letter_queue_stays_unused_or_not(store: Store) -> None:
    declare(store, "failures", expires_seconds=60)
    declare(store, dead_letter_queue="failures")
    pass_time(store, 60)

    assert store.deletions.delete_unused() == {}
    assert store.queues.find("failures") is not None


def test_lasting_queues_are_no_chore(store: Store) -> None:
    declare(store)

    assert store.deletions.delete_unused() == {}
    assert not store.features.durable or not store.maintenance.due_duties()["delete_unused"]


def test_nothing_expires_in_a_queue_with_no_expiry(store: Store) -> None:
    declare(store, no_expiry=True)
    declare(store, "short")
    publish(store, ttl_seconds=1)
    moved = publish(store, "short", ttl_seconds=1)
    assert len(store.operations.move([moved], "orders")) == 1
    pass_time(store, 10)

    assert store.maintenance.expire() == 0
    assert [item.expires_at for item in store.browser.browse("orders", states=[1])] == [None, None]


def test_another_priority_leaves_the_expiry_as_it_is(store: Store, edit_queue: EditQueue) -> None:
    declare(store)
    published = publish(store, ttl_seconds=1)
    edit_queue("orders", no_expiry=True)

    assert len(store.operations.prioritise([published], 9)) == 1

    assert store.browser.browse("orders", states=[1])[0].expires_at is not None


def test_no_expiry_contradicts_a_time_to_live() -> None:
    [problem] = QueueOptions(no_expiry=True, ttl_seconds=1.0).contradictions()

    assert problem.startswith("no_expiry cannot be combined with ttl_seconds")


@pytest.mark.parametrize("seconds", [0, -1, 0.5, float("nan")])
def test_a_queue_cannot_expire_in_less_than_a_second(seconds: float) -> None:
    assert list(QueueOptions(expires_seconds=seconds).problems())
    assert not list(QueueOptions(expires_seconds=1).problems())
