"""Steering: what an operator does to messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State, is_dead_letter
from django_mq.errors import UnknownQueue
from tests.stores.builders import a_message, claim, declare, ids, open_session, pass_time, publish, settle
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER

READY = State.READY.value


def one_of_each_state(store: Store) -> dict[str, int]:
    """Put a dead, a claimed, a ready and a scheduled message into ``orders``."""
    session = open_session(store, "holder")
    dead, held = publish(store), publish(store)
    first, _ = claim(store, session)
    settle(store, session, first, Verdict.DEAD, reason="bad")
    return {"dead": dead, "claimed": held, "ready": publish(store), "scheduled": publish(store, delay_seconds=60)}


def test_a_purge_removes_all_that_nobody_holds(store: Store, orders: str) -> None:
    one_of_each_state(store)

    assert store.deletions.purge(orders) == 3

    counts = store.queues.counts()[orders]
    assert (counts.total, counts.claimed) == (1, 1)


def test_a_purge_can_leave_dead_letters(store: Store, orders: str) -> None:
    one_of_each_state(store)

    assert store.deletions.purge(orders, dead=False) == 2

    counts = store.queues.counts()[orders]
    assert (counts.total, counts.claimed, counts.dead) == (2, 1, 1)


def test_a_purge_leaves_other_queues_alone(store: Store, orders: str) -> None:
    publish(store, declare(store, "bills"))

    assert store.deletions.purge(orders) == 0
    assert store.queues.counts()["bills"].ready == 1


def test_purging_an_unknown_queue_is_an_error(store: Store) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.deletions.purge("nowhere")


def test_cancelling_removes_what_nobody_holds(store: Store, orders: str) -> None:
    given = one_of_each_state(store)

    assert len(store.operations.cancel([*given.values(), 10**9])) == 3
    assert store.operations.cancel(list(given.values())) == []
    assert store.queues.counts()[orders].claimed == 1


def test_waiting_messages_are_found_by_their_correlation_id(store: Store, orders: str, session: int) -> None:
    held = publish(store, correlation_id="task")
    claim(store, session, credit=1)
    ready = publish(store, correlation_id="task")
    scheduled = publish(store, correlation_id="other", delay_seconds=60)
    publish(store, correlation_id="unasked")
    publish(store)

    assert waiting_ids(store, ["task", "other", "unknown"]) == [ready, scheduled]
    assert store.browser.correlated([]) == []
    assert held not in waiting_ids(store, ["task"])


def waiting_ids(store: Store, ids: list[str]) -> list[int]:
    return sorted(waiting.id for waiting in store.browser.correlated(ids))


def test_a_waiting_message_is_read_as_it_was_published(store: Store, orders: str) -> None:
    message_id = uuid4()
    text = {"headers": '{"a": 1}', "properties": '{"reply_to": "b"}', "content_type": "application/json"}
    publish(store, message_id=message_id, body=b"\xff\x00", content_encoding="binary", **text)

    [waiting] = store.browser.correlated([str(message_id)])

    assert (waiting.queue_name, waiting.message_id, bytes(waiting.body)) == (orders, message_id, b"\xff\x00")
    assert {name: getattr(waiting, name) for name in text} == text
    assert waiting.content_encoding == "binary"


def test_waiting_messages_are_found_by_their_message_id(store: Store, orders: str, session: int) -> None:
    held, ready, scheduled = uuid4(), uuid4(), uuid4()
    publish(store, message_id=held)
    claim(store, session, credit=1)
    row = publish(store, message_id=ready, correlation_id=str(ready))
    later = publish(store, message_id=scheduled, delay_seconds=60)
    publish(store)

    assert waiting_ids(store, [str(held), str(ready), scheduled.hex, str(uuid4()), "no id"]) == [row, later]


def test_releasing_takes_a_message_from_its_session(store: Store, orders: str, session: int) -> None:
    publish(store)
    [held] = claim(store, session)

    assert len(store.operations.release_held([held.id])) == 1

    assert settle(store, session, held, Verdict.ACCEPT) == {held.id}
    [again] = claim(store, open_session(store))
    assert (again.id, again.attempts, again.redelivered, again.suspect) == (held.id, 0, True, False)


def test_only_held_messages_can_be_released(store: Store, orders: str) -> None:
    given = one_of_each_state(store)

    assert len(store.operations.release_held(list(given.values()))) == 1


def test_moving_puts_unheld_messages_at_the_tail_of_another_queue(store: Store, orders: str, session: int) -> None:
    declare(store, "bills", levels=2)
    there = publish(store, "bills", priority=9)
    published = [publish(store, priority=priority) for priority in (5, 9)]
    moved_ids = {item.id: item.message_id for item in store.browser.browse(orders, states=[READY])}

    assert len(store.operations.move(published, "bills")) == 2

    first, *moved = claim(store, session, "bills")
    assert first.id == there
    assert [item.message_id for item in moved] == [moved_ids[published[1]], moved_ids[published[0]]]
    assert {item.level for item in moved} == {1}
    assert store.queues.counts()[orders].total == 0


def test_moving_restarts_attempts_and_revives_the_dead(store: Store, orders: str, session: int) -> None:
    declare(store, "bills")
    publish(store)
    [message] = claim(store, session)
    settle(store, session, message, Verdict.DEAD, counted=True, reason="bad")

    assert len(store.operations.move([message.id], "bills")) == 1

    [moved] = claim(store, session, "bills")
    [shown] = store.browser.browse("bills", states=[State.CLAIMED.value])
    assert (moved.message_id, moved.attempts, shown.dead_reason) == (message.message_id, 0, "")


def test_a_scheduled_message_stays_scheduled_where_it_is_moved(store: Store, orders: str, session: int) -> None:
    declare(store, "bills")
    scheduled = publish(store, delay_seconds=60)
    [before] = store.browser.browse(orders, states=[State.SCHEDULED.value])

    store.operations.move([scheduled], "bills")

    [after] = store.browser.browse("bills", states=[State.SCHEDULED.value])
    assert (after.deliver_at, after.place) == (before.deliver_at, before.place)


def test_a_due_place_is_left_behind_once_the_message_is_ready(store: Store, orders: str, session: int) -> None:
    declare(store, "bills")
    there = publish(store, "bills")
    due = publish(store, delay_seconds=-5)

    store.operations.move([due], "bills")

    assert [item.id == there for item in claim(store, session, "bills")] == [True, False]


def test_a_held_message_is_not_moved(store: Store, orders: str) -> None:
    declare(store, "bills")
    given = one_of_each_state(store)

    assert len(store.operations.move(list(given.values()), "bills")) == 3
    assert store.queues.counts()[orders].claimed == 1


def test_moving_to_the_same_queue_changes_nothing(store: Store, orders: str, session: int) -> None:
    published = [publish(store), publish(store)]

    assert len(store.operations.move(published[:1], orders)) == 0
    assert ids(claim(store, session)) == published


def test_a_message_that_is_there_already_stays_where_it_is(store: Store, orders: str) -> None:
    declare(store, "bills")
    publish(store)
    [here] = store.browser.browse(orders, states=[READY])
    publish(store, "bills", message_id=here.message_id)

    assert len(store.operations.move([here.id], "bills")) == 0
    assert (store.queues.counts()[orders].ready, store.queues.counts()["bills"].ready) == (1, 1)


def test_of_two_copies_moved_together_one_stays(store: Store, orders: str) -> None:
    for name in ("bills", "target"):
        declare(store, name)
    first = publish(store)
    [here] = store.browser.browse(orders, states=[READY])
    second = publish(store, "bills", message_id=here.message_id)

    assert len(store.operations.move([first, second], "target")) == 1

    counts = store.queues.counts()
    assert (counts["target"].ready, counts[orders].ready + counts["bills"].ready) == (1, 1)


def test_moving_to_an_unknown_queue_is_an_error(store: Store, orders: str) -> None:
    id_ = publish(store)

    with pytest.raises(UnknownQueue, match="nowhere"):
        store.operations.move([id_], "nowhere")

    assert store.queues.counts()[orders].ready == 1


def test_delivering_now_makes_scheduled_messages_ready_in_due_order(
    store: Store, orders: str, session: int
) -> None:
    late, early = publish(store, delay_seconds=200), publish(store, delay_seconds=100)
    ready = publish(store)

    assert len(store.operations.deliver_now([late, early, ready])) == 2

    assert ids(claim(store, session)) == [early, late, ready]


def test_rescheduled_messages_are_delivered_at_their_new_time_in_due_order(
    store: Store, orders: str, session: int
) -> None:
    ready, scheduled = publish(store), publish(store, delay_seconds=9000)
    other = publish(store)
    begun = datetime.now(UTC)

    assert len(store.operations.reschedule([ready], begun + timedelta(seconds=4000))) == 1
    assert len(store.operations.reschedule([scheduled], begun + timedelta(seconds=2000))) == 1

    assert ids(claim(store, session)) == [other]
    pass_time(store, 2001)
    assert ids(claim(store, session)) == [scheduled]
    pass_time(store, 2000)
    assert ids(claim(store, session)) == [ready]


def test_a_message_rescheduled_to_the_past_is_ready_before_those_that_are_not_due(
    store: Store, orders: str, session: int
) -> None:
    first = publish(store)
    later = publish(store, delay_seconds=500)

    assert len(store.operations.reschedule([later], datetime(2020, 1, 1, tzinfo=UTC))) == 1

    assert ids(claim(store, session)) == [later, first]


def test_where_places_are_kept_a_rescheduled_message_stands_where_it_arrived(store: Store, session: int) -> None:
    declare(store, due_order="keep_place")
    published = [publish(store) for _ in range(3)]

    assert len(store.operations.reschedule(published[:1], datetime.now(UTC) + timedelta(hours=1))) == 1
    pass_time(store, 3601)

    assert ids(claim(store, session)) == published


def test_only_what_waits_is_rescheduled(store: Store, orders: str) -> None:
    given = one_of_each_state(store)

    assert len(store.operations.reschedule(list(given.values()), datetime.now(UTC) + timedelta(hours=1))) == 2

    found = store.queues.counts()[orders]
    assert (found.scheduled, found.ready) == (2, 0)


def test_a_value_is_not_rescheduled(store: Store) -> None:
    declare(store, kind="last_value", last_value_key="pair")
    [value] = store.admission.append([a_message(headers='{"pair": "EURUSD"}')])

    assert len(store.operations.reschedule([value], datetime.now(UTC) + timedelta(hours=1))) == 0

    assert store.queues.counts()["orders"].ready == 1


def test_prioritising_puts_messages_at_the_tail_of_their_new_level(
    store: Store, orders: str, session: int
) -> None:
    low = [publish(store, priority=1) for _ in range(3)]
    high = publish(store, priority=8)
    names = {item.id: item.message_id for item in store.browser.browse(orders, states=[READY])}

    assert len(store.operations.prioritise([low[2], low[0]], 8)) == 2

    claimed = claim(store, session)
    assert [item.message_id for item in claimed] == [names[id_] for id_ in (high, low[0], low[2], low[1])]
    assert [(item.priority, item.level) for item in claimed] == [(8, 8)] * 3 + [(1, 1)]


def test_messages_published_after_a_prioritising_stand_behind_it(store: Store, orders: str, session: int) -> None:
    raised = publish(store, priority=1)
    [before] = store.browser.browse(orders, states=[READY])
    store.operations.prioritise([raised], 8)

    latest = publish(store, priority=8)

    claimed = claim(store, session)
    assert (claimed[0].message_id, claimed[1].id) == (before.message_id, latest)


def test_a_message_may_change_its_priority_again_and_again(store: Store, orders: str, session: int) -> None:
    publish(store, priority=1)
    [before] = store.browser.browse(orders, states=[READY])

    for priority in (8, 3, 9):
        [now] = store.browser.browse(orders, states=[READY])
        assert len(store.operations.prioritise([now.id], priority)) == 1

    [claimed] = claim(store, session)
    assert (claimed.message_id, claimed.priority) == (before.message_id, 9)


def test_no_arrival_number_comes_twice_even_after_moves(store: Store, orders: str) -> None:
    publish(store, priority=1)
    store.operations.prioritise(ids(store.browser.browse(orders, states=[READY])), 9)
    [moved] = store.browser.browse(orders, states=[READY])
    store.operations.cancel([moved.id])

    assert publish(store) > moved.id


def test_the_same_priority_again_changes_nothing(store: Store, orders: str, session: int) -> None:
    published = [publish(store, priority=5) for _ in range(2)]

    assert len(store.operations.prioritise(published[:1], 5)) == 0
    assert ids(claim(store, session)) == published


def test_a_scheduled_message_keeps_its_due_place_with_another_priority(
    store: Store, orders: str, session: int
) -> None:
    scheduled = publish(store, priority=1, delay_seconds=10)
    assert len(store.operations.prioritise([scheduled], 4)) == 1
    ordinary = publish(store, priority=4)
    pass_time(store, 11)

    claimed = claim(store, session)

    assert (claimed[1].id, claimed[0].priority) == (ordinary, 4)
    assert claimed[0].place < 0


def test_claimed_and_dead_messages_keep_their_priority(store: Store, orders: str) -> None:
    given = one_of_each_state(store)

    assert len(store.operations.prioritise(list(given.values()), 9)) == 2


def test_a_dead_message_that_is_retried_is_ready_in_its_old_place(store: Store, orders: str, session: int) -> None:
    published = [publish(store) for _ in range(2)]
    first = claim(store, session, credit=1)[0]
    settle(store, session, first, Verdict.DEAD, counted=True, reason="bad")

    assert len(store.operations.redrive(published)) == 1

    claimed = claim(store, session)
    assert ids(claimed) == published
    assert (claimed[0].attempts, claimed[0].suspect) == (0, False)


def test_a_retried_message_does_not_expire_at_once(store: Store, orders: str, session: int) -> None:
    publish(store, ttl_seconds=5)
    [message] = claim(store, session)
    settle(store, session, message, Verdict.DEAD, reason="bad")
    pass_time(store, 60)

    store.operations.redrive([message.id])

    assert store.maintenance.expire() == 0
    assert not claim(store, session)[0].expired


def test_pausing_an_unknown_queue_is_an_error(store: Store) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        store.queues.set_paused("nowhere", paused=True)


def test_nothing_chosen_changes_nothing(store: Store, orders: str) -> None:
    publish(store)

    for verb in ("cancel", "release_held", "deliver_now", "redrive"):
        assert getattr(store.operations, verb)([]) in (0, []), verb
        assert store.queues.counts()[orders].ready == 1, verb


@pytest.mark.parametrize("links", [{"dead_letter_queue": "letters"}, {"dead_letter_exchange": "failures"}])
def test_a_dead_letter_stays_one_in_another_queue_until_it_is_moved(store: Store, links: dict[str, str]) -> None:
    declare(store, "letters")
    declare(store, "orders", **links)
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="letters")
    session = open_session(store)
    publish(store)
    [message] = claim(store, session)
    settle(store, session, message, Verdict.DEAD, counted=True, reason="broken")

    [letter] = store.browser.browse("letters", states=[State.READY])
    assert is_dead_letter(letter.state, letter.dead_reason)
    assert len(store.operations.move([letter.id], "orders")) == 1
    [moved] = store.browser.browse("orders", states=[State.READY])
    assert not is_dead_letter(moved.state, moved.dead_reason)


def test_a_header_is_set_in_unclaimed_messages(store: Store, orders: str) -> None:
    rows = one_of_each_state(store)
    bare = publish(store, headers='{"kept": "a", "retries": 3}')

    assert store.operations.set_header([*rows.values(), bare], "retries", 0) == len(rows)
    [before, after] = (
        {item.id: json.loads(item.headers) for item in store.browser.browse(orders, states=states)}
        for states in ([State.CLAIMED], [READY])
    )
    assert (before[rows["claimed"]], after[bare]) == ({}, {"kept": "a", "retries": 0})
    assert store.operations.set_header([bare], "retries", None) == 1
    assert [
        json.loads(item.headers) for item in store.browser.browse(orders, states=[READY]) if item.id == bare
    ] == [{"kept": "a"}]
