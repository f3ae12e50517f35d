"""Publishing one message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.engine.states import State
from django_mq.errors import DuplicateMessage, QueueClosed, UnknownQueue
from tests.stores.builders import a_message, after_a_statement, claim, declare, pass_time, publish
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

pytestmark = AS_PUBLISHER

DUE = datetime(2031, 4, 5, 6, 7, 8, 901234, tzinfo=UTC)
PAST = datetime(2021, 4, 5, 6, 7, 8, 901234, tzinfo=UTC)


# Without times, it is another statement.
@pytest.mark.parametrize("times", [{"deliver_at": PAST, "expires_at": DUE}, {}], ids=["times", "no times"])
def test_every_property_of_a_message_comes_back_as_it_was_stored(
    store: Store, orders: str, session: int, times: dict[str, datetime]
) -> None:
    message = a_message(
        message_id=uuid4(),
        body=b"\x00\xff body",
        content_type="application/x-thing",
        content_encoding="binary",
        headers='{"näme": [1, null]}',
        properties='{"reply_to": "me"}',
        priority=7,
        type="thing",
        correlation_id="c-1",
        group_key="g-1",
        told_to="shop limits",
        **times,
    )

    id_ = store.publications.append(message)
    [claimed] = claim(store, session)

    assert (claimed.id, claimed.queue_name, claimed.attempts, claimed.redelivered) == (id_, orders, 0, False)
    for name in ("message_id", "body", "content_type", "content_encoding", "headers", "properties", "priority"):
        assert getattr(claimed, name) == getattr(message, name)
    for name in ("type", "correlation_id", "group_key", "told_to", "deliver_at", "expires_at"):
        assert getattr(claimed, name) == getattr(message, name)


def test_arrival_numbers_rise(store: Store, orders: str) -> None:
    numbers = [publish(store) for _ in range(3)]

    assert numbers == sorted(set(numbers))


def test_a_message_is_published_now_by_the_store_s_clock(store: Store, orders: str, session: int) -> None:
    publish(store)

    [claimed] = claim(store, session)

    assert abs(claimed.published_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_unknown_queue_refuses_with_its_name(store: Store) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        publish(store, "nowhere")


def test_a_closed_queue_refuses(store: Store, orders: str, edit_queue: EditQueue) -> None:
    edit_queue(orders, closed=True)

    with pytest.raises(QueueClosed, match="orders"):
        publish(store)


def test_a_live_message_with_the_same_id_refuses(store: Store, orders: str) -> None:
    message = a_message()
    store.publications.append(message)

    with pytest.raises(DuplicateMessage, match=str(message.message_id)):
        store.publications.append(message)


def test_a_repeated_publish_of_the_same_message_counts_as_written(store: Store, orders: str) -> None:
    message = a_message()
    store.publications.append(message)

    assert store.publications.append(message, again=True) == 0
    assert store.queues.counts()[orders].ready == 1


def test_a_repeated_publish_that_was_not_written_writes(store: Store, orders: str) -> None:
    assert store.publications.append(a_message(), again=True) > 0


def one_by_one(store: Store, *, again: bool) -> int:
    return store.publications.append(a_message(), again=again)


def timed(store: Store, *, again: bool) -> int:
    return store.publications.append(a_message(delay_seconds=5.0), again=again)


def by_rules(store: Store, *, again: bool) -> int:
    return store.admission.append([a_message()], again=again)[0]


def together(store: Store, *, again: bool) -> int:
    return len(store.publications.append_many([a_message(), a_message()], again=again))


def many(store: Store, *, again: bool) -> int:
    return len(store.publications.append_many([a_message() for _ in range(200)], again=again))


def alike(store: Store, *, again: bool) -> int:
    store.publications.append_alike(a_message(), [uuid4().bytes for _ in range(3)], [b"{}"] * 3)
    return 3


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("append", [one_by_one, timed, by_rules, together, many, alike])
def test_a_queue_that_is_committed_between_the_statements_of_a_publish_takes_the_message(
    store: Store, append: Callable[..., int], again: bool
) -> None:
    if not store.features.durable:
        pytest.skip("features.durable: no statements, nothing comes in between")
    # Where several statements are rolled back, the queue is committed right after that.
    last = "INSERT INTO django_mq_message" if append in {one_by_one, timed} else "ROLLBACK"
    with after_a_statement(store, last, lambda: declare(store)):
        assert append(store, again=again) > 0

    assert (counts := store.queues.counts()["orders"]).ready + counts.scheduled > 0


def test_one_message_may_stand_in_two_queues(store: Store, orders: str) -> None:
    declare(store, "copies")
    message = a_message()

    store.publications.append(message)
    store.publications.append(a_message("copies", message_id=message.message_id))

    assert [store.queues.counts()[name].ready for name in ("copies", orders)] == [1, 1]


#: Levels of a queue to the level of each priority, 0 to 9 (Qpid's formula).
LEVELS = {
    1: [0] * 10,
    2: [0] * 5 + [1] * 5,
    3: [0] * 4 + [1] + [2] * 5,
    4: [0, 0, 0, 0, 1, 2, 3, 3, 3, 3],
    5: [0, 0, 0, 1, 2, 3, 4, 4, 4, 4],
    6: [0, 0, 0, 1, 2, 3, 4, 5, 5, 5],
    7: [0, 0, 1, 2, 3, 4, 5, 6, 6, 6],
    8: [0, 0, 1, 2, 3, 4, 5, 6, 7, 7],
    9: [0, 1, 2, 3, 4, 5, 6, 7, 8, 8],
    10: list(range(10)),
}


def test_the_level_follows_from_the_priority_and_the_number_of_levels(store: Store, session: int) -> None:
    for levels, expected in LEVELS.items():
        queue = declare(store, f"queue of {levels}", levels=levels)
        for priority in range(10):
            publish(store, queue, priority=priority)

        claimed = claim(store, session, queue)

        assert {message.priority: message.level for message in claimed} == dict(enumerate(expected)), levels


def test_a_fifo_queue_has_one_level(store: Store, session: int) -> None:
    declare(store, kind="fifo")
    for priority in range(10):
        publish(store, priority=priority)

    assert {message.level for message in claim(store, session)} == {0}


def test_an_ordinary_message_has_place_zero(store: Store, orders: str, session: int) -> None:
    publish(store)

    assert claim(store, session)[0].place == 0


def test_the_due_place_is_the_due_time_in_microseconds_below_every_arrival(
    store: Store, orders: str, session: int
) -> None:
    publish(store, deliver_at=PAST)

    [claimed] = claim(store, session)

    assert claimed.place == 1617602828901234 - 2**62


def test_a_queue_that_keeps_places_gives_a_due_message_its_place_of_arrival(store: Store, session: int) -> None:
    declare(store, due_order="keep_place")
    publish(store, deliver_at=PAST)

    assert claim(store, session)[0].place == 0


def test_a_message_for_later_is_scheduled(store: Store, orders: str) -> None:
    publish(store, delay_seconds=5)
    publish(store, deliver_at=DUE)

    assert store.queues.counts()[orders].scheduled == 2


def test_a_delay_is_added_to_the_store_s_clock(store: Store, orders: str) -> None:
    publish(store, delay_seconds=0.25)

    [held] = store.browser.browse(orders, states=[State.SCHEDULED.value])

    assert held.deliver_at is not None
    assert held.deliver_at - held.published_at == timedelta(seconds=0.25)


def test_a_time_to_live_is_added_to_the_store_s_clock(store: Store, orders: str, session: int) -> None:
    publish(store, ttl_seconds=0.125)

    [claimed] = claim(store, session)

    assert claimed.expires_at is not None
    assert claimed.expires_at - claimed.published_at == timedelta(seconds=0.125)


def test_a_queue_s_time_to_live_is_given_to_messages_without_one(store: Store, session: int) -> None:
    declare(store, ttl_seconds=90000.5)
    publish(store)
    publish(store, ttl_seconds=1)

    lives = [message.expires_at - message.published_at for message in claim(store, session)]  # type: ignore[operator]

    assert lives == [timedelta(seconds=90000.5), timedelta(seconds=1)]


def test_a_message_without_time_to_live_lives_for_ever(store: Store, orders: str, session: int) -> None:
    publish(store)
    pass_time(store, 50 * 365 * 86400)

    assert store.maintenance.expire() == 0
