"""How long the message has been waiting that could have been delivered for longest."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery import publisher
from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.records import AGES_READ
from tests.stores.builders import a_message, claim, declare, ids, open_session, pass_time, publish, settle, verdict
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import History
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER

HOUR = 3600.0
MORE = AGES_READ + 50


def age(store: Store, queue: str = "orders") -> tuple[float | None, bool]:
    """Return the age of the oldest message, rounded to minutes, and whether it is exact."""
    counts = store.queues.counts([queue])[queue]
    seconds = counts.oldest_ready_seconds
    return None if seconds is None else round(seconds / 60) * 60, counts.is_oldest_exact


def publish_many(store: Store, count: int, **given: Any) -> None:
    store.publications.append_many([a_message(**given) for _ in range(count)])


def test_due_messages_hide_no_older_ones(store: Store) -> None:
    for in_front, due_order in product((1, MORE), ("due_first", "keep_place")):
        declare(store, due_order=due_order)
        publish_many(store, in_front, delay_seconds=HOUR)
        publish(store)
        pass_time(store, HOUR + 60)
        store.maintenance.promote(1000)

        assert age(store) == (HOUR + 60, in_front == 1), (in_front, due_order)
        store.deletions.delete_queue("orders", force=True)


@pytest.mark.parametrize("in_front", [1, MORE])
def test_messages_that_wait_for_their_next_attempt_no_longer_hide_no_older_ones(
    store: Store, session: int, in_front: int
) -> None:
    declare(store)
    publish_many(store, in_front)
    held = claim(store, session, credit=in_front)
    publish(store)
    publish(store, priority=9)
    store.settlements.settle(session, [verdict(each, Verdict.RELEASE, delay_seconds=HOUR) for each in held])
    pass_time(store, HOUR + 120)
    store.maintenance.promote(1000)

    assert age(store) == (HOUR + 120, in_front == 1)


def test_due_messages_that_came_back_hide_no_older_ones(store: Store, session: int) -> None:
    declare(store)
    publish_many(store, MORE, delay_seconds=HOUR)
    publish(store, delay_seconds=HOUR + 60)
    pass_time(store, HOUR + 120)
    store.maintenance.promote(1000)
    held = claim(store, session, credit=MORE)
    pass_time(store, HOUR)
    store.settlements.settle(session, [verdict(each, Verdict.RELEASE) for each in held])

    assert age(store) == (HOUR + 60, False)


def test_a_message_of_low_priority_is_the_oldest_behind_many_others(store: Store) -> None:
    declare(store)
    publish(store, priority=0)
    pass_time(store, HOUR)
    publish_many(store, MORE, priority=9)
    publish_many(store, MORE, priority=5)

    assert age(store) == (HOUR, False)


def test_the_first_and_the_last_message_of_a_sorted_queue_may_be_the_oldest(store: Store) -> None:
    for weight, others in product((-1000, 1000), (3, MORE)):
        declare(store, kind="fifo", sort_key="weight")
        publisher.append(store, [a_message(headers=json.dumps({"weight": weight}))])
        pass_time(store, HOUR)
        later = range(-others // 2, others // 2)
        publisher.append(store, [a_message(headers=json.dumps({"weight": each})) for each in later])

        assert age(store) == (HOUR, others == 3), (weight, others)
        store.deletions.purge("orders")


def test_any_message_of_a_short_sorted_queue_may_be_the_oldest(store: Store) -> None:
    declare(store, kind="fifo", sort_key="weight")
    publisher.append(store, [a_message(headers=json.dumps({"weight": 0}))])
    pass_time(store, HOUR)
    weights = range(1 - AGES_READ // 2, AGES_READ // 2)
    publisher.append(store, [a_message(headers=json.dumps({"weight": each})) for each in weights])

    assert age(store) == (HOUR, True)


def test_a_scheduled_message_waits_since_it_is_due(store: Store) -> None:
    declare(store)
    publish(store, delay_seconds=HOUR)
    assert age(store) == (None, True)

    pass_time(store, HOUR + 180)
    assert age(store) == (180.0, True)
    store.maintenance.promote(10)
    assert age(store) == (180.0, True)


def released(store: Store, session: int) -> None:
    [held] = claim(store, session)
    pass_time(store, HOUR)
    settle(store, session, held, Verdict.RELEASE)


def session_closed(store: Store, session: int) -> None:
    claim(store, session)
    pass_time(store, HOUR)
    store.sessions.close(session)


def session_expired(store: Store, session: int) -> None:
    claim(store, session)
    pass_time(store, HOUR)
    store.sessions.reap()


def resynchronised(store: Store, session: int) -> None:
    claim(store, session)
    pass_time(store, HOUR)
    store.claims.resync(session, [])


def released_by_an_operator(store: Store, session: int) -> None:
    [held] = claim(store, session)
    pass_time(store, HOUR)
    store.operations.release_held([held.id])


def redriven(store: Store, session: int) -> None:
    [held] = claim(store, session)
    settle(store, session, held, Verdict.DEAD)
    pass_time(store, HOUR)
    store.operations.redrive([held.id])


def moved(store: Store, session: int) -> None:
    declare(store, "others")
    [message] = ids(store.browser.browse("orders", states=[1]))
    store.operations.move([message], "others")
    pass_time(store, HOUR)
    [message] = ids(store.browser.browse("others", states=[1]))
    store.operations.move([message], "orders")


def test_a_message_waits_since_it_came_back(store: Store) -> None:
    ways = (released, session_closed, session_expired, resynchronised, released_by_an_operator, redriven, moved)
    for come_back in ways:
        declare(store)
        publish(store)
        come_back(store, open_session(store))
        pass_time(store, 120)

        assert age(store) == (120, True), come_back.__name__
        store.deletions.purge("orders")


def test_a_message_with_another_priority_has_waited_all_the_time(store: Store) -> None:
    declare(store)
    publish(store)
    pass_time(store, HOUR)
    store.operations.prioritise(ids(store.browser.browse("orders", states=[1])), 9)

    assert age(store) == (HOUR, True)


def test_a_redriven_value_that_a_newer_one_replaces_was_ready_when_it_was_redriven(
    store: Store, session: int, finished: Callable[[], list[History]]
) -> None:
    declare(store, kind="last_value", last_value_key="k")
    store.admission.append([a_message(headers='{"k": "p"}')])
    [held] = claim(store, session)
    settle(store, session, held, Verdict.DEAD)
    store.admission.append([a_message(headers='{"k": "p"}')])
    pass_time(store, HOUR)
    store.operations.redrive([held.id])

    [end] = finished()
    assert (end.finished_at - end.ready_at).total_seconds() < 60
