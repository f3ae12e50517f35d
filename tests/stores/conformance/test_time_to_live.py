"""How long messages live: what their queue makes of it, and where they go when it is over."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import QueueInUse
from tests.stores.builders import a_message, claim, declare, ids, pass_time, publish, settle, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import History
    from django_mq.stores.base import Store
    from tests.stores.conftest import EditQueue

READY, DEAD = 1, 3
EXPIRED = 2


#: Options of a queue, the time to live that a message is given, and how long it lives.
LIVES: list[tuple[dict[str, float], float | None, float | None]] = [
    ({"min_ttl_seconds": 60.0}, 5.0, 60),
    ({"min_ttl_seconds": 60.0}, 90.0, 90),
    ({"min_ttl_seconds": 60.0}, None, None),
    ({"max_ttl_seconds": 60.0}, 5.0, 5),
    ({"max_ttl_seconds": 60.0}, 90.0, 60),
    ({"max_ttl_seconds": 60.0}, None, 60),
    ({"min_ttl_seconds": 10.0, "max_ttl_seconds": 60.0}, 30.0, 30),
    ({"ttl_seconds": 60.0}, None, 60),
    ({"ttl_seconds": 60.0}, 5.0, 5),
    ({}, None, None),
]


def test_a_queue_bounds_the_time_to_live(store: Store, session: int) -> None:
    for number, (rules, given, lives) in enumerate(LIVES):
        queue = declare(store, f"queue {number}", **rules)
        # One, some, and so many that they are copied.
        store.publications.append(a_message(queue, ttl_seconds=given))
        store.publications.append_many([a_message(queue, ttl_seconds=given) for _ in range(2)])
        store.publications.append_many([a_message(queue, ttl_seconds=given) for _ in range(60)])

        for message in claim(store, session, queue):
            found = message.expires_at and (message.expires_at - message.published_at).total_seconds()
            assert found == (None if lives is None else pytest.approx(lives, abs=0.5)), rules


def test_a_given_end_is_bounded_as_well(store: Store, session: int) -> None:
    declare(store, max_ttl_seconds=60.0)
    publish(store)
    [first] = claim(store, session)

    publish(store, expires_at=first.published_at + timedelta(days=1))

    [second] = claim(store, session)
    assert second.expires_at is not None
    assert (second.expires_at - second.published_at).total_seconds() == pytest.approx(60, abs=0.5)


@pytest.fixture
def two(store: Store) -> None:
    """``orders``, whose expired messages go to ``late``."""
    declare(store, "late")
    declare(store, expiry_queue="late", dead_letter_queue="late")


def late(store: Store) -> list[Any]:
    return store.browser.browse("late", states=[READY])


@pytest.mark.usefixtures("two")
def test_what_expires_goes_to_the_expiry_queue_with_its_origin(
    store: Store, finished: Callable[[], list[History]]
) -> None:
    publish(store, ttl_seconds=5, headers='{"tenant": "a"}')
    publish(store, ttl_seconds=500)
    pass_time(store, 6)

    assert store.maintenance.expire() == 1

    [item] = late(store)
    headers = json.loads(item.headers) if isinstance(item.headers, str) else item.headers
    assert (headers["tenant"], headers["x-origin-queue"], headers["x-dead-reason"]) == ("a", "orders", "expired")
    assert headers["x-origin-attempts"] == 0
    assert store.queues.counts()["orders"].ready == 1
    assert [row.outcome for row in finished()] == [2]


@pytest.mark.usefixtures("two")
def test_what_is_found_expired_by_a_worker_goes_there_too(
    store: Store, session: int, finished: Callable[[], list[History]]
) -> None:
    publish(store, ttl_seconds=5)
    publish(store)
    pass_time(store, 6)
    expired, other = claim(store, session)
    assert expired.expired

    void = store.settlements.settle(
        session,
        [
            verdict(expired, Verdict.EXPIRE),
            verdict(other, Verdict.ACCEPT),
        ],
    )

    assert void == frozenset()
    assert [item.message_id for item in late(store)] == [expired.message_id]
    assert sorted(row.outcome for row in finished()) == [1, 2]


@pytest.mark.usefixtures("two")
def test_a_late_verdict_sends_nothing_to_the_expiry_queue(store: Store, session: int) -> None:
    publish(store, ttl_seconds=5)
    [held] = claim(store, session)
    store.operations.release_held([held.id])

    assert settle(store, session, held, Verdict.EXPIRE) == {held.id}
    assert late(store) == []


@pytest.mark.usefixtures("two")
def test_a_scheduled_message_that_expires_is_ready_there(store: Store, session: int) -> None:
    publish(store, ttl_seconds=5, delay_seconds=60)
    pass_time(store, 6)

    store.maintenance.expire()

    [message] = claim(store, session, "late")
    assert (message.deliver_at, message.expires_at, message.attempts) == (None, None, 0)


@pytest.mark.parametrize("rules", [{"max_messages": 1}, {"closed": True}], ids=str)
def test_what_finds_no_place_in_the_expiry_queue_ends_in_the_history(
    store: Store, edit_queue: EditQueue, rules: dict[str, Any], finished: Callable[[], list[History]]
) -> None:
    declare(store, "late")
    declare(store, expiry_queue="late")
    publish(store, "late")
    edit_queue("late", **rules)
    publish(store, ttl_seconds=5)
    pass_time(store, 6)

    assert store.maintenance.expire() == 1

    assert [row.outcome for row in finished()] == [EXPIRED]
    assert ids(store.browser.browse("orders", states=[READY, DEAD])) == []


@pytest.mark.usefixtures("two")
def test_a_dead_letter_does_not_take_the_way_of_the_expired(store: Store, session: int) -> None:
    declare(store, "dead only", dead_letter_queue="late")
    publish(store, "dead only", ttl_seconds=5)
    pass_time(store, 6)

    store.maintenance.expire()

    assert late(store) == []


def test_an_expiry_queue_in_use_is_not_deleted(store: Store) -> None:
    declare(store, "late")
    declare(store, expiry_queue="late")

    with pytest.raises(QueueInUse, match="dead-letter or expiry queue of 1"):
        store.deletions.delete_queue("late")
