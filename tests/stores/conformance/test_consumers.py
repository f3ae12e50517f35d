"""Consumers with a selector, a credit for bytes and a wake-up, and messages that they decline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.credit import PrefetchCredit, WindowCredit
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.engine.states import CLAIMED
from django_mq.errors import AlreadySubscribed, ExclusiveConsumerExists, QueueInUse, StoreError
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.credit import SpendingCredit
from django_mq.inprocess.consumers.target import Target
from django_mq.stores.records import ClaimRequest, Heartbeat
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
    verdict,
)
from tests.stores.conftest import memory_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.decisions.credit import Credit
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed

#: The stores that serve consumers; the others refuse them, see ``test_settle_and_claim.py``.
SERVING = [pytest.param(memory_store, id="memory")]
pytestmark = [pytest.mark.usefixtures("orders"), pytest.mark.parametrize("store", SERVING, indirect=True)]


@pytest.fixture
def other(store: Store) -> int:
    """A second worker session."""
    return open_session(store, "other")


def selecting(text: str, **options: Any) -> Consumer:
    return Consumer("selecting", selector=Selector(text), **options)


def publish_in(store: Store, *regions: str) -> list[int]:
    """Publish a message for each region."""
    return [publish(store, headers=json.dumps({"region": region})) for region in regions]


def claim_for(store: Store, session: int, consumer: Consumer, **given: Any) -> list[Claimed]:
    return claim(store, session, consumer=consumer, **given)


# Selectors


@pytest.mark.parametrize(
    "text",
    [
        "region = 'eu'",
        "JMSPriority > 4",
        "JMSType LIKE 'order.%'",
        "JMSCorrelationID IS NOT NULL AND AMQSize BETWEEN 1 AND 2 * 10",
        "JMSDestination IN ('orders') AND NOT region <> 'eu'",
    ],
)
def test_a_selector_is_asked_of_headers_and_properties(store: Store, session: int, text: str) -> None:
    publish_in(store, "us")
    headers = json.dumps({"region": "eu"})
    wanted = publish(store, headers=headers, priority=5, type="order.paid", correlation_id="c", body=b"body")
    publish_in(store, "us")

    assert ids(claim_for(store, session, selecting(text))) == [wanted]


def test_what_a_selector_passes_over_stays_for_others_in_its_place(store: Store, session: int) -> None:
    first, wanted, last = publish_in(store, "us", "eu", "us")
    consumer = selecting("region = 'eu'")

    assert ids(claim_for(store, session, consumer)) == [wanted]
    assert claim_for(store, session, consumer) == []
    assert ids(claim(store, session)) == [first, last]


def test_a_selector_chooses_among_what_groups_allow(store: Store, session: int, other: int) -> None:
    declare(store, "grouped", grouping="shared")
    eu, us = json.dumps({"region": "eu"}), json.dumps({"region": "us"})
    first = publish(store, "grouped", headers=eu, group_key="a")
    publish(store, "grouped", headers=eu, group_key="a")
    publish(store, "grouped", headers=us, group_key="b")
    third = publish(store, "grouped", headers=eu, group_key="c")

    found = claim(store, session, "grouped", consumer=selecting("region = 'eu'"))

    assert ids(found) == [first, third]


def test_a_better_consumer_is_left_only_what_it_wants(store: Store, session: int, other: int) -> None:
    better = selecting("region = 'eu'", priority=1)
    store.claims.subscribe(other, "orders", better)
    first, kept, last = publish_in(store, "us", "eu", "us")

    assert ids(claim(store, session)) == [first, last]
    assert ids(claim_for(store, other, better)) == [kept]


def test_a_better_consumer_that_browses_is_left_nothing(store: Store, session: int, other: int) -> None:
    store.claims.subscribe(other, "orders", Consumer("browsing", priority=1, browser=True))

    published = publish(store)

    assert ids(claim(store, session)) == [published]


# Credit


def test_a_message_too_large_for_the_credit_holds_up_what_stands_behind(store: Store, session: int) -> None:
    published = [publish(store, body=b"x" * size) for size in (8, 5, 1)]
    consumer = Consumer("bytes", WindowCredit(None, 10))

    [large] = claim_for(store, session, consumer)
    settle(store, session, large, Verdict.ACCEPT)

    assert large.id == published[0]
    assert ids(claim_for(store, session, consumer)) == published[1:]


def test_prefetch_lets_one_message_of_any_size_through(store: Store, session: int) -> None:
    published = [publish(store, body=b"x" * 100) for _ in range(2)]

    assert ids(claim_for(store, session, Consumer("bytes", PrefetchCredit(5, 10)))) == published[:1]


def test_credit_that_is_spent_ends_a_claim(store: Store, session: int) -> None:
    published = [publish(store, body=b"x" * 4) for _ in range(4)]
    consumer = Consumer("both", SpendingCredit(3, 8))

    assert ids(claim_for(store, session, consumer)) == published[:2]
    consumer.credit.add(0, 100)
    store.claims.subscribe(session, "orders", consumer)
    assert ids(claim_for(store, session, consumer)) == published[2:3]


def test_what_a_worker_died_of_travels_alone_to_a_consumer_too(store: Store, session: int, other: int) -> None:
    declare(store, "few", max_attempts=2)
    [suspect, *_] = [publish(store, "few") for _ in range(3)]
    claim(store, session, "few", credit=1)
    store.sessions.renew(other, Heartbeat(deadline_seconds=1000.0))
    lose_worker(store, session)
    survivor = open_session(store, "survivor")
    consumer = Consumer("plain")

    assert claim(store, survivor, "few", consumer=consumer, slots=0) == []
    assert ids(claim(store, survivor, "few", consumer=consumer)) == [suspect]


# Declining


def test_a_consumer_is_not_woken_for_what_it_has_declined(store: Store, session: int) -> None:
    woken: list[Consumer] = []
    consumer = Consumer("picky", WindowCredit(1), wake=woken.append)
    publish(store)

    [found] = claim_for(store, session, consumer)
    settle(store, session, found, Verdict.DECLINE)

    assert (claim_for(store, session, consumer), woken) == ([], [consumer])


# Waking


@pytest.mark.parametrize("rules", [{}, {"max_in_flight": 5}], ids=["no rules", "rules"])
def test_a_consumer_that_has_found_nothing_is_woken_by_the_next_message(
    store: Store, session: int, rules: dict[str, int]
) -> None:
    declare(store, "ruled", **rules)
    woken: list[Consumer] = []
    consumer = Consumer("idle", wake=woken.append)
    store.claims.subscribe(session, "ruled", consumer)
    publish(store, "ruled")
    while claim(store, session, "ruled", consumer=consumer):
        pass

    publish(store, "ruled")

    assert len(woken) == 2


# Taking back


def take_by_purge(store: Store, claimed: list[int]) -> None:
    assert store.deletions.purge("orders") == len(claimed)


def take_by_cancel(store: Store, claimed: list[int]) -> None:
    assert sorted(store.operations.cancel(claimed)) == sorted(claimed)


def take_by_expiry(store: Store, claimed: list[int]) -> None:
    pass_time(store, 20)
    assert store.maintenance.expire() == len(claimed)


def take_by_ring(store: Store, claimed: list[int]) -> None:
    store.admission.append([a_message() for _ in claimed])


WAYS = [take_by_purge, take_by_cancel, take_by_expiry, take_by_ring]


@pytest.fixture
def lent(store: Store, session: int) -> tuple[Consumer, list[Claimed]]:
    """A stealable consumer, and what it was sent: all that its credit allows."""
    store.deletions.delete_queue("orders")
    declare(store, max_messages=2, overflow="ring")
    for _ in range(2):
        publish(store, ttl_seconds=10)
    consumer = Consumer("patient", WindowCredit(2), stealable=True)
    return consumer, claim_for(store, session, consumer)


@pytest.mark.parametrize("take", WAYS)
def test_what_a_stealable_consumer_has_not_begun_is_taken_back(
    store: Store, session: int, lent: tuple[Consumer, list[Claimed]], take: Callable[[Store, list[int]], None]
) -> None:
    consumer, claimed = lent
    take(store, ids(claimed))

    assert store.queues.counts()["orders"].claimed == 0
    assert store.settlements.begin_settle(session, [(item.id, item.claim) for item in claimed]) == frozenset(
        ids(claimed)
    )
    assert store.settlements.settle(session, [verdict(item, Verdict.ACCEPT) for item in claimed]) == frozenset(
        ids(claimed)
    )
    publish(store)
    publish(store)
    assert len(claim_for(store, session, consumer)) == 2, "the credit is back"


@pytest.mark.parametrize("take", [*WAYS[:3], lambda store, _: store.admission.append([a_message()])])
def test_what_a_stealable_consumer_has_begun_stays_with_it(
    store: Store, session: int, lent: tuple[Consumer, list[Claimed]], take: Callable[[Store, list[int]], None]
) -> None:
    _, [first, second] = lent

    assert store.settlements.begin_settle(session, [(first.id, first.claim)]) == frozenset()
    take(store, [second.id])

    assert (store.operations.cancel([first.id]), store.maintenance.expire()) == ([], 0)
    assert settle(store, session, second, Verdict.ACCEPT) == frozenset({second.id})
    assert settle(store, session, first, Verdict.ACCEPT) == frozenset()


def test_an_expired_message_that_was_begun_does_not_go_to_the_expiry_queue(store: Store, session: int) -> None:
    declare(store, "expired")
    declare(store, "timely", expiry_queue="expired")
    for _ in range(2):
        publish(store, "timely", ttl_seconds=10)
    begun, other = claim(store, session, "timely", consumer=Consumer("patient", stealable=True))
    store.settlements.begin_settle(session, [(begun.id, begun.claim)])

    pass_time(store, 20)

    assert store.maintenance.expire() == 1
    assert [settle(store, session, each, Verdict.ACCEPT) for each in (begun, other)] == [set(), {other.id}]
    assert len(claim(store, session, "expired")) == 1


@pytest.mark.parametrize("take", ["expiry", "ring"])
def test_what_is_taken_back_as_a_dead_letter_goes_to_the_exchange(store: Store, session: int, take: str) -> None:
    declare(store, "ended")
    target = {"dead_letter_exchange": "amq.default", "dead_letter_routing_key": "ended"}
    declare(store, "sending", max_messages=1, overflow="ring", **target)
    publish(store, "sending", ttl_seconds=10)
    [lent] = claim(store, session, "sending", consumer=Consumer("patient", stealable=True))

    if take == "ring":
        store.admission.append([a_message("sending")])
    else:
        pass_time(store, 20)
        assert store.maintenance.expire() == 1

    [ended] = claim(store, session, "ended")
    assert (ended.message_id, json.loads(ended.headers)["x-origin-attempts"]) == (lent.message_id, 0)
    assert settle(store, session, lent, Verdict.ACCEPT) == {lent.id}


def test_what_was_taken_back_and_stays_as_dead_takes_credit_once_after_a_redrive(
    store: Store, session: int
) -> None:
    declare(store, "sending", dead_letter_exchange="amq.default", dead_letter_routing_key="missing")
    publish(store, "sending", ttl_seconds=10)
    consumer = Consumer("patient", WindowCredit(1), stealable=True)
    [lent] = claim(store, session, "sending", consumer=consumer)
    pass_time(store, 20)

    assert store.maintenance.expire() == 1
    assert store.queues.counts()["sending"].dead == 1
    assert store.settlements.begin_settle(session, [(lent.id, lent.claim)]) == {lent.id}
    assert len(store.operations.redrive([lent.id])) == 1
    [again] = claim(store, session, "sending", consumer=consumer)
    assert settle(store, session, lent, Verdict.ACCEPT) == {lent.id}
    assert settle(store, session, again, Verdict.ACCEPT) == set()
    publish(store, "sending")
    assert len(claim(store, session, "sending", consumer=consumer)) == 1


def test_a_queue_is_deleted_unless_a_message_of_it_was_begun(
    store: Store, session: int, lent: tuple[Consumer, list[Claimed]]
) -> None:
    _, [first, second] = lent
    declare(store, "other")
    publish(store, "other")
    [begun] = claim(store, session, "other", consumer=Consumer("patient", stealable=True))
    store.settlements.begin_settle(session, [(begun.id, begun.claim)])

    with pytest.raises(QueueInUse, match="that workers have claimed"):
        store.deletions.delete_queue("other", force=True)
    assert store.deletions.delete_queue("orders", force=True) == 2
    assert [settle(store, session, each, Verdict.ACCEPT) for each in (first, second)] == [{first.id}, {second.id}]


def test_a_settlement_in_a_transaction_gives_the_credit_of_what_was_taken_back(
    store: Store, session: int, lent: tuple[Consumer, list[Claimed]]
) -> None:
    consumer, claimed = lent
    store.deletions.purge("orders")

    with store.database.transaction():
        void = store.settlements.settle(session, [verdict(item, Verdict.ACCEPT) for item in claimed])

    publish(store)
    assert void == frozenset(ids(claimed))
    assert len(claim_for(store, session, consumer)) == 1


def test_what_may_be_taken_back_is_claimed_for_all_who_look(
    store: Store, session: int, lent: tuple[Consumer, list[Claimed]]
) -> None:
    _, claimed = lent

    assert store.queues.counts()["orders"].claimed == 2
    assert ids(store.browser.browse("orders", states=[CLAIMED])) == ids(claimed)
    assert {item.state for item in store.browser.browse("orders", states=[CLAIMED])} == {CLAIMED}


@pytest.mark.parametrize("ends", ["closed", "reaped"])
def test_what_was_taken_back_does_not_return_with_the_session(
    store: Store, session: int, other: int, lent: tuple[Consumer, list[Claimed]], ends: str
) -> None:
    _, [first, second] = lent
    store.operations.cancel([first.id])

    if ends == "closed":
        assert store.sessions.close(session) == 1
    else:
        store.sessions.renew(session, Heartbeat(deadline_seconds=-1.0))
        store.sessions.reap()

    assert ids(claim(store, other)) == [second.id]


# Waking, looking, leaving


def test_a_pause_wakes_no_consumer_and_its_end_wakes_one(store: Store, session: int) -> None:
    woken: list[Consumer] = []
    consumer = Consumer("c", wake=woken.append)
    store.claims.subscribe(session, "orders", consumer)
    store.queues.set_paused("orders", paused=True)
    publish(store)
    assert woken == []
    store.queues.set_paused("orders", paused=False)
    assert woken == [consumer]


def test_an_arrival_wakes_one_consumer_that_wants_it(store: Store, session: int, other: int) -> None:
    woken: list[Consumer] = []
    eu, us = (selecting(f"region = '{region}'", wake=woken.append) for region in ("eu", "us"))
    store.claims.subscribe(session, "orders", eu)
    store.claims.subscribe(other, "orders", us)

    publish_in(store, "us", "us", "asia")

    assert woken == [us]


def test_a_consumer_that_subscribes_takes_a_slot_or_is_woken_when_one_is_free(
    store: Store, session: int, other: int
) -> None:
    declare(store, "limited", max_consumers=1)
    woken: list[Consumer] = []
    sessions = (session, other, open_session(store, "third"))
    first, old, high = (Consumer("c", priority=priority, wake=woken.append) for priority in (5, 3, 7))
    for number, consumer in zip(sessions, (first, old, high), strict=True):
        store.claims.subscribe(number, "limited", consumer)
    woken.clear()

    published = publish(store, "limited")
    assert claim(store, sessions[2], "limited", consumer=high) == []
    store.sessions.close(session)

    assert woken == [first, high]
    assert claim(store, other, "limited", consumer=old) == []
    assert ids(claim(store, sessions[2], "limited", consumer=high)) == [published]


def test_a_browsing_consumer_is_shown_each_message_once_and_takes_none(store: Store, session: int) -> None:
    published = [publish(store) for _ in range(3)]
    browser = Consumer("browser", WindowCredit(2), browser=True)

    first = claim_for(store, session, browser)
    void = store.settlements.settle(session, [verdict(item, Verdict.ACCEPT) for item in first])
    second = claim_for(store, session, browser)

    assert (ids(first), void, ids(second)) == (published[:2], frozenset(published[:2]), published[2:])
    assert store.queues.counts()["orders"].ready == 3


@pytest.mark.parametrize("ends", ["closed", "reaped", "synchronised"])
def test_what_a_browser_was_shown_is_not_touched_when_its_session_ends(
    store: Store, session: int, other: int, ends: str
) -> None:
    published = [publish(store) for _ in range(2)]
    claim_for(store, session, Consumer("browser", browser=True))
    [held] = claim(store, other, credit=1)

    if ends == "closed":
        assert store.sessions.close(session) == 0
    elif ends == "reaped":
        store.sessions.renew(session, Heartbeat(deadline_seconds=-1.0))
        store.sessions.reap()
    else:
        assert store.claims.resync(session, []) == 0

    [second] = claim(store, other)
    assert (second.id, second.suspect, second.redelivered) == (published[1], False, False)
    assert settle(store, other, held, Verdict.ACCEPT) == frozenset()


def test_a_consumer_that_wants_the_queue_for_itself_keeps_others_out(
    store: Store, session: int, other: int
) -> None:
    store.claims.subscribe(session, "orders", Consumer("alone", exclusive=True))

    with pytest.raises(ExclusiveConsumerExists):
        store.claims.subscribe(other, "orders", Consumer("late"))


def test_what_its_consumers_hold_goes_back_with_the_session(store: Store, session: int, other: int) -> None:
    published = publish_in(store, "eu", "us")
    claim_for(store, session, selecting("region = 'us'"))
    claim(store, session)

    assert store.sessions.close(session) == 2
    assert ids(claim(store, other)) == published


def test_a_claim_for_a_consumer_names_one_queue(store: Store, session: int) -> None:
    with pytest.raises(StoreError, match="names the one queue"):
        claim(store, session, "orders", "orders", consumer=Consumer("plain"))


@pytest.mark.parametrize("grouping", ["none", "shared"])
def test_what_a_consumer_accepts_with_the_delivery_is_done(store: Store, session: int, grouping: str) -> None:
    declare(store, "other", grouping=grouping)
    published = [publish(store, "other", group_key="one") for _ in range(2)]
    consumer = Consumer("trusting", WindowCredit(1), auto_accept=True)

    claimed = [claim(store, session, "other", credit=1, consumer=consumer) for _ in range(2)]

    assert [ids(each) for each in claimed] == [[id_] for id_ in published]
    assert (store.sessions.close(session), store.queues.counts()["other"].ready) == (0, 0)


# Targets: several queues on one credit


@pytest.fixture
def letters(store: Store, orders: str) -> str:
    """A second queue."""
    return declare(store, "letters")


def reading(store: Store, session: int, *queues: str, credit: Credit | None = None, **options: Any) -> Target:
    """Return a target of the session that reads these queues."""
    target = Target(credit or WindowCredit(), **options)
    for queue in queues:
        store.claims.subscribe(session, queue, target.consumer(queue))
    return target


def claim_all(store: Store, session: int, target: Target, **given: Any) -> list[Claimed]:
    return store.claims.claim(
        session, ClaimRequest(queues=(), consumer=target, **{"credit": 100, **given})
    ).claimed


@pytest.mark.usefixtures("letters")
def test_the_queues_of_a_target_take_turns(store: Store, session: int) -> None:
    orders = [publish(store) for _ in range(3)]
    letter = publish(store, "letters")
    target = reading(store, session, "orders", "letters")

    assert ids(claim_all(store, session, target, credit=2)) == [orders[0], letter]
    assert ids(claim_all(store, session, target)) == orders[1:]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("options", [{}, {"grouping": "shared"}], ids=["plain", "grouped"])
def test_a_target_has_one_credit_for_all_its_queues(store: Store, session: int, options: dict[str, Any]) -> None:
    woken: list[Target] = []
    declare(store, "other", **options)
    target = reading(store, session, "other", "letters", credit=WindowCredit(1), wake=woken.append)
    first, second = publish(store, "other", group_key="one"), publish(store, "letters")
    [claimed] = claim_all(store, session, target)
    woken.clear()
    assert (claimed.id, claim_all(store, session, target), woken) == (first, [], [])

    settle(store, session, claimed, Verdict.ACCEPT)

    assert woken == [target]
    assert ids(claim_all(store, session, target)) == [second]


@pytest.mark.usefixtures("letters")
def test_a_target_gets_nothing_of_a_paused_queue_and_no_more_than_a_limit(store: Store, session: int) -> None:
    declare(store, "other")
    for queue in ("orders", "letters", "letters", "other", "other"):
        publish(store, queue)
    target = reading(store, session, "orders", "letters", "other")
    store.queues.set_paused("orders", paused=True)

    claimed = claim_all(store, session, target, limits={"letters": 1})

    assert [item.queue_name for item in claimed] == ["letters", "other", "other"]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("grouping", ["none", "shared"])
def test_the_bytes_of_a_claim_for_a_target_are_bounded_over_its_queues(
    store: Store, session: int, grouping: str
) -> None:
    declare(store, "other", grouping=grouping)
    for queue in ("letters", "other", "letters"):
        publish(store, queue, body=b"x" * 10)
    target = reading(store, session, "letters", "other")

    request = ClaimRequest(queues=(), credit=100, max_bytes=20, consumer=target)
    found = [store.claims.claim(session, request) for _ in range(3)]

    assert [(len(each.claimed), each.more) for each in found] == [(2, True), (1, False), (0, False)]


@pytest.mark.usefixtures("letters")
def test_a_suspect_comes_to_a_target_alone(store: Store, session: int) -> None:
    suspect, letter = publish(store), publish(store, "letters")
    claim(store, session)
    lose_worker(store, session)
    session = open_session(store)
    target = reading(store, session, "letters", "orders")

    assert [ids(claim_all(store, session, target)) for _ in range(2)] == [[letter], [suspect]]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("ends", ["closes", "dies"])
def test_what_a_target_holds_goes_back_with_its_session(store: Store, session: int, ends: str) -> None:
    woken: list[Target] = []
    published = [publish(store), publish(store, "letters")]
    target = reading(store, session, "orders", "letters", credit=WindowCredit(2), wake=woken.append)
    claim_all(store, session, target)
    woken.clear()

    if ends == "closes":
        store.sessions.close(session)
    else:
        lose_worker(store, session)

    assert (target.consumers, target.credit.free, woken) == ((), 2, [])
    session = open_session(store)
    again = reading(store, session, "orders", "letters")
    assert [ids(claim_all(store, session, again, credit=1)) for _ in range(2)] == [[id_] for id_ in published]


def test_a_target_reads_a_queue_once(store: Store, session: int) -> None:
    target = reading(store, session, "orders")

    with pytest.raises(AlreadySubscribed):
        store.claims.subscribe(session, "orders", target.consumer("again"))


def test_a_target_goes_on_when_one_of_its_queues_is_deleted(store: Store, session: int, letters: str) -> None:
    target = reading(store, session, "orders", letters)
    letter = publish(store, letters)

    store.deletions.delete_queue("orders")

    assert ids(claim_all(store, session, target)) == [letter]


def test_a_claim_for_a_target_names_no_queue(store: Store, session: int) -> None:
    target = reading(store, session, "orders")

    with pytest.raises(StoreError, match="names no queue"):
        claim(store, session, "orders", consumer=target)
