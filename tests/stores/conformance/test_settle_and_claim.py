"""Exchanges: verdicts and the next claim in one step, or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import SessionLost, UnsupportedRule
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.stores.records import ClaimRequest, Failure
from tests.stores.builders import claim, declare, ids, lose_worker, pass_time, publish, verdict
from tests.stores.conftest import IN_BOTH_WAYS

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = IN_BOTH_WAYS

#: A claim that asks for due messages too, and one that says that there is none.
either = pytest.mark.parametrize("promote", [True, False], ids=["promoting", "in a hurry"])


@either
def test_a_round_trip_settles_and_claims_in_one_step(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    publish(store)
    [first] = claim(store, session)
    second = publish(store)

    result = store.claims.settle_and_claim(
        session, [verdict(first, Verdict.ACCEPT)], ClaimRequest(queues=(orders,), credit=5, promote=promote)
    )

    assert (ids(result.claimed), result.void) == ([second], frozenset())
    assert store.queues.counts()[orders].total == 1


@either
def test_an_exchange_brings_no_more_bytes_than_asked_for(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    published = [publish(store, body=b"x" * 40) for _ in range(5)]
    request = ClaimRequest(queues=(orders,), credit=10, promote=promote, max_bytes=100)
    settled, found = [], []

    for _ in range(3):
        found.append(store.claims.settle_and_claim(session, settled, request))
        settled = [verdict(message, Verdict.ACCEPT) for message in found[-1].claimed]

    assert [ids(result.claimed) for result in found] == [published[:2], published[2:4], published[4:]]
    assert [result.more for result in found] == [True, True, False]


def test_an_exchange_may_only_settle(store: Store, orders: str, session: int) -> None:
    publish(store)
    [message] = claim(store, session)

    result = store.claims.settle_and_claim(session, [verdict(message, Verdict.ACCEPT)], None)

    assert (result.claimed, result.void, store.queues.counts()[orders].total) == ([], frozenset(), 0)


@either
def test_a_round_trip_of_a_reaped_session_changes_nothing(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    publish(store)
    [message] = claim(store, session)
    lose_worker(store, session)

    with pytest.raises(SessionLost):
        store.claims.settle_and_claim(
            session, [verdict(message, Verdict.ACCEPT)], ClaimRequest(queues=(orders,), credit=5, promote=promote)
        )

    assert store.queues.counts()[orders].ready == 1


@either
def test_an_exchange_tells_which_verdicts_were_void(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    publish(store)
    publish(store)
    kept, lost = claim(store, session)
    store.operations.release_held([lost.id])
    verdicts = [verdict(kept, Verdict.ACCEPT), verdict(lost, Verdict.ACCEPT)]

    result = store.claims.settle_and_claim(
        session, verdicts, ClaimRequest(queues=(orders,), credit=5, promote=promote)
    )

    assert (result.void, ids(result.claimed)) == (frozenset({lost.id}), [lost.id])


def test_an_exchange_with_a_dead_letter_delivers_it_from_its_new_queue(store: Store, session: int) -> None:
    declare(store, "failures")
    declare(store, dead_letter_queue="failures")
    publish(store)
    [message] = claim(store, session)
    dead = verdict(message, Verdict.DEAD, counted=True, reason="boom", failure=Failure("ValueError"))

    result = store.claims.settle_and_claim(session, [dead], ClaimRequest(queues=("orders", "failures"), credit=5))

    assert [(found.queue_name, found.message_id) for found in result.claimed] == [("failures", message.message_id)]


@either
def test_a_store_goes_on_after_an_exchange_that_failed(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    published = publish(store)
    request = ClaimRequest(queues=(orders,), credit=5, promote=promote)
    with pytest.raises(SessionLost):
        store.claims.settle_and_claim(session + 1, [], request)

    assert ids(store.claims.settle_and_claim(session, [], request).claimed) == [published]


@either
def test_an_exchange_over_several_queues_settles_and_claims_by_priority(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    declare(store, "letters")
    publish(store)
    [done] = claim(store, session)
    low, high, next_ = publish(store), publish(store, "letters", priority=9), publish(store, "letters")
    request = ClaimRequest(queues=(orders, "letters"), credit=5, promote=promote)

    result = store.claims.settle_and_claim(session, [verdict(done, Verdict.ACCEPT)], request)

    assert ids(result.claimed) == [high, low, next_]
    assert [message.queue_name for message in result.claimed] == ["letters", "orders", "letters"]


@either
def test_an_exchange_cut_by_its_credit_says_that_there_is_more(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    first, _ = publish(store), publish(store)

    result = store.claims.settle_and_claim(session, [], ClaimRequest(queues=(orders,), credit=1, promote=promote))

    assert (ids(result.claimed), result.more) == ([first], True)


def test_who_wrongly_believes_that_nothing_is_due_gets_it_or_is_told(
    store: Store, orders: str, session: int
) -> None:
    publish(store, delay_seconds=5.0)
    pass_time(store, 6)

    result = store.claims.settle_and_claim(session, [], ClaimRequest(queues=(orders,), credit=5, promote=False))

    assert result.claimed or result.next_due_seconds == 0


@either
def test_an_exchange_tells_when_the_next_message_is_due(
    store: Store, orders: str, session: int, promote: bool
) -> None:
    publish(store, delay_seconds=60.0)

    result = store.claims.settle_and_claim(session, [], ClaimRequest(queues=(orders,), credit=5, promote=promote))

    assert result.next_due_seconds == pytest.approx(60, abs=15)


def test_a_store_that_serves_no_consumers_refuses_them_before_it_writes(
    store: Store, orders: str, session: int
) -> None:
    if store.features.serves_consumers:
        pytest.skip("features.serves_consumers")
    publish(store)
    [held] = claim(store, session)
    publish(store)
    request = ClaimRequest(queues=(orders,), credit=1, consumer=Consumer("plain"))

    with pytest.raises(UnsupportedRule, match="selector"):
        store.claims.subscribe(session, orders, Consumer("plain"))
    with pytest.raises(UnsupportedRule, match="selector"):
        store.claims.claim(session, request)
    with pytest.raises(UnsupportedRule, match="stealable"):
        store.settlements.begin_settle(session, [(held.id, held.claim)])
    with pytest.raises(UnsupportedRule, match="selector"):
        store.claims.settle_and_claim(session, [verdict(held, Verdict.ACCEPT)], request)

    counts = store.queues.counts()[orders]
    assert (counts.ready, counts.claimed) == (1, 1)
