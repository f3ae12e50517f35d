"""Full queues: refuse, replace the oldest, drop, or let wait; by messages and by bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import DuplicateMessage, QueueClosed, QueueFull, UnknownQueue
from tests.stores.builders import (
    DEADLINE_SECONDS,
    a_message,
    claim,
    declare,
    ids,
    open_session,
    pass_time,
    publish,
    settle,
)
from tests.stores.conftest import AS_PUBLISHER, needs_rows
from tests.support.maintenance import run_maintenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.models import History
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed
    from tests.stores.conftest import EditQueue

pytestmark = AS_PUBLISHER

READY, CLAIMED = 1, 2


def add(store: Store, count: int = 1, queue: str = "orders", **given: object) -> list[int]:
    """Append messages by the queue's rules."""
    return store.admission.append([a_message(queue, **given) for _ in range(count)])


def present(store: Store, queue: str = "orders") -> list[int]:
    return ids(store.browser.browse(queue, states=[READY]))


# Refusing


@pytest.mark.parametrize("overflow", ["reject", "flow"])
def test_a_full_queue_refuses(store: Store, overflow: str) -> None:
    declare(store, max_messages=3, overflow=overflow)
    add(store, 3)

    with pytest.raises(QueueFull, match="holds 3 of at most 3 messages; 1 more do not fit") as refused:
        add(store)

    assert refused.value.queue == "orders"
    assert store.queues.counts()["orders"].ready == 3


def test_there_is_room_for_all_or_none(store: Store) -> None:
    declare(store, max_messages=3)
    add(store)

    with pytest.raises(QueueFull):
        add(store, 3)
    add(store, 2)

    assert store.queues.counts()["orders"].ready == 3


def test_what_is_full_by_bytes_refuses(store: Store) -> None:
    declare(store, max_bytes=10)
    add(store, body=b"1234567")

    with pytest.raises(QueueFull, match="holds 7 of at most 10 bytes; 4 more do not fit"):
        add(store, body=b"1234")
    add(store, body=b"123")


def test_messages_in_every_state_take_room(store: Store) -> None:
    declare(store, max_messages=4)
    session = open_session(store)
    publish(store)
    publish(store)
    first, _ = claim(store, session)
    settle(store, session, first, Verdict.DEAD, reason="bad")
    publish(store)
    publish(store, delay_seconds=60)

    with pytest.raises(QueueFull):
        add(store)


def test_whoever_takes_messages_away_makes_room(store: Store, session: int) -> None:
    declare(store, max_messages=2)
    add(store, 2)
    for message in claim(store, session):
        settle(store, session, message, Verdict.ACCEPT)

    add(store, 2)
    with pytest.raises(QueueFull):
        add(store)


def test_a_new_limit_counts_what_is_there(store: Store, edit_queue: EditQueue) -> None:
    declare(store, max_messages=100)
    add(store, 5)
    edit_queue("orders", max_messages=None)
    publish(store)
    edit_queue("orders", max_messages=6)

    with pytest.raises(QueueFull):
        add(store)


def test_a_figure_that_is_old_is_counted_anew(store: Store) -> None:
    declare(store, max_messages=4)
    add(store)
    for _ in range(3):
        publish(store)  # by a process that does not know of the limit yet

    pass_time(store, 61)

    with pytest.raises(QueueFull, match="holds 4 of at most 4"):
        add(store)


def test_a_queue_without_limit_has_room(store: Store, orders: str) -> None:
    assert len(set(add(store, 120))) == 120


def test_a_policy_of_a_later_version_refuses_and_stops_nothing_else(store: Store, edit_queue: EditQueue) -> None:
    declare(store, "target", max_messages=1)
    for name in ("orders", "others"):
        declare(store, name, expiry_queue="target")
        add(store, queue=name, ttl_seconds=0.0)
    edit_queue("target", overflow="tomorrow")
    pass_time(store, 1)

    run_maintenance(store)

    assert (store.queues.counts()["orders"].total, store.queues.counts()["others"].total) == (0, 0)
    with pytest.raises(QueueFull):
        add(store, queue="target")


