"""How many sessions may receive, how much at once, in what order, and which one is first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import AccessRefused, SessionLost, UnknownQueue
from django_mq.stores.records import ConsumerInfo, Heartbeat
from tests.stores.builders import (
    DEADLINE_SECONDS,
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
    from tests.stores.conftest import EditQueue


@pytest.fixture
def other(store: Store) -> int:
    """A second worker session."""
    return open_session(store, "other")


# Consumer slots


@pytest.mark.parametrize("rule", [{"grouping": "sole"}, {"exclusive": True}, {"max_consumers": 1}])
def test_one_receives_and_the_others_stand_by_until_it_leaves(
    store: Store, session: int, other: int, rule: dict[str, Any]
) -> None:
    declare(store, **rule)
    published = [publish(store) for _ in range(3)]

    [first] = claim(store, session, credit=1)
    settle(store, session, first, Verdict.ACCEPT)
    standing_by = claim(store, other)
    store.sessions.close(session)

    assert (first.id, standing_by, ids(claim(store, other))) == (published[0], [], published[1:])


def test_whoever_looks_at_an_empty_queue_takes_no_seat(store: Store, session: int, other: int) -> None:
    declare(store, grouping="sole")
    claim(store, session)
    published = publish(store)

    assert ids(claim(store, other)) == [published]


def test_a_standby_takes_over_when_the_receiver_is_reaped(store: Store, session: int) -> None:
    declare(store, grouping="sole")
    published = [publish(store) for _ in range(2)]
    claim(store, session, credit=1)
    lose_worker(store, session)
    standby = open_session(store, "standby")

    assert ids(claim(store, standby)) == [published[0]]  # alone, for it is suspect


def test_as_many_receive_as_there_are_seats(store: Store, session: int, other: int) -> None:
    declare(store, max_consumers=2)
    published = [publish(store) for _ in range(4)]
    third = open_session(store, "third")

    got = [ids(claim(store, each, credit=1)) for each in (session, other, third, session)]

    assert got == [[published[0]], [published[1]], [], [published[2]]]


def test_an_exclusive_queue_is_refused_to_a_second_session(store: Store, session: int, other: int) -> None:
    declare(store, exclusive=True)
    publish(store)
    store.claims.subscribe(session, "orders")
    store.claims.subscribe(session, "orders")

    with pytest.raises(AccessRefused, match="another worker has it"):
        store.claims.subscribe(other, "orders")
    assert claim(store, other) == []
    store.sessions.close(session)
    store.claims.subscribe(other, "orders")

    assert len(claim(store, other)) == 1


def test_the_reaper_frees_an_exclusive_queue(store: Store, session: int) -> None:
    declare(store, exclusive=True)
    store.claims.subscribe(session, "orders")
    lose_worker(store, session)

    with pytest.raises(SessionLost):
        store.claims.subscribe(session, "orders")
    store.claims.subscribe(open_session(store, "heir"), "orders")


def test_a_queue_that_is_not_exclusive_refuses_nobody(store: Store, orders: str, session: int, other: int) -> None:
    for each in (session, other):
        store.claims.subscribe(each, orders)

    with pytest.raises(UnknownQueue):
        store.claims.subscribe(session, "nowhere")


# In flight


def test_no_more_are_claimed_at_once_than_the_queue_allows(store: Store, session: int, other: int) -> None:
    declare(store, max_in_flight=3)
    published = [publish(store) for _ in range(5)]

    first, second, third = claim(store, session, credit=2), claim(store, other), claim(store, session)
    settle(store, session, first[0], Verdict.ACCEPT)

    assert [ids(first), ids(second), ids(third)] == [published[:2], published[2:3], []]
    assert ids(claim(store, other)) == published[3:4]


def test_what_a_dead_worker_held_counts_no_longer(store: Store, session: int) -> None:
    declare(store, max_in_flight=1)
    published = [publish(store) for _ in range(2)]
    claim(store, session)
    lose_worker(store, session)
    heir = open_session(store, "heir")

    assert ids(claim(store, heir)) == published[:1]


# Order


def test_a_strict_queue_delivers_in_order(store: Store, session: int, other: int) -> None:
    declare(store, strict=True)
    published = [publish(store) for _ in range(4)]

    assert ids(claim(store, session, credit=2)) == published[:2]
    assert ids(claim(store, other)) == published[2:]


def test_a_paused_queue_with_rules_delivers_nothing(store: Store, session: int) -> None:
    declare(store, strict=True)
    publish(store)
    store.queues.set_paused("orders", paused=True)

    assert claim(store, session) == []


def test_an_unknown_queue_beside_one_with_rules_has_nothing(store: Store, session: int) -> None:
    declare(store, strict=True)
    published = publish(store)

    assert ids(claim(store, session, "nowhere", "orders")) == [published]


# Priority of consumers


def beat(
    store: Store, session: int, priority: int, *, busy: int | None = None, slots: int | None = None, **given: Any
) -> None:
    """Let a session say which consumer it has, and how many of its slots are busy."""
    told = ConsumerInfo(queue_name="orders", priority=priority, **{"credit_limit": 2} | given)
    heartbeat = Heartbeat(deadline_seconds=DEADLINE_SECONDS, busy=busy, slots=slots, consumers=(told,))
    assert store.sessions.renew(session, heartbeat)


def test_a_lesser_consumer_leaves_the_first_messages_to_a_better_one(
    store: Store, session: int, other: int
) -> None:
    declare(store)
    published = [publish(store) for _ in range(5)]
    beat(store, session, 10)
    beat(store, other, 0)

    assert ids(claim(store, other)) == published[2:]
    assert ids(claim(store, session, credit=2)) == published[:2]


def test_a_better_consumer_that_is_busy_keeps_nobody_waiting(store: Store, session: int, other: int) -> None:
    declare(store)
    published = [publish(store) for _ in range(3)]
    beat(store, session, 10)
    beat(store, other, 0)
    claim(store, session, credit=2)

    assert ids(claim(store, other)) == published[2:]


def test_a_better_consumer_that_leaves_keeps_nobody_waiting(store: Store, session: int, other: int) -> None:
    declare(store)
    published = publish(store)
    beat(store, session, 10)
    beat(store, other, 0)
    store.sessions.close(session)

    assert ids(claim(store, other)) == [published]


@pytest.mark.parametrize("rule", [{"grouping": "sole"}, {"exclusive": True}, {"max_consumers": 1}])
def test_nothing_is_kept_for_a_better_consumer_that_has_no_slot(
    store: Store, session: int, other: int, rule: dict[str, Any]
) -> None:
    declare(store, **rule)
    published = [publish(store) for _ in range(3)]
    claim(store, other, credit=1)
    beat(store, session, 10)
    beat(store, other, 0)

    assert (claim(store, session), ids(claim(store, other))) == ([], published[1:])


@pytest.mark.parametrize("rule", [{"grouping": "sole"}, {"max_consumers": 1}])
def test_a_free_slot_is_left_to_a_better_consumer(
    store: Store, session: int, other: int, rule: dict[str, Any]
) -> None:
    declare(store, **rule)
    published = [publish(store) for _ in range(3)]
    beat(store, session, 10)
    beat(store, other, 0)

    left = look(store, other)

    assert (left.claimed, left.next_due_seconds) == ([], 0.5)
    assert ids(claim(store, session)) == published


def test_nothing_is_kept_for_a_better_consumer_that_does_not_own_the_group(
    store: Store, session: int, other: int
) -> None:
    declare(store, grouping="assigned")
    [_, second] = [publish(store, group_key="a") for _ in range(2)]
    [held] = claim(store, other)
    settle(store, other, held, Verdict.ACCEPT)
    beat(store, session, 10)
    beat(store, other, 0)

    assert (claim(store, session), ids(claim(store, other))) == ([], [second])


def test_no_suspect_is_kept_for_a_better_consumer_that_handles_as_much_as_it_can(
    store: Store, session: int, other: int
) -> None:
    declare(store)
    beat(store, session, 10)
    beat(store, other, 0)
    published = publish(store)
    claim(store, session)
    lose_worker(store, session)
    better, lesser = open_session(store, "better"), open_session(store, "lesser")
    beat(store, better, 10, busy=1, slots=1)
    beat(store, lesser, 0)

    assert (claim(store, better, slots=0), ids(claim(store, lesser))) == ([], [published])


def test_what_a_better_consumer_takes_of_its_own_groups_uses_its_credit(
    store: Store, session: int, other: int
) -> None:
    declare(store, grouping="assigned")
    publish(store, group_key="a")
    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)
    [_, behind, last] = [publish(store, group_key=key) for key in ("a", None, None)]
    beat(store, session, 10, credit_limit=1)
    beat(store, other, 0)

    assert ids(claim(store, other)) == [behind, last]


def test_a_better_consumer_comes_first_among_those_in_flight(store: Store, session: int, other: int) -> None:
    declare(store, max_in_flight=3)
    published = [publish(store) for _ in range(5)]
    beat(store, session, 10)
    beat(store, other, 0)

    assert ids(claim(store, other)) == published[2:3]
    assert ids(claim(store, session)) == published[:2]


def test_a_better_consumer_without_a_limit_comes_first(store: Store, session: int, other: int) -> None:
    declare(store)
    published = [publish(store) for _ in range(3)]
    beat(store, session, 10, credit_limit=0)
    beat(store, other, 0)

    assert (claim(store, other), ids(claim(store, session))) == ([], published)


@pytest.mark.parametrize("how", ["stopping", "overdue"])
def test_a_better_consumer_that_is_on_its_way_out_keeps_nobody_waiting(
    store: Store, session: int, other: int, how: str
) -> None:
    declare(store)
    published = publish(store)
    beat(store, session, 10, state="stopping" if how == "stopping" else "interested")
    if how == "overdue":
        pass_time(store, DEADLINE_SECONDS + 1)
    beat(store, other, 0)

    assert ids(claim(store, other)) == [published]


def test_equal_consumers_pay_nothing(store: Store, session: int, other: int) -> None:
    declare(store)
    beat(store, session, 3)
    beat(store, other, 3)
    record = store.queues.find("orders")

    assert record is not None
    assert not record.has_claim_rules


def test_whoever_leaves_messages_to_a_better_consumer_looks_again_soon(
    store: Store, session: int, other: int
) -> None:
    declare(store)
    beat(store, session, 10)
    beat(store, other, 0)
    empty = look(store, other)
    publish(store)

    assert empty.next_due_seconds is None
    assert look(store, other).next_due_seconds == 0.5


# Rules that come later


def test_a_queue_can_be_given_rules(store: Store, session: int, edit_queue: EditQueue) -> None:
    declare(store)
    edit_queue("orders", grouping="shared", max_in_flight=7, max_consumers=2, strict=True, exclusive=True)

    record = store.queues.find("orders")

    assert record is not None
    assert (record.grouping, record.max_in_flight, record.max_consumers) == ("shared", 7, 2)
    assert (record.strict, record.exclusive, record.slots) == (True, True, 1)
