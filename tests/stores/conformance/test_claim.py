"""Claiming from one queue: what is ready now, in strict order, and never more than asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import SessionLost
from tests.stores.builders import (
    claim,
    declare,
    ids,
    look,
    lose_worker,
    open_session,
    pass_time,
    publish,
    settle,
)

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_a_higher_level_comes_first_and_within_a_level_the_earlier_arrival(
    store: Store, orders: str, session: int
) -> None:
    published = {
        (priority, turn): publish(store, priority=priority) for turn in range(2) for priority in (1, 9, 4)
    }

    claimed = claim(store, session)

    assert ids(claimed) == [published[key] for key in [(9, 0), (9, 1), (4, 0), (4, 1), (1, 0), (1, 1)]]


def test_priorities_of_one_level_keep_the_order_of_arrival(store: Store, session: int) -> None:
    declare(store, kind="fifo")
    published = [publish(store, priority=priority) for priority in (1, 9, 4)]

    assert ids(claim(store, session)) == published


def test_a_claim_brings_at_most_its_credit(store: Store, orders: str, session: int) -> None:
    published = [publish(store) for _ in range(5)]

    first, second = claim(store, session, credit=3), claim(store, session, credit=3)

    assert (ids(first), ids(second)) == (published[:3], published[3:])


def test_a_claimed_message_is_not_claimed_again(store: Store, orders: str, session: int) -> None:
    publish(store)
    other = open_session(store, "other")

    assert len(claim(store, session)) == 1
    assert claim(store, other) == []


def test_every_claim_has_a_token_of_its_own(store: Store, orders: str, session: int) -> None:
    publish(store)
    [first] = claim(store, session)
    settle(store, session, first, Verdict.RELEASE)

    [second] = claim(store, session)

    assert (first.id, first.claim) != (second.id, second.claim)
    assert first.id == second.id


def test_a_returned_message_retakes_its_place(store: Store, orders: str, session: int) -> None:
    published = [publish(store) for _ in range(3)]
    middle = claim(store, session)[1]
    settle(store, session, middle, Verdict.RELEASE)
    latest = publish(store)

    claimed = claim(store, session)

    assert ids(claimed) == [published[1], latest]
    assert [message.redelivered for message in claimed] == [True, False]


def test_more_is_true_when_the_credit_cut_the_claim_short(store: Store, orders: str, session: int) -> None:
    for _ in range(3):
        publish(store)

    assert look(store, session, credit=2).more
    assert not look(store, session, credit=2).more


def test_an_empty_queue_has_nothing_and_nothing_more(store: Store, orders: str, session: int) -> None:
    result = look(store, session)

    assert (result.claimed, result.more, result.next_due_seconds) == ([], False, None)


def test_an_unknown_queue_has_nothing(store: Store, session: int) -> None:
    assert claim(store, session, "nowhere") == []


def test_a_claim_takes_due_messages_itself_and_never_before_their_time(
    store: Store, orders: str, session: int
) -> None:
    held = publish(store, delay_seconds=1000)

    pass_time(store, 900)
    early = claim(store, session)
    pass_time(store, 101)
    on_time = claim(store, session)

    assert (early, ids(on_time)) == ([], [held])


def test_a_claim_says_how_long_until_the_earliest_due_message(store: Store, orders: str, session: int) -> None:
    publish(store, delay_seconds=60)
    publish(store, delay_seconds=30)

    due = look(store, session).next_due_seconds

    assert due == pytest.approx(30, abs=15)


def test_a_claim_that_brings_messages_also_says_when_the_next_is_due(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    publish(store, deliver_at=datetime.now(UTC) + timedelta(seconds=1000.25))

    due = look(store, session).next_due_seconds

    assert due == pytest.approx(1000, abs=15)


def test_due_messages_of_a_queue_come_before_ordinary_ones_in_due_order(
    store: Store, orders: str, session: int
) -> None:
    later = publish(store, delay_seconds=20)
    sooner = publish(store, delay_seconds=10)
    ordinary = publish(store)
    pass_time(store, 30)

    assert ids(claim(store, session)) == [sooner, later, ordinary]


def test_a_due_message_does_not_overtake_a_higher_level(store: Store, orders: str, session: int) -> None:
    due = publish(store, priority=3, delay_seconds=10)
    urgent = publish(store, priority=4)
    pass_time(store, 30)

    assert ids(claim(store, session)) == [urgent, due]


def test_a_queue_that_keeps_places_delivers_due_messages_by_arrival(store: Store, session: int) -> None:
    declare(store, due_order="keep_place")
    published = [publish(store, delay_seconds=20), publish(store, delay_seconds=10), publish(store)]
    pass_time(store, 30)

    assert ids(claim(store, session)) == published


def test_a_paused_queue_delivers_nothing_until_it_is_resumed(store: Store, orders: str, session: int) -> None:
    publish(store)
    publish(store, delay_seconds=1)
    store.queues.set_paused(orders, paused=True)
    pass_time(store, 10)

    paused = claim(store, session)
    store.queues.set_paused(orders, paused=False)

    assert (len(paused), len(claim(store, session))) == (0, 2)


def test_a_pause_may_end_by_itself(store: Store, orders: str, session: int) -> None:
    publish(store)
    store.queues.set_paused(orders, paused=True, seconds=1000)

    pass_time(store, 900)
    during = claim(store, session)
    pass_time(store, 101)
    after = claim(store, session)

    assert (len(during), len(after)) == (0, 1)


def test_a_message_past_its_time_to_live_says_so(store: Store, orders: str, session: int) -> None:
    publish(store, ttl_seconds=10)
    publish(store, ttl_seconds=60)
    publish(store)
    pass_time(store, 30)

    assert [message.expired for message in claim(store, session)] == [True, False, False]


def test_a_reaped_session_claims_nothing(store: Store, orders: str, session: int) -> None:
    publish(store)
    lose_worker(store, session)

    with pytest.raises(SessionLost):
        claim(store, session)


def test_a_reaped_session_is_told_so_even_when_nothing_is_there(store: Store, orders: str, session: int) -> None:
    lose_worker(store, session)

    with pytest.raises(SessionLost):
        claim(store, session)


# Bytes


def test_a_claim_brings_no_more_bytes_than_asked_for(store: Store) -> None:
    for rule, queues in product(({}, {"strict": True}), (("orders",), ("orders", "mails"))):
        for name in queues:
            declare(store, name, **(rule if name == "orders" else {}))
        session = open_session(store)
        published = [publish(store, body=b"x" * size) for size in (40, 50, 11, 5, 200, 5)]
        claims = [look(store, session, *queues, max_bytes=100) for _ in range(4)]

        assert [ids(found.claimed) for found in claims] == [
            published[:2],
            published[2:4],
            published[4:5],
            published[5:],
        ]
        assert [len(message.body) for found in claims for message in found.claimed] == [40, 50, 11, 5, 200, 5]
        assert [found.more for found in claims] == [True, True, True, False]
        store.sessions.close(session)
        for name in queues:
            store.deletions.delete_queue(name, force=True)


def test_a_body_larger_than_its_share_of_the_bytes_comes_whole(store: Store, orders: str, session: int) -> None:
    publish(store, body=b"x" * 60)
    publish(store, body=b"y" * 3)

    claimed = claim(store, session, credit=10, max_bytes=100)

    assert [message.body for message in claimed] == [b"x" * 60, b"y" * 3]


def test_a_suspect_is_claimed_alone_however_few_bytes_are_asked_for(
    store: Store, orders: str, session: int
) -> None:
    published = [publish(store, body=b"x" * 60) for _ in range(2)]
    claim(store, session, credit=1)
    lose_worker(store, session)
    heir = open_session(store, "heir")

    assert claim(store, heir, max_bytes=1, slots=0) == []
    assert ids(claim(store, heir, max_bytes=1)) == published[:1]
    assert ids(claim(store, heir, max_bytes=1)) == published[1:]