def test_the_other_reasons_to_refuse_are_given_as_well(store: Store, edit_queue: EditQueue) -> None:
    declare(store, max_messages=9)
    message = a_message()
    store.admission.append([message])

    with pytest.raises(UnknownQueue):
        add(store, queue="nowhere")
    with pytest.raises(DuplicateMessage):
        store.admission.append([message])
    edit_queue("orders", closed=True)
    with pytest.raises(QueueClosed):
        add(store)


def test_a_second_try_counts_as_written(store: Store) -> None:
    declare(store, max_messages=1)
    message = a_message()
    store.admission.append([message])

    store.admission.append([message], again=True)

    assert store.queues.counts()["orders"].ready == 1


def test_a_second_try_counts_as_written_although_the_first_dropped_a_message(store: Store, session: int) -> None:
    needs_rows(store)  # nothing is written twice in memory
    declare(store, max_messages=2, overflow="drop")
    messages = [a_message() for _ in range(3)]
    store.admission.append(messages[:1])
    [kept, dropped] = store.admission.append(messages[1:])
    settle(store, session, claim(store, session, credit=1)[0], Verdict.ACCEPT)

    store.admission.append(messages[1:], again=True)

    assert (ids(claim(store, session)), dropped) == ([kept], 0)


def test_a_full_queue_among_several_lets_nothing_in(store: Store, orders: str) -> None:
    declare(store, "narrow", max_messages=1)

    with pytest.raises(QueueFull):
        store.admission.append([a_message(orders), a_message("narrow"), a_message("narrow")])

    assert (store.queues.counts()["orders"].ready, store.queues.counts()["narrow"].ready) == (0, 0)


# Rings


def test_a_ring_keeps_the_latest(store: Store, finished: Callable[[], list[History]]) -> None:
    declare(store, max_messages=3, overflow="ring")

    added = [id_ for _ in range(5) for id_ in add(store)]

    assert present(store) == added[2:]
    assert [row.outcome for row in finished()] == [5, 5]  # replaced


def test_many_messages_at_once_drive_each_other_out_of_a_ring(store: Store) -> None:
    declare(store, max_messages=3, overflow="ring")
    add(store, 2)

    added = add(store, 120)

    assert present(store) == added[-3:]


def test_a_ring_of_bytes_keeps_the_latest(store: Store) -> None:
    declare(store, max_bytes=10, overflow="ring")

    added = [id_ for _ in range(30) for id_ in add(store, body=b"123")]

    assert present(store) == added[-3:]


def test_a_message_larger_than_its_ring_drives_all_others_out(store: Store) -> None:
    declare(store, max_bytes=10, overflow="ring")
    add(store, 25, body=b"")

    assert add(store, body=b"12345678901") == present(store)


def test_a_ring_gives_up_its_lowest_level_first(store: Store) -> None:
    declare(store, max_messages=2, overflow="ring")
    [high] = add(store, priority=9)
    add(store, priority=1)
    [middle] = add(store, priority=5)

    assert present(store) == [high, middle]


def test_the_newcomer_stays_even_at_the_lowest_level(store: Store) -> None:
    declare(store, max_messages=1, overflow="ring")
    add(store, priority=9)

    assert add(store, priority=0) == present(store)


def test_a_ring_leaves_alone_what_is_held_and_what_is_scheduled(store: Store, session: int) -> None:
    declare(store, max_messages=2, overflow="ring")
    [held] = add(store)
    claim(store, session)
    [scheduled] = add(store, delay_seconds=60)

    [third] = add(store)
    [fourth] = add(store)

    assert present(store) == [fourth]
    assert set(ids(store.browser.browse("orders", states=[0, CLAIMED]))) == {held, scheduled}
    assert third != fourth


def test_a_ring_that_is_too_full_of_what_came_back_is_trimmed_by_the_next_message(
    store: Store, session: int
) -> None:
    declare(store, max_messages=2, overflow="ring")
    held = add(store, 2)
    claimed = claim(store, session)
    newer = [*add(store), *add(store)]
    settle(store, session, claimed[0], Verdict.RELEASE)
    store.sessions.close(session)
    too_full = present(store)

    [newest] = add(store)

    assert (too_full, present(store)) == ([*held, newer[-1]], [newer[-1], newest])


