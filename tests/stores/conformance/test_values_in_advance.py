"""Last values in advance: the greatest (due time, arrival) of a key holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.sql import last_values
from tests.stores.builders import a_message, claim, declare, ids, look, pass_time, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import History
    from django_mq.stores.base import Store

SCHEDULED, READY = 0, 1
REPLACED = 5


@pytest.fixture(params=["due_first", "keep_place"])
def prices(request: pytest.FixtureRequest, store: Store) -> str:
    return declare(store, "prices", kind="last_value", last_value_key="sku", due_order=request.param)


def put(store: Store, body: str, sku: str = "apple", **given: Any) -> None:
    store.admission.append([a_message("prices", headers=json.dumps({"sku": sku}), body=body.encode(), **given)])


def bodies(store: Store, *states: int) -> list[str]:
    return [message.body.decode() for message in store.browser.browse("prices", states=states or (READY,))]


def claimed(store: Store, session: int) -> list[str]:
    return [message.body.decode() for message in claim(store, session, "prices")]


def test_a_value_in_advance_replaces_others_when_it_is_due(
    store: Store, prices: str, session: int, finished: Callable[[], list[History]]
) -> None:
    put(store, "early", delay_seconds=10)
    put(store, "now")
    assert (bodies(store), bodies(store, SCHEDULED)) == (["now"], ["early"])

    pass_time(store, 20)

    assert claimed(store, session) == ["early"]
    assert [row.outcome for row in finished()] == [REPLACED]


def test_a_value_that_is_published_after_one_was_due_is_the_later_one(
    store: Store, prices: str, session: int
) -> None:
    put(store, "early", delay_seconds=10)
    pass_time(store, 20)
    put(store, "last")

    assert bodies(store) == ["last"]
    assert (claimed(store, session), bodies(store, SCHEDULED)) == (["last"], [])


def test_a_value_replaces_one_that_is_due_and_has_not_arrived(
    store: Store, prices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_values, "PROMOTE_LIMIT", 1)
    put(store, "pear", sku="pear", delay_seconds=5)
    put(store, "early", delay_seconds=10)
    pass_time(store, 20)

    put(store, "last")

    assert (sorted(bodies(store)), bodies(store, SCHEDULED)) == (["last", "pear"], [])


def test_of_two_values_the_one_that_is_due_later_holds(store: Store, prices: str, session: int) -> None:
    put(store, "second", delay_seconds=20)
    put(store, "first", delay_seconds=10)

    pass_time(store, 15)
    assert store.maintenance.promote() == 1
    assert bodies(store) == ["first"]
    pass_time(store, 10)

    assert claimed(store, session) == ["second"]


def test_of_two_values_due_at_one_instant_the_later_arrival_holds(store: Store, prices: str, session: int) -> None:
    due = datetime.now(UTC) + timedelta(seconds=10)
    for body in ("first", "second"):
        put(store, body, deliver_at=due)
    pass_time(store, 20)

    assert claimed(store, session) == ["second"]


def test_other_keys_are_left_alone(store: Store, prices: str, session: int) -> None:
    put(store, "pear", sku="pear")
    put(store, "early", delay_seconds=10)
    put(store, "none", sku="", delay_seconds=10)
    pass_time(store, 20)

    assert sorted(claimed(store, session)) == ["early", "none", "pear"]


def test_a_value_that_a_worker_holds_is_replaced_when_it_comes_back(
    store: Store, prices: str, session: int
) -> None:
    put(store, "now")
    put(store, "early", delay_seconds=10)
    [held] = claim(store, session, "prices")
    pass_time(store, 20)
    [early] = claim(store, session, "prices")

    settle(store, session, held, Verdict.RELEASE)
    assert (early.body, bodies(store, READY, SCHEDULED)) == (b"early", [])


def test_a_value_in_advance_that_failed_is_still_the_latest(store: Store, prices: str, session: int) -> None:
    put(store, "early", delay_seconds=10)
    put(store, "now")
    pass_time(store, 20)
    [early] = claim(store, session, "prices")
    settle(store, session, early, Verdict.RELEASE, delay_seconds=10, counted=True)
    pass_time(store, 20)

    assert claimed(store, session) == ["early"]


def test_a_value_in_advance_that_failed_is_replaced_at_once(store: Store, prices: str, session: int) -> None:
    put(store, "early", delay_seconds=10)
    pass_time(store, 20)
    [early] = claim(store, session, "prices")
    settle(store, session, early, Verdict.RELEASE, delay_seconds=10, counted=True)

    put(store, "now")

    assert bodies(store, READY, SCHEDULED) == ["now"]


def test_a_value_can_be_delivered_before_its_time(store: Store, prices: str) -> None:
    put(store, "early", delay_seconds=1000)
    put(store, "now")

    assert len(store.operations.deliver_now(ids(store.browser.browse("prices", states=[SCHEDULED])))) == 1

    assert bodies(store, READY, SCHEDULED) == ["early"]


def test_values_delivered_together_were_all_ready_before_one_replaces_the_others(
    store: Store, prices: str, session: int, finished: Callable[[], list[History]]
) -> None:
    put(store, "early", delay_seconds=1000)
    put(store, "retrying")
    [retrying] = claim(store, session, "prices")
    settle(store, session, retrying, Verdict.RELEASE, delay_seconds=1000)

    assert len(store.operations.deliver_now(ids(store.browser.browse("prices", states=[SCHEDULED])))) == 2

    [row] = finished()
    assert row.ready_at is not None
    assert (bodies(store), row.outcome) == (["early"], REPLACED)
    assert row.ready_at <= row.finished_at


def test_a_value_in_advance_of_another_priority_replaces_nothing_before_its_time(
    store: Store, prices: str
) -> None:
    put(store, "early", delay_seconds=10)
    store.operations.prioritise([each.id for each in store.browser.browse("prices", states=(SCHEDULED,))], 9)

    put(store, "now")

    assert (bodies(store), bodies(store, SCHEDULED)) == (["now"], ["early"])


def test_a_value_in_advance_can_be_cancelled(store: Store, prices: str, session: int) -> None:
    put(store, "early", delay_seconds=10)
    put(store, "now")
    store.operations.cancel(ids(store.browser.browse("prices", states=[SCHEDULED])))
    pass_time(store, 20)

    assert claimed(store, session) == ["now"]


def test_a_scheduled_message_does_not_move_into_the_queue(store: Store, prices: str, orders: str) -> None:
    headers = json.dumps({"sku": "apple"})
    store.publications.append(a_message(orders, headers=headers, delay_seconds=1000))

    assert len(store.operations.move(ids(store.browser.browse(orders, states=[SCHEDULED])), "prices")) == 0


def test_a_value_that_was_due_makes_room_for_a_message_that_moves(store: Store, orders: str) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku", max_messages=2)
    put(store, "now")
    put(store, "early", delay_seconds=10)
    store.publications.append(a_message(orders))
    pass_time(store, 20)

    assert len(store.operations.move(ids(store.browser.browse(orders, states=[READY])), "prices")) == 1


def test_a_claim_that_brings_a_value_knows_when_the_next_is_due(store: Store, prices: str, session: int) -> None:
    put(store, "first", delay_seconds=10)
    put(store, "second", delay_seconds=1000)
    pass_time(store, 20)

    found = look(store, session, "prices")

    assert [message.body for message in found.claimed] == [b"first"]
    assert found.next_due_seconds is not None
    assert found.next_due_seconds > 100


def test_the_greatest_due_time_and_arrival_holds(store: Store, prices: str, session: int) -> None:
    random = Random(23)
    known: list[tuple[int, int]] = []
    time = 0
    for number in range(60):
        if random.random() < 0.3:
            time += 10
            pass_time(store, 10)
        delay = random.choice([0, 0, 5, 25, 45])
        known.append((time + delay, number))
        put(store, str(number), **({"delay_seconds": delay} if delay else {}))
        if random.random() < 0.3:
            store.maintenance.promote()
    store.maintenance.promote()

    due = max((at, number) for at, number in known if at <= time)

    assert bodies(store) == [str(due[1])]
