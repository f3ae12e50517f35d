"""Fair queues: the values of a header share the queue by weight."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery import publisher
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from tests.stores.builders import a_message, claim, declare, ids, pass_time, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, NewMessage
    from tests.stores.conftest import EditQueue

FAIR: dict[str, Any] = {"fair_by": "tenant", "due_order": "keep_place"}


PAST = datetime(2020, 1, 1, tzinfo=UTC)


def of(tenant: str | int | None, text: str = "", queue: str = "orders", **given: Any) -> NewMessage:
    headers = {} if tenant is None else {"tenant": tenant}
    return a_message(queue, headers=json.dumps(headers), body=f"{tenant}{text}".encode(), **given)


def publish(store: Store, tenant: str | int | None, *texts: object, queue: str = "orders", **given: Any) -> None:
    publisher.append(store, [of(tenant, str(text), queue, **given) for text in texts])


def waiting(store: Store, queue: str = "orders") -> list[str]:
    return [message.body.decode() for message in store.browser.browse(queue, states=[State.READY.value])]


def bodies(messages: Sequence[Claimed]) -> list[str]:
    return [message.body.decode() for message in messages]


def test_keys_take_turns_and_a_key_stays_in_order(store: Store, session: int) -> None:
    declare(store, **FAIR)
    publish(store, "a", 1, 2, 3)
    publish(store, "b", 1, 2)
    publish(store, 7, 1)
    publish(store, None, 1)

    expected = ["a1", "b1", "71", "None1", "a2", "b2", "a3"]
    assert waiting(store) == expected
    assert bodies(claim(store, session)) == expected


def test_keys_share_by_weight(store: Store, session: int) -> None:
    declare(store, **FAIR, fair_weights="two=2\nfour=4\nless=0.5")
    for tenant in ("one", "two", "four", "less"):
        publish(store, tenant, *range(40))

    first = bodies(claim(store, session, credit=75))
    shares = [sum(body.startswith(tenant) for body in first) for tenant in ("less", "one", "two", "four")]
    assert shares == [5, 10, 20, 40]


def test_a_key_that_was_idle_begins_at_the_present_place(store: Store, session: int) -> None:
    declare(store, **FAIR)
    publish(store, "a", *range(20))
    claim(store, session, credit=10)
    publish(store, "b", *range(3))
    claim(store, session, credit=4)
    publish(store, "c", *range(2))

    assert waiting(store)[:7] == ["a12", "b2", "c0", "a13", "c1", "a14", "a15"]


def test_no_key_has_an_advantage_from_before_the_queue_was_empty(store: Store, session: int) -> None:
    declare(store, **FAIR)
    publish(store, "a", *range(10))
    for message in claim(store, session):
        settle(store, session, message, Verdict.ACCEPT)
    publish(store, "b", 1, 2)
    publish(store, "a", 1, 2)

    assert waiting(store) == ["b1", "a1", "b2", "a2"]


def test_a_message_that_comes_back_keeps_its_place_and_is_not_joined(store: Store, session: int) -> None:
    declare(store, **FAIR)
    publish(store, "a", *range(6))
    [first, *_] = claim(store, session, credit=4)
    settle(store, session, first, Verdict.RELEASE)
    publish(store, "b", 1, 2, 3)

    assert waiting(store) == ["a0", "a4", "b1", "a5", "b2", "b3"]


def test_a_scheduled_message_gets_its_place_when_it_is_due(store: Store, session: int) -> None:
    declare(store, **FAIR)
    publish(store, "b", 1, 2, delay_seconds=10)
    publish(store, "a", *range(6))
    for message in claim(store, session, credit=3):
        settle(store, session, message, Verdict.ACCEPT)
    pass_time(store, 20)

    assert bodies(claim(store, session)) == ["b1", "a3", "b2", "a4", "a5"]


def test_maintenance_places_what_is_due(store: Store) -> None:
    declare(store, **FAIR)
    publish(store, "a", *range(3))
    publish(store, "b", 1, delay_seconds=10)
    pass_time(store, 20)
    assert store.maintenance.promote() == 1

    assert waiting(store) == ["a0", "b1", "a1", "a2"]


def test_keys_share_within_a_level(store: Store) -> None:
    declare(store, **FAIR)
    publish(store, "a", 1, 2)
    publish(store, "b", 1)
    publish(store, "a", "urgent", priority=9)

    assert waiting(store) == ["aurgent", "a1", "b1", "a2"]


def test_operations_place_messages_anew(store: Store, session: int) -> None:
    declare(store, **FAIR)
    publish(store, "a", *range(5))
    publish(store, "b", 1, delay_seconds=10)
    publish(store, "c", 1, priority=9)
    publish(store, "d", 1, delay_seconds=10)
    found = {message.body: message.id for message in store.browser.browse("orders", states=[0, 1])}
    store.operations.deliver_now([found[b"b1"]])
    store.operations.prioritise([found[b"c1"]], 4)
    store.operations.reschedule([found[b"d1"]], PAST)

    assert waiting(store) == ["a0", "b1", "d1", "c1", "a1", "a2", "a3", "a4"]


def test_a_message_that_is_moved_or_redriven_gets_a_new_place(store: Store, session: int) -> None:
    declare(store, **FAIR)
    declare(store, "others")
    publish(store, "b", 1)
    [dead] = claim(store, session)
    settle(store, session, dead, Verdict.DEAD)
    publish(store, "a", *range(4))
    claim(store, session, credit=1)
    publish(store, "c", 1, 2, queue="others")
    store.operations.redrive(ids(store.browser.browse("orders", states=[State.DEAD.value])))
    store.operations.move(ids(store.browser.browse("others", states=[State.READY.value])), "orders")

    assert waiting(store) == ["b1", "a1", "c1", "a2", "c2", "a3"]


@pytest.mark.parametrize("where", [{"dead_letter_queue": "orders"}, {"dead_letter_exchange": "failures"}])
def test_dead_letters_get_places_where_they_arrive(store: Store, session: int, where: dict[str, Any]) -> None:
    declare(store, **FAIR)
    declare(store, "others", **where)
    store.exchanges.bind(exchange="failures", exchange_type="fanout", pattern="", queue="orders")
    publish(store, "a", 1, 2, 3)
    publish(store, "b", 1, 2, queue="others")
    for message in claim(store, session, "others"):
        settle(store, session, message, Verdict.DEAD)

    assert waiting(store) == ["a1", "b1", "a2", "b2", "a3"]


@pytest.mark.parametrize("more", [{"max_messages": 100}, {"grouping": "shared"}, {"strict": True}], ids=str)
def test_a_queue_with_other_rules_is_fair_too(store: Store, session: int, more: dict[str, Any]) -> None:
    declare(store, **FAIR, **more)
    publish(store, "a", 1, 2, 3)
    publish(store, "b", 1)

    assert bodies(claim(store, session)) == ["a1", "b1", "a2", "a3"]


def test_messages_from_before_get_places_with_the_next_claim(
    store: Store, session: int, edit_queue: EditQueue
) -> None:
    declare(store, due_order="keep_place")
    publish(store, "a", 1, 2, 3)
    publish(store, "b", 1)
    edit_queue("orders", fair_by="tenant")

    assert bodies(claim(store, session)) == ["a1", "b1", "a2", "a3"]


def test_a_queue_that_is_fair_no_more_delivers_placed_messages_first(
    store: Store, session: int, edit_queue: EditQueue
) -> None:
    declare(store, **FAIR)
    publish(store, "a", 1, 2, 3)
    publish(store, "b", 1)
    edit_queue("orders", fair_by="")
    publish(store, "b", 2, 3)

    assert bodies(claim(store, session)) == ["a1", "b1", "a2", "a3", "b2", "b3"]


@pytest.mark.parametrize(
    ("noisy", "rounds"), [(500, 150), pytest.param(20_000, 400, marks=pytest.mark.once)], ids=str
)
def test_a_message_waits_for_one_message_of_each_other_key_at_most(
    store: Store, session: int, noisy: int, rounds: int
) -> None:
    declare(store, **FAIR)
    for start in range(0, noisy, 1000):
        publish(store, "noisy", *range(start, min(start + 1000, noisy)))
    random, published = Random(0), dict[str, int]()
    waits = []
    for now in range(rounds):
        tenant = f"quiet {random.randrange(19)}"
        if tenant not in published:
            publish(store, tenant, "")
            published[tenant] = now
        [message] = claim(store, session, credit=1)
        settle(store, session, message, Verdict.ACCEPT)
        if message.body.decode() in published:
            waits.append(now - published.pop(message.body.decode()))

    assert len(waits) > rounds / 2
    assert max(waits) < 20


@pytest.mark.parametrize("each", [300, pytest.param(3_000, marks=pytest.mark.once)])
def test_claims_share_by_weight_while_keys_publish(store: Store, session: int, each: int) -> None:
    weights = {"one": 1, "two": 2, "four": 4}
    declare(store, **FAIR, fair_weights="\n".join(f"{key}={weight}" for key, weight in weights.items()))
    for key in weights:
        publish(store, key, *range(each))
    claimed = Counter[str]()
    for _ in range(each // 140):
        for message in claim(store, session, credit=70):
            claimed[message.body.decode().rstrip("0123456789")] += 1
            settle(store, session, message, Verdict.ACCEPT)
        for key in weights:
            publish(store, key, *range(40))

    total = claimed.total()
    shares = {key: claimed[key] / total * 7 for key in weights}
    assert shares == pytest.approx(weights, rel=0.05)
