"""Parking: messages that no claim reads until their key is freed, or a time has come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.errors import QueueFull
from django_mq.stores.records import ClaimRequest, Parked
from tests.stores.builders import (
    a_message,
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

    from django_mq.models import History
    from django_mq.stores.base import Store

PARKED = State.PARKED.value


def publish_and_park(store: Store, *numbers: int, key: str = "a", seconds: float | None = None) -> list[int]:
    """Publish as many messages as the last number says; park those with these numbers, from 1 on."""
    rows = [publish(store) for _ in range(max(numbers))]
    chosen = [rows[number - 1] for number in numbers]
    assert store.parking.park([Parked(row, key, seconds) for row in chosen]) == frozenset(chosen)
    return rows


def parked(store: Store, name: str = "orders") -> int:
    return store.queues.counts()[name].parked


def test_a_claim_passes_parked_messages(store: Store, orders: str, session: int) -> None:
    rows = publish_and_park(store, 1, 2, 4)

    found = look(store, session)

    assert ids(found.claimed) == [rows[2]]
    assert found.next_due_seconds is None


def test_only_ready_messages_are_parked(store: Store, orders: str, session: int) -> None:
    held = publish(store)
    claim(store, session)
    scheduled, ready = publish(store, delay_seconds=60), publish(store)

    answer = store.parking.park([Parked(row, "a") for row in (held, scheduled, ready, 10**9)])

    assert answer == {ready}
    assert store.parking.park([Parked(ready, "b")]) == frozenset()
    assert store.parking.park([]) == frozenset()
    counts = store.queues.counts()[orders]
    assert (counts.claimed, counts.scheduled, counts.ready, counts.parked, counts.total) == (1, 1, 0, 1, 3)


def test_freeing_a_key_brings_its_first_messages_back_in_order(store: Store, orders: str, session: int) -> None:
    low, high = publish(store, priority=1), publish(store, priority=9)
    rows = [low, high, publish(store), publish(store)]
    store.parking.park([Parked(row, "a") for row in rows[:3]] + [Parked(rows[3], "b")])

    assert [store.parking.free(orders, key, limit) for key, limit in (("a", 2), ("c", 5))] == [2, 0]
    assert store.parking.free(declare(store, "bills"), "a", 5) == 0
    assert store.parking.free("nowhere", "a", 5) == 0

    assert ids(claim(store, session)) == [high, rows[2]]
    assert store.parking.free(orders, "a", 5) == 1
    assert ids(claim(store, session)) == [low]


def test_a_freed_message_stands_before_those_that_came_after_it(store: Store, orders: str, session: int) -> None:
    first, second = publish_and_park(store, 1, 2)
    third = publish(store)

    store.parking.free(orders, "a", 2)

    found = claim(store, session)
    assert ids(found) == [first, second, third]
    assert [(item.attempts, item.redelivered) for item in found] == [(0, False)] * 3


def test_maintenance_frees_messages_whose_time_has_come(store: Store, orders: str, session: int) -> None:
    soon, late, never = (
        publish_and_park(store, 1, key=key, seconds=seconds)[0]
        for key, seconds in (("a", 10), ("a", 60), ("a", None))
    )

    assert store.maintenance.promote() == 0
    pass_time(store, 11)
    assert store.maintenance.due_duties().get("promote", True)
    assert store.maintenance.promote() == 1
    assert ids(claim(store, session)) == [soon]
    pass_time(store, 10**6)
    assert store.parking.free_due(5, ["nowhere"]) == 0
    assert store.parking.free_due(5, [orders]) == 1
    assert store.parking.free_due(5) == 0

    assert store.parking.free(orders, "a", 5) == 1
    assert ids(claim(store, open_session(store))) == [late, never]


def test_a_claim_by_rules_frees_what_is_due_and_says_when_to_look_again(store: Store) -> None:
    declare(store, max_in_flight=10)
    session = open_session(store)
    [row] = publish_and_park(store, 1, seconds=10)

    before = look(store, session)
    pass_time(store, 11)
    after = look(store, session)

    assert before.claimed == []
    assert before.next_due_seconds is not None
    assert 0 < before.next_due_seconds <= 10
    assert ids(after.claimed) == [row]


@pytest.mark.parametrize("seconds", [0.0, 10.0], ids=["until its key is freed", "for a time"])
def test_a_settlement_parks_uncounted(store: Store, orders: str, session: int, seconds: float) -> None:
    row = publish(store)
    [held] = claim(store, session)

    assert settle(store, session, held, Verdict.PARK, park_key="a", delay_seconds=seconds) == frozenset()
    assert settle(store, session, held, Verdict.ACCEPT) == {row}
    assert (claim(store, session), parked(store)) == ([], 1)

    pass_time(store, 11)
    assert store.parking.free_due(5) == (seconds > 0)
    assert store.parking.free(orders, "a", 5) == (seconds == 0)
    [again] = claim(store, session)
    assert (again.attempts, again.redelivered, again.suspect) == (0, True, False)


def test_a_settlement_and_the_next_claim_are_one_transaction(store: Store, orders: str, session: int) -> None:
    publish(store)
    second = publish(store)
    [held] = claim(store, session, credit=1)

    parking = [verdict(held, Verdict.PARK, park_key="a")]
    result = store.claims.settle_and_claim(session, parking, ClaimRequest(queues=(orders,), credit=5))

    assert (ids(result.claimed), result.void, parked(store)) == ([second], frozenset(), 1)


def test_a_suspect_that_is_parked_stays_one(store: Store, orders: str) -> None:
    publish(store)
    claim(store, dead := open_session(store))
    lose_worker(store, dead)
    session = open_session(store)
    [suspect] = claim(store, session)

    settle(store, session, suspect, Verdict.PARK, park_key="a")
    store.parking.free(orders, "a", 1)

    [again] = claim(store, session)
    assert (again.suspect, again.attempts) == (True, suspect.attempts)


def test_a_parked_message_leaves_its_group_and_the_limit_in_flight(store: Store) -> None:
    declare(store, grouping="sticky", max_in_flight=1)
    session, other = open_session(store), open_session(store)
    publish(store, group_key="g")
    second = publish(store, group_key="g")
    [held] = claim(store, session)

    settle(store, session, held, Verdict.PARK, park_key="a")
    store.queues.free_groups("orders")

    assert ids(claim(store, other)) == [second]


def test_parked_messages_expire(
    store: Store, orders: str, session: int, finished: Callable[[], list[History]]
) -> None:
    declare(store, "old")
    declare(store, "bills", expiry_queue="old")
    rows = [publish(store, name, ttl_seconds=10) for name in (orders, "bills")]
    store.parking.park([Parked(row, "a") for row in rows])

    assert store.maintenance.expire() == 0
    pass_time(store, 11)
    assert store.maintenance.due_duties().get("expire", True)
    assert store.maintenance.expire() == 2

    assert [(name, counts.total) for name, counts in store.queues.counts().items()] == [
        ("bills", 0),
        ("old", 1),
        (orders, 0),
    ]
    assert sorted(item.queue_name for item in finished()) == ["bills", orders]
    assert len(claim(store, session, "old")) == 1


def test_operators_take_parked_messages(store: Store, orders: str, session: int) -> None:
    now, moved, cancelled, purged = publish_and_park(store, 1, 2, 3, 4, seconds=60)
    declare(store, "bills")

    [delivered] = store.operations.deliver_now([now])
    [gone] = store.operations.move([moved], "bills")
    assert store.operations.cancel([cancelled]) == [cancelled]
    assert (delivered.id, delivered.new_id, gone.id) == (now, now, moved)
    assert ids(claim(store, session)) == [now]
    assert ids(claim(store, session, "bills")) == [gone.new_id]
    assert [row.id for row in store.browser.browse(orders, states=[PARKED])] == [purged]
    assert store.deletions.purge(orders) == 1
    assert parked(store) == 0


def test_operators_give_parked_messages_another_time_or_priority(store: Store, orders: str, session: int) -> None:
    later, now, urgent, _ = publish_and_park(store, 1, 2, 3, 4, seconds=60)
    soon = datetime.now(UTC) + timedelta(seconds=600)

    assert [each.id for each in store.operations.reschedule([later], soon)] == [later]
    assert [each.id for each in store.operations.reschedule([now], soon - timedelta(seconds=900))] == [now]
    [moved] = store.operations.prioritise([urgent], 9)

    assert ids(claim(store, session)) == [moved.new_id, now]
    assert (parked(store), store.queues.counts()[orders].scheduled) == (1, 1)
    pass_time(store, 601)
    assert later in ids(claim(store, open_session(store)))


def test_deleting_a_queue_sends_parked_messages_to_its_dead_letter_queue(store: Store, session: int) -> None:
    declare(store, "dead")
    declare(store, dead_letter_queue="dead")
    publish_and_park(store, 1)

    assert store.deletions.delete_queue("orders", force=True) == 1

    assert len(claim(store, session, "dead")) == 1


def test_parked_messages_count_for_the_limit_of_their_queue(store: Store) -> None:
    declare(store, max_messages=2)
    publish_and_park(store, 1, 2)

    with pytest.raises(QueueFull):
        store.admission.append([a_message()])


def test_a_later_value_replaces_a_parked_one(store: Store, session: int) -> None:
    declare(store, last_value_key="k")
    [old] = store.admission.append([a_message(headers='{"k": "v"}')])
    store.parking.park([Parked(old, "a")])

    [new] = store.admission.append([a_message(headers='{"k": "v"}')])

    assert parked(store) == 0
    assert ids(claim(store, session)) == [new]


def test_what_a_late_worker_finished_is_not_run_again(store: Store, orders: str, session: int) -> None:
    publish(store)
    [held] = claim(store, session)
    lose_worker(store, session)
    store.parking.park([Parked(held.id, "a")])

    assert settle(store, session, held, Verdict.ACCEPT) == frozenset()
    assert store.queues.counts()[orders].total == 0


def test_a_long_or_strange_key_is_stored(store: Store, orders: str) -> None:
    for key in ("", "k" * 10_000_000, "a\x00b", "\ud800", "naïve 'key' %s"):
        publish_and_park(store, 1, key=key)
        assert store.parking.free(orders, key, 5) == 1
