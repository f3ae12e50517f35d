"""Settling: only the session that holds a message settles it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.stores.records import Failure, SessionInfo, Settlement
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
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import Attempt
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed


@pytest.fixture
def held(store: Store, orders: str, session: int) -> Claimed:
    """A message that the session has claimed."""
    return hold(store, session)


def hold(store: Store, session: int) -> Claimed:
    """Publish a message to ``orders`` and claim it."""
    publish(store, headers='{"a": 1}', priority=6)
    return claim(store, session)[0]


def test_what_a_transaction_published_and_settled_has_not_happened_if_it_fails(
    store: Store, session: int, held: Claimed
) -> None:
    with suppress(ZeroDivisionError), store.database.transaction():
        settle(store, session, held, Verdict.ACCEPT)
        publish(store)
        _ = 1 / 0

    counts = store.queues.counts()["orders"]
    assert (counts.ready, counts.claimed) == (0, 1)
    assert not settle(store, session, held, Verdict.ACCEPT)


def test_an_accepted_message_is_gone(store: Store, session: int, held: Claimed) -> None:
    void = settle(store, session, held, Verdict.ACCEPT)

    assert (void, store.queues.counts()["orders"].total) == (frozenset(), 0)


def test_an_expired_message_is_gone(store: Store, session: int, held: Claimed) -> None:
    void = settle(store, session, held, Verdict.EXPIRE)

    assert (void, store.queues.counts()["orders"].total) == (frozenset(), 0)


def test_a_receipt_of_one_claim_is_no_receipt_of_another_in_the_same_batch(
    store: Store, session: int, held: Claimed
) -> None:
    settle(store, session, held, Verdict.RELEASE)
    [held] = claim(store, session)
    publish(store)
    [other] = claim(store, session)
    crossed = [
        Settlement(held.id, other.claim, Verdict.ACCEPT),
        Settlement(other.id, held.claim, Verdict.ACCEPT),
    ]
    right = [Settlement(item.id, item.claim, Verdict.ACCEPT) for item in (held, other)]

    assert store.settlements.settle(session, crossed) == {held.id, other.id}
    assert (store.settlements.settle(session, right), store.queues.counts()["orders"].total) == (frozenset(), 0)


@pytest.mark.parametrize(("counted", "attempts"), [(False, 0), (True, 1)], ids=["uncounted", "counted"])
def test_a_released_message_is_ready_again(
    store: Store, session: int, held: Claimed, counted: bool, attempts: int
) -> None:
    settle(store, session, held, Verdict.RELEASE, counted=counted)

    [again] = claim(store, session)
    assert (again.id, again.attempts, again.redelivered, again.suspect) == (held.id, attempts, True, False)


def test_attempts_add_up(store: Store, orders: str, session: int) -> None:
    publish(store)

    seen = []
    for _ in range(3):
        [message] = claim(store, session)
        seen.append(message.attempts)
        settle(store, session, message, Verdict.RELEASE, counted=True)

    assert seen == [0, 1, 2]


def test_a_message_released_with_delay_waits_and_then_retakes_its_place(
    store: Store, session: int, held: Claimed
) -> None:
    settle(store, session, held, Verdict.RELEASE, delay_seconds=30)
    later = publish(store, priority=6)

    due = look(store, session, credit=0 + 1).next_due_seconds
    pass_time(store, 31)
    [again] = claim(store, session)

    assert due == pytest.approx(30, abs=15)
    assert (again.id, again.place, again.redelivered) == (held.id, held.place, True)
    assert again.id < later


def test_a_delay_without_an_attempt_is_counted_apart(store: Store, session: int) -> None:
    declare(store)
    publish(store, properties='{"p": 1}')
    publish(store)
    for number in (1, 2):
        for held in claim(store, session):
            settle(store, session, held, Verdict.RELEASE, delay_seconds=5)
            assert (held.attempts, json.loads(held.properties or "{}").get("mq_releases", 0)) == (0, number - 1)
        pass_time(store, 6)
    described, bare = claim(store, session)
    for held in (described, bare):
        settle(store, session, held, Verdict.RELEASE)
    again = claim(store, session)
    for held in again:
        settle(store, session, held, Verdict.RELEASE, counted=True, delay_seconds=5)
    pass_time(store, 6)

    last = claim(store, session)
    assert [json.loads(each.properties or "{}") for each in last] == [
        {"p": 1, "mq_releases": 2},
        {"mq_releases": 2},
    ]
    assert [(each.id, each.attempts, each.place) for each in last] == [
        (described.id, 1, described.place),
        (bare.id, 1, bare.place),
    ]


def test_of_two_returned_messages_the_first_stays_first_whatever_their_delays(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    publish(store)
    first, second = claim(store, session)
    settle(store, session, first, Verdict.RELEASE, delay_seconds=20)
    settle(store, session, second, Verdict.RELEASE, delay_seconds=10)
    pass_time(store, 30)

    assert ids(claim(store, session)) == [first.id, second.id]


def test_a_dead_message_stays_in_place_with_its_reason(store: Store, session: int, held: Claimed) -> None:
    settle(store, session, held, Verdict.DEAD, counted=True, reason="ValueError: no")

    [dead] = store.browser.browse("orders", states=[State.DEAD.value])
    assert (dead.id, dead.attempts, dead.dead_reason) == (held.id, 1, "ValueError: no")
    assert claim(store, session) == []


def test_a_dead_message_moves_to_the_dead_letter_queue_with_its_origin(store: Store, session: int) -> None:
    declare(store, "failures", levels=2)
    declare(store, dead_letter_queue="failures", ttl_seconds=5)
    publish(store, headers='{"a": 1}', priority=6, body=b"kept", properties='{"p": 1}', delay_seconds=1)
    pass_time(store, 2)
    [held] = claim(store, session)

    settle(store, session, held, Verdict.DEAD, counted=True, reason="boom")

    [dead] = claim(store, session, "failures")
    headers = json.loads(dead.headers)
    assert headers.pop("x-dead-at").endswith("+00:00")
    [death] = headers.pop("x-death")
    assert (death["queue"], death["reason"], death["count"]) == ("orders", "rejected", 1)
    first = {"x-first-death-queue": "orders", "x-first-death-reason": "rejected", "x-first-death-exchange": ""}
    origin = {"x-origin-queue": "orders", "x-origin-attempts": 1, "x-dead-reason": "boom"}
    assert headers == {"a": 1, **origin, **first}
    about = {"delivery_info": {"exchange": "", "routing_key": "failures", "queue": "failures"}}
    assert (dead.message_id, dead.body) == (held.message_id, b"kept")
    assert json.loads(dead.properties or "") == {"p": 1, **about}
    assert (dead.attempts, dead.redelivered, dead.level, dead.place) == (0, False, 1, 0)
    assert (dead.expires_at, dead.deliver_at) == (None, None)
    assert store.queues.counts()["orders"].total == 0


def test_dead_letters_arrive_in_the_order_of_their_verdicts_statement(store: Store, session: int) -> None:
    declare(store, "failures", kind="fifo")
    declare(store, dead_letter_queue="failures")
    for _ in range(3):
        publish(store)
    messages = claim(store, session)

    store.settlements.settle(session, [verdict(message, Verdict.DEAD, reason="bad") for message in messages])

    dead = claim(store, session, "failures")
    assert [item.message_id for item in dead] == [item.message_id for item in messages]


def test_of_two_copies_that_die_together_one_moves_and_one_stays(store: Store, session: int) -> None:
    declare(store, "failures")
    message_id = None
    for name in ("a", "b"):
        declare(store, name, dead_letter_queue="failures")
    first = publish(store, "a")
    message_id = store.browser.browse("a", states=[State.READY.value])[0].message_id
    publish(store, "b", message_id=message_id)
    held = claim(store, session, "a", "b")

    store.settlements.settle(session, [verdict(message, Verdict.DEAD, reason="bad") for message in held])

    counts = store.queues.counts()
    assert first in ids(held)
    assert (counts["failures"].ready, counts["a"].dead + counts["b"].dead) == (1, 1)


def test_all_verdicts_of_a_batch_are_written(store: Store, orders: str, session: int) -> None:
    for _ in range(5):
        publish(store)
    accepted, expired, released, delayed, dead = claim(store, session)

    void = store.settlements.settle(
        session,
        [
            verdict(dead, Verdict.DEAD, reason="bad"),
            verdict(accepted, Verdict.ACCEPT),
            verdict(delayed, Verdict.RELEASE, delay_seconds=9),
            verdict(expired, Verdict.EXPIRE),
            verdict(released, Verdict.RELEASE),
        ],
    )

    counts = store.queues.counts()[orders]
    assert void == frozenset()
    assert (counts.scheduled, counts.ready, counts.claimed, counts.dead) == (1, 1, 0, 1)


def test_no_verdicts_change_nothing(store: Store, session: int, held: Claimed) -> None:
    assert store.settlements.settle(session, []) == frozenset()
    assert store.queues.counts()["orders"].claimed == 1


def test_a_verdict_with_another_claim_s_token_is_void(store: Store, session: int, held: Claimed) -> None:
    for how in Verdict:
        void = store.settlements.settle(session, [Settlement(held.id, held.claim - 1, how)])

        assert void == {held.id}, how
        assert store.queues.counts()["orders"].claimed == 1, how


def test_a_verdict_of_another_session_is_void(store: Store, session: int, held: Claimed) -> None:
    other = open_session(store, "other")

    for how in Verdict:
        void = settle(store, other, held, how)

        assert void == {held.id}, how
        assert store.queues.counts()["orders"].claimed == 1, how


def test_a_second_verdict_is_void(store: Store, orders: str, session: int) -> None:
    for how in Verdict:
        held = hold(store, session)
        settle(store, session, held, how)
        before = store.queues.counts()[orders]

        assert settle(store, session, held, how) == {held.id}, how
        assert store.queues.counts()[orders].total == before.total, how
        store.deletions.purge(orders)


def test_a_reaped_session_s_verdict_counts_as_long_as_nothing_becomes_of_the_message(
    store: Store, orders: str
) -> None:
    for how in (each for each in Verdict if each is not Verdict.END):  # that is of a run, and of no message
        session = open_session(store)
        held = hold(store, session)
        lose_worker(store, session)

        assert settle(store, session, held, how) == frozenset(), how
        counts = store.queues.counts()[orders]
        assert (counts.total, counts.ready, counts.dead) == {
            Verdict.RELEASE: (1, 1, 0),
            Verdict.DECLINE: (1, 1, 0),
            Verdict.PARK: (1, 0, 0),
            Verdict.DEAD: (1, 0, 1),
        }.get(how, (0, 0, 0)), how
        store.deletions.purge(orders)


def test_a_late_verdict_counts_once(store: Store, orders: str) -> None:
    for how in Verdict:
        session = open_session(store)
        held = hold(store, session)
        lose_worker(store, session)
        settle(store, session, held, how)

        assert settle(store, session, held, how) == {held.id}, how
        store.deletions.purge(orders)


def test_after_a_late_verdict_a_revived_session_holds_what_it_held(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    publish(store)
    kept, late = claim(store, session)
    lose_worker(store, session)
    info = SessionInfo(name="worker", kind="native", host="host", pid=1, version="1", queues=(orders,))
    store.sessions.revive(session, info, [kept.receipt], deadline_seconds=60)

    assert not settle(store, session, late, Verdict.ACCEPT)
    assert not settle(store, session, kept, Verdict.ACCEPT)


@pytest.mark.parametrize("times", [0, 1], ids=["first claim", "claim of a suspect"])
def test_a_late_failure_counts_as_one_that_is_in_time(store: Store, orders: str, times: int) -> None:
    publish(store)
    for _ in range(times):
        dead = open_session(store)
        claim(store, dead)
        lose_worker(store, dead)
    slow = open_session(store)
    [late] = claim(store, slow)
    lose_worker(store, slow)

    settle(store, slow, late, Verdict.RELEASE, counted=True)

    [again] = claim(store, open_session(store))
    assert (again.attempts, again.suspect) == (1, False)


def test_a_message_that_was_buried_with_its_worker_is_gone_when_its_late_success_comes(store: Store) -> None:
    declare(store, max_attempts=1)
    publish(store)
    for _ in range(2):
        session = open_session(store)
        [late] = claim(store, session)
        lose_worker(store, session)
    assert store.queues.counts()["orders"].dead == 1

    assert settle(store, session, late, Verdict.ACCEPT) == frozenset()
    assert store.queues.counts()["orders"].total == 0


def test_a_late_verdict_with_another_claim_s_token_is_void(store: Store, session: int, held: Claimed) -> None:
    lose_worker(store, session)

    void = store.settlements.settle(session, [Settlement(held.id, held.claim + 1, Verdict.ACCEPT)])

    assert void == {held.id}
    assert store.queues.counts()["orders"].ready == 1


def test_a_late_verdict_travels_with_others_in_one_exchange(store: Store, session: int, held: Claimed) -> None:
    lose_worker(store, session)

    result = store.claims.settle_and_claim(session, [verdict(held, Verdict.ACCEPT)], None)

    assert result.void == frozenset()
    assert store.queues.counts()["orders"].total == 0


@pytest.mark.parametrize("act", ["claimed and given back", "moved there and back", "cancelled", "retried"])
def test_a_late_verdict_is_void_once_something_became_of_the_message(store: Store, act: str) -> None:
    declare(store, max_attempts=1)
    declare(store, "others")
    id_ = publish(store)
    for _ in range(2 if act == "retried" else 1):
        session = open_session(store)
        [late] = claim(store, session)
        lose_worker(store, session)
    match act:
        case "claimed and given back":
            other = open_session(store)
            [again] = claim(store, other)
            settle(store, other, again, Verdict.RELEASE)
        case "moved there and back":
            store.operations.move([id_], "others")
            moved = store.browser.browse("others", states=[State.READY.value])
            store.operations.move([message.id for message in moved], "orders")
        case "cancelled":
            store.operations.cancel([id_])
        case _:
            assert len(store.operations.redrive([id_])) == 1
    before = store.queues.counts()["orders"]

    assert settle(store, session, late, Verdict.ACCEPT) == {late.id}
    assert store.queues.counts()["orders"].total == before.total


def test_a_late_verdict_does_not_touch_what_somebody_else_now_holds(store: Store, orders: str) -> None:
    for how in Verdict:
        session = open_session(store)
        held = hold(store, session)
        lose_worker(store, session)
        heir = open_session(store, "heir")
        [theirs] = claim(store, heir)

        assert settle(store, session, held, how) == {held.id}, how
        assert settle(store, heir, theirs, Verdict.ACCEPT) == frozenset(), how


def test_void_verdicts_do_not_spoil_the_others(store: Store, orders: str, session: int) -> None:
    publish(store)
    publish(store)
    lost, kept = claim(store, session)
    store.operations.release_held([lost.id])

    void = store.settlements.settle(session, [verdict(item, Verdict.ACCEPT) for item in (lost, kept)])

    assert void == {lost.id}
    assert store.queues.counts()[orders].ready == 1


@pytest.mark.parametrize("how", [Verdict.ACCEPT, Verdict.CANCEL, Verdict.EXPIRE])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_expired_message_goes_where_the_same_batch_has_made_room(
    store: Store, session: int, how: Verdict, *, is_first: bool
) -> None:
    declare(store, "late", max_messages=1)
    declare(store, expiry_queue="late")
    message_id = uuid4()
    for queue in ("late", "orders") if is_first else ("orders", "late"):
        publish(store, queue, message_id=message_id)
    [over] = claim(store, session, "orders")
    [copy] = claim(store, session, "late")

    store.settlements.settle(session, [verdict(over, Verdict.EXPIRE), verdict(copy, how)])

    assert [item.message_id for item in store.browser.browse("late", states=[1])] == [message_id]


@pytest.mark.parametrize("how", [Verdict.RELEASE, Verdict.DECLINE, Verdict.DEAD])
@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_comes_of_a_void_verdict_beside_a_valid_one_over_the_same_message(
    store: Store,
    session: int,
    held: Claimed,
    attempts: Callable[[], list[Attempt]],
    how: Verdict,
    *,
    is_first: bool,
) -> None:
    store.operations.release_held([held.id])
    [valid] = claim(store, session)
    void = verdict(held, how, counted=True, failure=Failure("lost"))
    batch = [void, verdict(valid, Verdict.RELEASE)]

    assert store.settlements.settle(session, batch if is_first else batch[::-1]) == frozenset()

    [again] = claim(store, session)
    assert (again.id, again.attempts, attempts()) == (held.id, 0, [])


def test_a_message_that_cannot_be_settled_is_given_back_uncounted_by_the_session_that_holds_it(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    publish(store)
    mine, other = claim(store, session)
    stale = Settlement(other.id, other.claim + 1, Verdict.ACCEPT)

    store.settlements.give_back(session, [verdict(mine, Verdict.ACCEPT), stale])
    store.settlements.give_back(session + 1, [verdict(other, Verdict.ACCEPT)])

    assert store.queues.counts()[orders].claimed == 1
    [again] = claim(store, session)
    assert (again.id, again.redelivered, again.attempts) == (mine.id, True, 0)


def test_what_an_ambiguous_exchange_claimed_in_vain_is_given_back(store: Store, orders: str, session: int) -> None:
    for _ in range(3):
        publish(store)
    known, *lost = claim(store, session)

    assert store.claims.resync(session, [known.id]) == 2

    assert ids(claim(store, session)) == ids(lost)


def test_a_session_that_knows_of_nothing_gets_everything_given_back(
    store: Store, session: int, held: Claimed
) -> None:
    assert store.claims.resync(session, []) == 1
    assert store.claims.resync(session, []) == 0