def release(store: Store, session: int, claimed: Sequence[Claimed]) -> None:
    for message in claimed:
        settle(store, session, message, Verdict.RELEASE)


def steer(store: Store, session: int, claimed: Sequence[Claimed]) -> None:
    store.operations.release_held(ids(claimed))


def resync(store: Store, session: int, claimed: Sequence[Claimed]) -> None:
    store.claims.resync(session, [])


def close(store: Store, session: int, claimed: Sequence[Claimed]) -> None:
    store.sessions.close(session)


def expire(store: Store, session: int, claimed: Sequence[Claimed]) -> None:
    pass_time(store, DEADLINE_SECONDS + 1)


@pytest.mark.parametrize("come_back", [release, steer, resync, close, expire])
@pytest.mark.parametrize("limit", [{"max_messages": 2}, {"max_bytes": 6}], ids=str)
def test_one_round_of_maintenance_trims_a_ring_that_is_too_full_of_what_came_back(
    store: Store,
    session: int,
    finished: Callable[[], list[History]],
    limit: dict[str, int],
    come_back: Callable[[Store, int, Sequence[Claimed]], None],
) -> None:
    declare(store, overflow="ring", **limit)
    held = add(store, 2, body=b"123")
    claimed = claim(store, session)
    _, newest = [*add(store, body=b"123"), *add(store, body=b"123")]
    come_back(store, session, claimed)

    trimmed = [run_maintenance(store)["trimmed"] for _ in range(2)]

    assert (trimmed, present(store)) == ([1, 0], [held[1], newest])
    assert [row.outcome for row in finished()] == [5, 5]  # replaced


def test_maintenance_leaves_a_ring_the_newest_message_and_what_is_held(store: Store, session: int) -> None:
    declare(store, max_messages=1, overflow="ring")
    [held] = add(store)
    claim(store, session)
    [newest] = add(store, priority=0)

    assert run_maintenance(store)["trimmed"] == 0

    assert (present(store), ids(store.browser.browse("orders", states=[CLAIMED]))) == ([newest], [held])


def test_maintenance_takes_from_a_ring_the_lowest_level_first(store: Store, session: int) -> None:
    declare(store, max_messages=2, overflow="ring")
    [high] = add(store, priority=9)
    add(store, priority=1)
    claimed = claim(store, session)
    [newest] = add(store, priority=0)
    release(store, session, claimed)

    run_maintenance(store)

    assert present(store) == [high, newest]


@pytest.mark.parametrize("overflow", ["reject", "drop", "flow"])
def test_maintenance_trims_rings_alone(store: Store, edit_queue: EditQueue, overflow: str) -> None:
    declare(store, max_messages=3, overflow=overflow)
    added = add(store, 3)
    edit_queue("orders", max_messages=1)

    assert run_maintenance(store)["trimmed"] == 0
    assert present(store) == added


def test_maintenance_trims_a_ring_that_was_made_smaller(store: Store, edit_queue: EditQueue) -> None:
    declare(store, max_messages=50, overflow="ring")
    added = add(store, 50)
    edit_queue("orders", max_messages=2)

    assert run_maintenance(store)["trimmed"] == 48
    assert present(store) == added[-2:]


def test_a_ring_that_was_made_smaller_is_trimmed_by_the_next_message(store: Store, edit_queue: EditQueue) -> None:
    declare(store, max_messages=50, overflow="ring")
    add(store, 50)
    edit_queue("orders", max_messages=2)

    [newest] = add(store)

    assert len(present(store)) == 2
    assert present(store)[-1] == newest


# Dropping


def test_what_is_too_much_is_dropped_in_silence(store: Store) -> None:
    declare(store, max_messages=2, overflow="drop")

    added = add(store, 3)
    again = add(store)

    assert added[:2] == present(store)
    assert (added[2], again) == (0, [0])


def test_a_smaller_message_may_find_room_behind_one_that_was_dropped(store: Store) -> None:
    declare(store, max_bytes=10, overflow="drop")

    kept = store.admission.append([a_message(body=body) for body in (b"12345", b"123456", b"123")])

    assert [bool(id_) for id_ in kept] == [True, False, True]
