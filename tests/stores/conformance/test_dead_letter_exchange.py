"""Dead letters that are published to an exchange."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from django_mq.engine.decisions.routing import address_in
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.options import QueueOptions
from django_mq.errors import QueueInUse
from tests.stores.builders import (
    a_message,
    claim,
    declare,
    ids,
    lose_worker,
    open_session,
    pass_time,
    publish,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import History
    from django_mq.stores.base import Store


@pytest.fixture
def failures(store: Store) -> str:
    """A queue whose dead letters go to an exchange, with two queues that may get them."""
    declare(store, dead_letter_exchange="failures", max_attempts=1)
    for name, pattern in (("all", "#"), ("other", "bills.#")):
        declare(store, name)
        store.exchanges.bind(exchange="failures", exchange_type="topic", pattern=pattern, queue=name)
    return "failures"


def die(store: Store, session: int) -> None:
    [message] = claim(store, session)
    settle(store, session, message, Verdict.DEAD, counted=True, reason="broken")


def test_a_dead_letter_goes_to_the_queues_of_the_exchange(
    store: Store, session: int, failures: str, finished: Callable[[], list[History]]
) -> None:
    published = publish(store, priority=7, headers='{"a": 1}', group_key="g", body=b"secret")

    die(store, session)

    [copy] = store.browser.browse("all", states=[1])
    headers = json.loads(copy.headers)
    assert (copy.priority, copy.body, copy.attempts, copy.id == published) == (7, b"secret", 0, False)
    assert (headers["a"], headers["x-origin-queue"], headers["x-origin-attempts"]) == (1, "orders", 1)
    assert (headers["x-dead-reason"], copy.dead_reason) == ("broken", "broken")
    assert (store.browser.browse("other", states=[1]), store.browser.browse("orders", states=[0, 1, 2, 3])) == (
        [],
        [],
    )
    assert [(row.queue_name, row.outcome) for row in finished()] == [("orders", 6)]


def test_the_messages_of_a_deleted_queue_come_in_the_order_of_their_arrival(store: Store, failures: str) -> None:
    published = [uuid4() for _ in range(2)]
    for message_id, delay in zip(published, (60, None), strict=True):
        publish(store, message_id=message_id, delay_seconds=delay)

    assert store.deletions.delete_queue("orders", force=True) == 2

    assert [item.message_id for item in store.browser.browse("all", states=[1])] == published


def test_a_queue_stays_as_it_was_if_the_exchange_does_not_take_all_of_its_messages(
    store: Store, failures: str, finished: Callable[[], list[History]]
) -> None:
    kept = [publish(store), publish(store, message_id=UUID(int=1))]
    publish(store, "all", message_id=UUID(int=1))

    with pytest.raises(QueueInUse):
        store.deletions.delete_queue("orders", force=True)

    assert ids(store.browser.browse("orders", states=[1])) == kept
    assert (len(store.browser.browse("all", states=[1])), finished()) == (1, [])


def test_each_matching_queue_gets_a_copy(store: Store, session: int, failures: str) -> None:
    store.exchanges.bind(exchange=failures, exchange_type="topic", pattern="orders", queue="other")
    publish(store)

    die(store, session)

    assert [len(store.browser.browse(name, states=[1])) for name in ("all", "other")] == [1, 1]


def test_a_dead_letter_that_no_queue_takes_stays(store: Store, session: int) -> None:
    declare(store, dead_letter_exchange="nowhere")
    publish(store)

    die(store, session)

    assert [message.dead_reason for message in store.browser.browse("orders", states=[3])] == ["broken"]
    with pytest.raises(QueueInUse, match="exchange 'nowhere' does not take one"):
        store.deletions.delete_queue("orders", force=True)


def test_a_full_queue_does_not_keep_a_dead_letter_from_the_others(
    store: Store, session: int, failures: str
) -> None:
    declare(store, "full", max_messages=1)
    publish(store, "full")
    store.exchanges.bind(exchange=failures, exchange_type="topic", pattern="#", queue="full")
    publish(store)

    die(store, session)

    assert [len(store.browser.browse(name, states=[1])) for name in ("all", "full")] == [1, 1]


def test_the_messages_of_a_deleted_queue_and_of_dead_workers_go_there(
    store: Store, session: int, failures: str
) -> None:
    publish(store)
    for _ in range(2):
        other = open_session(store)
        claim(store, other)
        lose_worker(store, other)
    publish(store)

    assert store.deletions.delete_queue("orders", force=True) == 1
    reasons = [json.loads(message.headers)["x-dead-reason"] for message in store.browser.browse("all", states=[1])]
    assert reasons == ["worker lost", "queue deleted"]


# What expires, and what a full queue replaces.


def outcomes(finished: Callable[[], list[History]]) -> list[tuple[str, int]]:
    return [(row.queue_name, row.outcome) for row in finished()]


def deaths(store: Store, queue: str) -> list[list[tuple[str, str, int]]]:
    """The queue, reason and count of each death of each ready message."""
    found = [json.loads(message.headers)["x-death"] for message in store.browser.browse(queue, states=[1])]
    return [[(each["queue"], each["reason"], each["count"]) for each in some] for some in found]


@pytest.mark.parametrize(
    ("options", "own"), [({"max_ttl_seconds": 5.0}, {}), ({"ttl_seconds": 5.0}, {}), ({}, {"ttl_seconds": 5.0})]
)
def test_what_expires_goes_to_the_exchange(
    store: Store, options: dict[str, float], own: dict[str, float], finished: Callable[[], list[History]]
) -> None:
    declare(store, dead_letter_exchange="failures", **options)
    declare(store, "all")
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="all")
    properties = {"expiration": "5000", "delivery_info": {"exchange": "shop", "routing_key": "paid"}}
    publish(store, body=b"kept", headers='{"a": 1}', properties=json.dumps(properties), **own)
    pass_time(store, 6)

    assert store.maintenance.expire() == 1

    [copy] = store.browser.browse("all", states=[1])
    [death] = json.loads(copy.headers)["x-death"]
    assert death.pop("time").endswith("+00:00")
    assert death == {
        "count": 1,
        "reason": "expired",
        "queue": "orders",
        "exchange": "shop",
        "routing-keys": ["paid"],
        "original-expiration": "5000",
    }
    assert json.loads(copy.headers)["x-first-death-reason"] == "expired"
    about = {"exchange": "failures", "routing_key": "paid", "queue": "all"}
    assert json.loads(copy.properties or "") == {"delivery_info": about}
    assert (copy.body, copy.expires_at, copy.attempts) == (b"kept", None, 0)
    assert (outcomes(finished), store.maintenance.expire()) == ([("orders", 6)], 0)


def test_a_worker_that_finds_a_message_expired_sends_it_there(store: Store, session: int, failures: str) -> None:
    publish(store, ttl_seconds=5.0)
    [message] = claim(store, session)
    pass_time(store, 6)

    settle(store, session, message, Verdict.EXPIRE)

    assert deaths(store, "all") == [[("orders", "expired", 1)]]


@pytest.mark.parametrize("limit", [{"max_messages": 1}, {"max_bytes": 2}], ids=str)
def test_what_a_ring_replaces_goes_to_the_exchange(
    store: Store, limit: dict[str, int], finished: Callable[[], list[History]]
) -> None:
    declare(store, dead_letter_exchange="failures", overflow="ring", **limit)
    declare(store, "all")
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="all")

    for body in (b"1.", b"2.", b"3."):
        store.admission.append([a_message(body=body)])

    assert [message.body for message in store.browser.browse("orders", states=[1])] == [b"3."]
    assert [message.body for message in store.browser.browse("all", states=[1])] == [b"1.", b"2."]
    assert deaths(store, "all") == 2 * [[("orders", "maxlen", 1)]]
    assert outcomes(finished) == 2 * [("orders", 6)]


def test_what_a_ring_replaces_in_a_transaction_goes_there_with_its_commit(store: Store) -> None:
    declare(store, dead_letter_exchange="failures", overflow="ring", max_messages=1)
    declare(store, "all")
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="all")

    with store.database.transaction():
        for body in (b"1", b"2"):
            store.admission.append([a_message(body=body)])

    assert [message.body for message in store.browser.browse("all", states=[1])] == [b"1"]


def test_maintenance_sends_what_it_takes_from_a_ring(store: Store, session: int) -> None:
    declare(store, dead_letter_exchange="failures", overflow="ring", max_messages=1)
    declare(store, "all")
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="all")
    store.admission.append([a_message(body=b"old")])
    [held] = claim(store, session)
    store.admission.append([a_message(body=b"new")])
    settle(store, session, held, Verdict.RELEASE)

    assert store.maintenance.trim() == 1

    assert [message.body for message in store.browser.browse("all", states=[1])] == [b"old"]


def test_a_ring_does_not_count_what_its_exchange_does_not_take(store: Store) -> None:
    declare(store, dead_letter_exchange="nowhere", overflow="ring", max_messages=2)

    for body in (b"1", b"2", b"3", b"4"):
        store.admission.append([a_message(body=body)])

    assert [message.body for message in store.browser.browse("orders", states=[1])] == [b"3", b"4"]
    assert [message.dead_reason for message in store.browser.browse("orders", states=[3])] == ["maxlen", "maxlen"]


@pytest.mark.parametrize("options", [{"dead_letter_queue": "all"}, {"expiry_queue": "all"}, {}], ids=str)
def test_a_ring_without_an_exchange_drops_what_it_replaces(
    store: Store, options: dict[str, str], finished: Callable[[], list[History]]
) -> None:
    declare(store, "all")
    declare(store, overflow="ring", max_messages=1, **options)

    for body in (b"1", b"2"):
        store.admission.append([a_message(body=body)])

    assert (store.queues.counts()["all"].total, outcomes(finished)) == (0, [("orders", 5)])


def test_what_expires_and_is_taken_by_no_queue_stays_as_dead(store: Store) -> None:
    declare(store, dead_letter_exchange="nowhere")
    publish(store, ttl_seconds=5.0)
    pass_time(store, 6)

    assert (store.maintenance.expire(), store.maintenance.expire()) == (1, 0)

    assert [message.dead_reason for message in store.browser.browse("orders", states=[3])] == ["expired"]


def test_the_default_exchange_leads_to_the_queue_of_the_routing_key(store: Store, session: int) -> None:
    declare(store, dead_letter_exchange="amq.default", dead_letter_routing_key="all", max_ttl_seconds=5.0)
    declare(store, "all")
    publish(store)
    die(store, session)
    publish(store)
    pass_time(store, 6)
    store.maintenance.expire()

    assert deaths(store, "all") == [[("orders", "rejected", 1)], [("orders", "expired", 1)]]


def test_an_exchange_of_a_queues_name_leads_to_that_queue(store: Store, session: int) -> None:
    declare(store, dead_letter_exchange="all", dead_letter_routing_key="all")
    declare(store, "all")
    publish(store)

    die(store, session)

    assert deaths(store, "all") == [[("orders", "rejected", 1)]]


@pytest.mark.parametrize("target", [{}, {"max_messages": 1000}, {"sort_key": "w", "kind": "fifo"}], ids=str)
def test_many_messages_expire_in_one_round(store: Store, target: dict[str, Any]) -> None:
    declare(store, dead_letter_exchange="failures")
    declare(store, "all", **target)
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="all")
    store.publications.append_many([a_message(body=b"%d" % number, ttl_seconds=5.0) for number in range(150)])
    pass_time(store, 6)

    assert (store.maintenance.expire(100), store.maintenance.expire(100)) == (100, 50)

    assert len(store.browser.browse("all", states=[1], limit=1000)) == 150


# Cycles.


def work_and_retry(store: Store, **work: Any) -> None:
    """The usual delayed retry: what is rejected waits in a second queue until it expires, and comes back."""
    declare(store, "work", dead_letter_exchange="amq.default", dead_letter_routing_key="retry", **work)
    declare(
        store, "retry", dead_letter_exchange="amq.default", dead_letter_routing_key="work", max_ttl_seconds=5.0
    )


def reject_and_wait(store: Store) -> None:
    session = open_session(store)
    [message] = claim(store, session, "work")
    settle(store, session, message, Verdict.DEAD, counted=True, reason="no")
    pass_time(store, 6)
    store.maintenance.expire()


def test_a_rejected_message_comes_back_a_stated_number_of_times(store: Store) -> None:
    work_and_retry(store, max_dead_letter_cycles=2)
    publish(store, "work", body=b"kept")

    for number in (1, 2):
        reject_and_wait(store)
        assert deaths(store, "work") == [[("retry", "expired", number), ("work", "rejected", number)]]
    reject_and_wait(store)

    [dead] = store.browser.browse("work", states=[3])
    assert (dead.body, dead.dead_reason, store.queues.counts()["retry"].total) == (b"kept", "no", 0)


def test_the_default_is_twenty_rounds_and_none_is_no_end(store: Store) -> None:
    work_and_retry(store, max_dead_letter_cycles=None)
    old = [{"queue": "work", "reason": "rejected", "count": 1000}]
    publish(store, "work", headers=json.dumps({"x-death": old}))

    reject_and_wait(store)

    assert deaths(store, "work") == [[("retry", "expired", 1), ("work", "rejected", 1001)]]
    assert QueueOptions().max_dead_letter_cycles == 20


def test_dead_letter_and_expiry_queues_end_cycles_too(store: Store) -> None:
    for name in ("work", "retry"):
        declare(store, name, max_ttl_seconds=5.0 if name == "retry" else None, max_dead_letter_cycles=1)
    store.queues.link("work", dead_letter_queue="retry")
    store.queues.link("retry", expiry_queue="work")
    publish(store, "work")

    reject_and_wait(store)
    assert store.queues.counts()["work"].ready == 1
    reject_and_wait(store)

    assert (store.queues.counts()["work"].dead, store.queues.counts()["retry"].total) == (1, 0)


@pytest.mark.parametrize("chain", [["a"], ["a", "b"], ["a", "b", "c"]], ids=str)
def test_a_message_that_only_expires_does_not_come_back(store: Store, chain: list[str]) -> None:
    for name, following in zip(chain, [*chain[1:], chain[0]], strict=True):
        declare(
            store, name, dead_letter_exchange="amq.default", dead_letter_routing_key=following, max_ttl_seconds=5.0
        )
    publish(store, "a")

    for _ in range(5):
        pass_time(store, 6)
        store.maintenance.expire()

    counts = store.queues.counts()
    assert [counts[name].dead for name in chain] == [0] * (len(chain) - 1) + [1]
    assert sum(counts[name].total for name in chain) == 1


def test_expiry_queues_that_lead_back_end_with_a_dead_letter(store: Store) -> None:
    for name in ("a", "b"):
        declare(store, name, max_ttl_seconds=5.0)
    store.queues.link("a", expiry_queue="b")
    store.queues.link("b", expiry_queue="a")
    publish(store, "a")

    for _ in range(3):
        pass_time(store, 6)
        store.maintenance.expire()

    assert (store.queues.counts()["a"].total, store.queues.counts()["b"].dead) == (0, 1)


def test_two_rings_that_send_to_each_other_end(store: Store) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        ring = {"overflow": "ring", "max_messages": 2}
        declare(store, name, dead_letter_exchange="amq.default", dead_letter_routing_key=other, **ring)

    for number in range(6):
        store.admission.append([a_message(name, body=b"%d" % number) for name in ("a", "b")])
    for _ in range(5):
        store.maintenance.trim()

    counts = store.queues.counts()
    assert [(counts[name].ready, counts[name].total) for name in ("a", "b")] == [(2, 6), (2, 6)]


def test_a_message_that_was_moved_back_is_addressed_to_its_queue(
    store: Store, session: int, failures: str
) -> None:
    publish(store)
    die(store, session)
    [copy] = store.browser.browse("all", states=[1])
    assert address_in(json.loads(copy.properties or ""), "all") == (failures, "orders")

    store.operations.move([copy.id], "orders")

    [back] = store.browser.browse("orders", states=[1])
    assert address_in(json.loads(back.properties or ""), "orders") == ("", "orders")


@pytest.mark.parametrize(
    "given",
    [
        {"dead_letter_exchange": "e", "dead_letter_queue": "q"},
        {"dead_letter_exchange": "e", "expiry_queue": "q"},
        {"dead_letter_exchange": "e", "overflow": "drop", "max_messages": 1},
        {"dead_letter_routing_key": "k"},
    ],
    ids=str,
)
def test_contradictions_are_refused(given: dict[str, Any]) -> None:
    assert len(list(QueueOptions(**given).contradictions())) == 1
