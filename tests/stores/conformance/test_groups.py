"""Message groups: one message of a group at a time, in order, for all sessions together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.arbiter import LEFT_SECONDS
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import UnknownQueue
from django_mq.stores.records import ClaimRequest
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
    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

ORDERS = frozenset({"orders"})
EITHER = pytest.mark.parametrize("grouping", ["assigned", "balanced", "shared"])


@pytest.fixture
def other(store: Store) -> int:
    """A second worker session."""
    return open_session(store, "other")


@EITHER
def test_a_claim_brings_the_first_of_each_group_and_all_without_one(
    store: Store, session: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    keys = ["a", "a", "b", None, "b", None, "c", ""]
    published = [publish(store, group_key=key) for key in keys]

    assert ids(claim(store, session)) == [published[index] for index in (0, 2, 3, 5, 6, 7)]


@EITHER
def test_a_session_that_runs_them_in_order_has_several_of_a_group(
    store: Store, session: int, other: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    keys = ["a", "a", "b", "a", None, "b"]
    published = [publish(store, group_key=key) for key in keys]

    first = claim(store, session, credit=4, in_order=ORDERS)
    rest = claim(store, session, in_order=ORDERS)

    # The first of each group comes before the second of any.
    assert ids(first) == [published[index] for index in (0, 1, 2, 4)]
    assert ids(rest) == [published[index] for index in (3, 5)]
    assert look(store, other, in_order=ORDERS).claimed == []
    publish(store, group_key="a")
    assert claim(store, other, in_order=ORDERS) == []
    assert claim(store, session) == []


@EITHER
def test_a_group_comes_back_in_order_and_without_a_charge(
    store: Store, session: int, other: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    published = [publish(store, group_key="a") for _ in range(4)]
    [failed, *behind] = claim(store, session, credit=3, in_order=ORDERS)

    back = verdict(failed, Verdict.RELEASE, counted=True, delay_seconds=100)
    store.settlements.settle(session, [back, *(verdict(message, Verdict.RELEASE) for message in behind)])
    early = claim(store, session, in_order=ORDERS) + claim(store, other, in_order=ORDERS)
    pass_time(store, 101)
    again = claim(store, session, in_order=ORDERS)

    assert (early, ids(again)) == ([], published)
    assert [message.attempts for message in again] == [1, 0, 0, 0]


@EITHER
def test_a_group_that_waits_for_a_retry_is_not_run_on_by_its_session(
    store: Store, session: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    [first, *_] = [publish(store, group_key="a") for _ in range(3)]
    [failed, behind] = claim(store, session, credit=2, in_order=ORDERS)
    settle(store, session, failed, Verdict.RELEASE, counted=True, delay_seconds=100)

    assert (failed.id, claim(store, session, in_order=ORDERS)) == (first, [])
    settle(store, session, behind, Verdict.RELEASE)
    assert claim(store, session, in_order=ORDERS) == []


@EITHER
def test_suspects_of_a_group_run_one_by_one_even_in_a_session_that_runs_it_in_order(
    store: Store, session: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    published = [publish(store, group_key="a") for _ in range(3)]
    claim(store, session, in_order=ORDERS)
    lose_worker(store, session)
    heir, seen = open_session(store, "heir"), []

    while found := claim(store, heir, in_order=ORDERS):
        seen.append((ids(found), claim(store, heir, in_order=ORDERS)))
        for message in found:
            settle(store, heir, message, Verdict.ACCEPT)

    assert seen == [([each], []) for each in published]


@EITHER
def test_a_session_with_free_slots_looks_for_other_groups_behind_a_large_one(
    store: Store, session: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    for _ in range(250):  # more than one page of the walk
        publish(store, group_key="a")
    behind = publish(store, group_key="b")

    claimed = claim(store, session, credit=10, slots=2, in_order=ORDERS)

    assert (len(claimed), claimed[-1].id, [message.group_key for message in claimed[:9]]) == (
        10,
        behind,
        ["a"] * 9,
    )


@EITHER
def test_a_group_waits_until_its_message_is_settled(store: Store, session: int, other: int, grouping: str) -> None:
    declare(store, grouping=grouping)
    [first, second] = [publish(store, group_key="a") for _ in range(2)]
    [held] = claim(store, session)

    blocked = claim(store, session) + claim(store, other)
    settle(store, session, held, Verdict.ACCEPT)

    assert (held.id, blocked, ids(claim(store, session))) == (first, [], [second])


@EITHER
def test_a_settlement_and_the_next_of_the_group_travel_together(store: Store, session: int, grouping: str) -> None:
    declare(store, grouping=grouping)
    published = [publish(store, group_key="a") for _ in range(3)]
    held, seen = claim(store, session), []

    while held:
        seen += ids(held)
        settled = [verdict(message, Verdict.ACCEPT) for message in held]
        held = store.claims.settle_and_claim(session, settled, ClaimRequest(queues=("orders",), credit=5)).claimed

    assert seen == published


@EITHER
def test_a_blocked_group_is_passed_over_and_holds_nobody_up(
    store: Store, session: int, other: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    for _ in range(250):  # more than one page of the walk
        publish(store, group_key="a")
    behind = publish(store, group_key="b")
    claim(store, session, credit=1)

    assert ids(claim(store, other)) == [behind]


@EITHER
def test_a_group_whose_message_failed_waits_for_its_next_attempt(
    store: Store, session: int, other: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    first, second = (publish(store, group_key="a") for _ in range(2))
    elsewhere = publish(store, group_key="b")
    [held, _] = claim(store, session)
    settle(store, session, held, Verdict.RELEASE, counted=True, delay_seconds=100)

    early = claim(store, session) + claim(store, other)
    pass_time(store, 101)
    again = claim(store, session)

    assert (early, ids(again)) == ([], [first])
    settle(store, session, again[0], Verdict.ACCEPT)
    assert second in ids(claim(store, session))
    assert elsewhere not in ids(claim(store, session))


@EITHER
def test_a_message_that_is_published_for_later_keeps_nobody_waiting(
    store: Store, session: int, grouping: str
) -> None:
    declare(store, grouping=grouping)
    publish(store, group_key="a", delay_seconds=100)
    now = publish(store, group_key="a")

    assert ids(claim(store, session)) == [now]


@EITHER
def test_a_dead_letter_keeps_nobody_waiting(store: Store, session: int, grouping: str) -> None:
    declare(store, grouping=grouping)
    publish(store, group_key="a")
    after = publish(store, group_key="a")
    [held] = claim(store, session)
    settle(store, session, held, Verdict.DEAD, reason="broken")

    assert ids(claim(store, session)) == [after]


def test_an_assigned_group_stays_with_its_owner_even_when_it_ran_empty(
    store: Store, session: int, other: int
) -> None:
    declare(store, grouping="assigned")
    publish(store, group_key="a")
    [held] = claim(store, session)
    settle(store, session, held, Verdict.ACCEPT)
    later = publish(store, group_key="a")

    assert (claim(store, other), ids(claim(store, session))) == ([], [later])


@pytest.mark.parametrize("in_order", [frozenset(), ORDERS], ids=["one of each", "several"])
def test_a_session_that_comes_later_takes_over_a_share_of_balanced_groups(
    store: Store, session: int, other: int, in_order: frozenset[str]
) -> None:
    declare(store, grouping="balanced")
    rounds = [[publish(store, group_key=key) for key in "abcd"] for _ in range(3)]
    held = claim(store, session, credit=4, in_order=in_order)

    # Two groups are the other's at once, and it waits for what is claimed of them.
    early = look(store, other, in_order=in_order)
    behind = claim(store, session, credit=2, in_order=in_order)
    for message in [*held, *behind]:
        settle(store, session, message, Verdict.ACCEPT)
    others, own = claim(store, other, credit=2), claim(store, session, credit=2)

    assert (ids(held), early.claimed, early.next_due_seconds) == (rounds[0], [], LEFT_SECONDS)
    assert {message.group_key for message in behind} <= set("cd")
    assert [message.group_key for message in others] == ["a", "b"]
    assert [message.group_key for message in own] == ["c", "d"]


def test_a_balanced_group_is_not_taken_from_a_session_that_has_no_more(
    store: Store, session: int, other: int
) -> None:
    declare(store, grouping="balanced")
    publish(store, group_key="a")
    settle(store, session, *claim(store, session), Verdict.ACCEPT)
    publish(store, group_key="b")
    settle(store, other, *claim(store, other), Verdict.ACCEPT)
    later = [publish(store, group_key=key) for key in "ab"]

    assert (ids(claim(store, other)), ids(claim(store, session))) == ([later[1]], [later[0]])


def test_an_assigned_group_is_not_taken_over(store: Store, session: int, other: int) -> None:
    declare(store, grouping="assigned")
    for key in "abcd":
        publish(store, group_key=key)
    for message in claim(store, session):
        settle(store, session, message, Verdict.ACCEPT)
    for key in "abcd":
        publish(store, group_key=key)

    assert (claim(store, other), len(claim(store, session))) == ([], 4)


def test_a_shared_group_goes_to_whoever_comes_first(store: Store, session: int, other: int) -> None:
    declare(store, grouping="shared")
    publish(store, group_key="a")
    [held] = claim(store, session)
    settle(store, session, held, Verdict.ACCEPT)
    later = publish(store, group_key="a")

    assert ids(claim(store, other)) == [later]


@EITHER
def test_a_group_is_free_when_its_owner_leaves(store: Store, session: int, other: int, grouping: str) -> None:
    declare(store, grouping=grouping)
    first, second = (publish(store, group_key="a") for _ in range(2))
    claim(store, session)

    store.sessions.close(session)
    [again] = claim(store, other)
    settle(store, other, again, Verdict.ACCEPT)

    assert (again.id, again.redelivered, ids(claim(store, other))) == (first, True, [second])


@EITHER
def test_the_reaper_frees_the_groups_of_a_dead_worker(store: Store, session: int, grouping: str) -> None:
    declare(store, grouping=grouping)
    first = publish(store, group_key="a")
    publish(store, group_key="a")
    claim(store, session)
    lose_worker(store, session)
    heir = open_session(store, "heir")

    again = claim(store, heir)

    assert [(message.id, message.suspect) for message in again] == [(first, True)]


def test_the_groups_of_one_queue_are_not_those_of_another(store: Store, session: int, other: int) -> None:
    declare(store, grouping="assigned")
    declare(store, "bills", grouping="assigned")
    publish(store, group_key="a")
    elsewhere = publish(store, "bills", group_key="a")
    claim(store, session, "orders")

    assert ids(claim(store, other, "orders", "bills")) == [elsewhere]


def test_a_claim_across_queues_keeps_each_ones_rules(store: Store, session: int) -> None:
    declare(store)
    declare(store, "bills", grouping="shared")
    plain = [publish(store, priority=4) for _ in range(2)]
    grouped = [publish(store, "bills", group_key="a", priority=9) for _ in range(2)]

    assert ids(claim(store, session, "orders", "bills")) == [grouped[0], *plain]


def test_group_keys_are_told_apart_by_every_letter(store: Store, session: int) -> None:
    declare(store, grouping="shared")
    published = [publish(store, group_key=key) for key in ("a", "A", "ä")]

    assert ids(claim(store, session)) == published


def test_shared_groups_do_not_ask_for_the_owners_of_assigned_ones(
    store: Store, session: int, other: int, edit_queue: EditQueue
) -> None:
    declare(store, grouping="assigned")
    publish(store, group_key="a")
    settle(store, session, *claim(store, session), Verdict.ACCEPT)

    edit_queue("orders", grouping="shared")
    second = publish(store, group_key="a")
    [message] = claim(store, other)
    settle(store, other, message, Verdict.ACCEPT)
    edit_queue("orders", grouping="assigned")
    third = publish(store, group_key="a")

    assert (message.id, ids(claim(store, other)), ids(claim(store, session))) == (second, [], [third])


def test_without_grouping_the_group_key_means_nothing(store: Store, orders: str, session: int) -> None:
    published = [publish(store, group_key="a") for _ in range(2)]

    result = look(store, session)

    assert (ids(result.claimed), result.constrained) == (published, False)


def test_a_claim_from_a_queue_with_groups_says_so(store: Store, session: int) -> None:
    declare(store, grouping="shared")
    publish(store)
    found = look(store, session, in_order=ORDERS)

    assert (found.constrained, found.grouped) == (True, ORDERS)


def test_a_suspect_of_a_group_travels_alone(store: Store, session: int) -> None:
    declare(store, grouping="shared")
    first = publish(store, group_key="a")
    claim(store, session)
    lose_worker(store, session)
    publish(store, group_key="b")
    heir = open_session(store, "heir")

    without_slot = claim(store, heir, slots=0)

    assert (without_slot, ids(claim(store, heir))) == ([], [first])


def test_a_queue_that_is_deleted_and_declared_again_has_no_owners(store: Store, session: int, other: int) -> None:
    declare(store, grouping="assigned")
    publish(store, group_key="a")
    [held] = claim(store, session)
    settle(store, session, held, Verdict.ACCEPT)

    store.deletions.delete_queue("orders")
    declare(store, grouping="assigned")
    published = publish(store, group_key="a")

    assert ids(claim(store, other)) == [published]


def test_a_freed_group_finds_a_new_owner_once_nothing_of_it_is_claimed(
    store: Store, session: int, other: int
) -> None:
    declare(store, grouping="assigned")
    declare(store, "bills", grouping="assigned")
    for key in "abc":
        publish(store, group_key=key)
    publish(store, "bills", group_key="a")
    held = [*claim(store, session), *claim(store, session, "bills")]
    later = [publish(store, group_key=key) for key in "abc"]
    bill = publish(store, "bills", group_key="a")

    assert (store.queues.free_groups("orders", "a"), store.queues.free_groups("orders", "nobody's")) == (1, 0)
    early = claim(store, other)
    for message in held:
        settle(store, session, message, Verdict.ACCEPT)

    assert (early, ids(claim(store, other)), ids(claim(store, session, "bills"))) == ([], later[:1], [bill])
    assert store.queues.free_groups("orders") == 3
    assert ids(claim(store, other)) == later[1:]


def test_groups_that_no_longer_stay_with_a_worker_are_not_freed(
    store: Store, session: int, edit_queue: EditQueue
) -> None:
    declare(store, grouping="assigned")
    publish(store, group_key="a")
    claim(store, session)
    edit_queue("orders", grouping="shared")

    assert store.queues.free_groups("orders") == 0


def test_the_groups_of_an_unknown_queue_cannot_be_freed(store: Store) -> None:
    with pytest.raises(UnknownQueue):
        store.queues.free_groups("nowhere")
