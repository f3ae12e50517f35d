"""Throttles of queues, from the declaration to the claim, on every store."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.engine.decisions.keyed_limits import Allowed
from django_mq.engine.decisions.rates import Rate
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import OutOfRange, RateLimited
from django_mq.limits import concurrency, declared, rate_limit, throttle
from django_mq.limits.learned import Hold, LearnedLimits, hold_all
from django_mq.models import History
from tests.stores.builders import claim, declare, ids, look, lose_worker, open_session, pass_time, publish, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.base import Store

TENANT = "header:tenant"


@pytest.fixture(autouse=True)
def no_other_limits() -> Iterator[None]:
    yield
    declared._limits.clear()
    conf.remove_extension(declared.NAME)


def of(tenant: str) -> dict[str, str]:
    return {"headers": f'{{"tenant": "{tenant}"}}'}


def test_a_tenant_over_its_throttle_waits_and_the_others_pass(store: Store, orders: str, session: int) -> None:
    throttle(orders, amount=1, seconds=10, burst=2, key=TENANT)
    many = [publish(store, **of("a")) for _ in range(5)]
    others = [publish(store, **of("b")), publish(store)]

    found = look(store, session, slots=10)

    assert ids(found.claimed) == [*many[:2], *others]
    assert store.queues.counts()[orders].parked == 3
    assert found.next_due_seconds is not None
    assert 0 < found.next_due_seconds < 11
    pass_time(store, 11)
    assert ids(claim(store, open_session(store), slots=10)) == [many[2]]
    pass_time(store, 10)
    assert ids(claim(store, open_session(store), slots=10)) == [many[3]]


def test_so_many_of_a_tenant_run_at_once_and_the_next_follows_when_one_ends(
    store: Store, orders: str, session: int
) -> None:
    concurrency(orders, 2, key=TENANT)
    many = [publish(store, **of("a")) for _ in range(5)]
    other = publish(store, **of("b"))

    found = look(store, session, slots=10)
    assert ids(found.claimed) == [*many[:2], other]
    assert found.next_due_seconds is not None
    assert found.next_due_seconds <= 0.5
    assert claim(store, open_session(store), slots=10) == []

    settle(store, session, found.claimed[0], Verdict.ACCEPT)
    second = open_session(store)
    assert ids(claim(store, second, slots=10)) == [many[2]]
    lose_worker(store, session)
    # Both sessions were late. What they held comes back, one by one, and before the others.
    assert ids(claim(store, open_session(store), slots=10)) == [many[1]]


def test_what_is_over_a_rate_limit_is_removed_with_its_outcome(
    store: Store, orders: str, session: int, finished: Callable[[], list[History]]
) -> None:
    rate_limit(orders, amount=1, seconds=10, burst=2)
    rows = [publish(store) for _ in range(5)]

    assert ids(claim(store, session, slots=10)) == rows[:2]
    assert store.queues.counts()[orders].total == 2
    assert [row.outcome for row in finished()] == [History.Outcome.LIMITED] * 3


def test_what_a_worker_begins_soon_is_brought_too_and_leaves_half_of_a_limit_free(
    store: Store, orders: str, session: int
) -> None:
    concurrency(orders, 4, key=TENANT)
    many = [publish(store, **of("a")) for _ in range(5)]
    other = publish(store, **of("b"))

    assert ids(claim(store, session, slots=1, ahead=9)) == [*many[:2], other]
    assert store.queues.counts()[orders].parked == 0
    assert ids(claim(store, open_session(store), slots=9)) == many[2:4]


def test_in_a_group_nothing_overtakes_what_must_not_wait(store: Store, session: int) -> None:
    declare(store, grouping="shared")
    concurrency("orders", 2)
    [first, *_] = [publish(store, group_key="a") for _ in range(3)]
    publish(store, group_key="b")

    assert ids(claim(store, session, slots=1, ahead=9, in_order=frozenset({"orders"}))) == [first]


def test_the_key_may_be_in_the_body(store: Store, orders: str, session: int) -> None:
    concurrency(orders, 1, key="body:tenant")
    given = [{"tenant": "a"}, {"tenant": "a"}, {"tenant": "b"}, {"tenant": "x" * 70_000}, {"tenant": "x" * 70_000}]
    rows = [publish(store, body=json.dumps(each).encode()) for each in given]

    assert ids(claim(store, session, slots=10)) == [rows[0], *rows[2:]]


def test_many_that_wait_are_not_looked_at_again(store: Store, orders: str, session: int) -> None:
    concurrency(orders, 1, key=TENANT)
    many = [publish(store, **of("a")) for _ in range(20)]
    [first] = claim(store, session, slots=10)
    assert store.queues.counts()[orders].parked == 19

    settle(store, session, first, Verdict.ACCEPT)
    assert ids(claim(store, session, slots=10)) == [many[1]]
    assert store.queues.counts()[orders].parked == 18


def test_workers_together_keep_to_the_throttle(store: Store, orders: str) -> None:
    throttle(orders, amount=1, seconds=3600, burst=3)
    for _ in range(20):
        publish(store)

    claimed = [claim(store, open_session(store), slots=2) for _ in range(6)]

    assert sum(map(len, claimed)) == 3


def test_an_operators_exception_holds_for_the_key(store: Store, orders: str, session: int) -> None:
    throttle(orders, amount=1, seconds=3600, key=TENANT, name="api")
    store.rates.allow(orders, "api", "17", Allowed(Rate(100, 1.0, burst=100)))
    rows = [publish(store, **of(tenant)) for tenant in ("17", "17", "18", "18")]

    assert ids(claim(store, session, slots=10)) == rows[:3]


def test_what_a_handler_has_learned_holds_for_the_key_on_all_workers(
    store: Store, orders: str, session: int
) -> None:
    throttle(orders, amount=1000, seconds=1, burst=1000, key=TENANT)
    first, second = publish(store, **of("a")), publish(store, **of("a"))
    other = publish(store, **of("b"))
    [held] = claim(store, session, credit=1, slots=1)

    hold_all(store, [[Hold(orders, "default", "a", 30.0)]])
    settle(store, session, held, Verdict.RELEASE, delay_seconds=30.0)

    assert ids(claim(store, open_session(store), slots=10)) == [other]
    pass_time(store, 31)
    again = claim(store, open_session(store), slots=10)
    assert (ids(again), [item.attempts for item in again]) == ([first, second], [0, 0])


def test_the_middleware_names_the_keys_of_the_message(orders_message: Any) -> None:
    throttle("orders", amount=1, seconds=1, key=TENANT, name="tenant")
    throttle("orders", amount=1, seconds=1, name="all")
    middleware = LearnedLimits(declared.limits_of)

    def fail(_: Any) -> None:
        raise RateLimited("slow down", retry_after_seconds=30)

    with pytest.raises(RateLimited) as raised:
        middleware.process(orders_message, fail)

    assert raised.value.delay_seconds == 30
    assert raised.value.first.value == [Hold("orders", "tenant", "a", 30)]  # type: ignore[attr-defined]


@pytest.fixture
def orders_message() -> Any:
    received = SimpleNamespace(headers={"tenant": "a"}, type="", group_key=None, queue="orders")
    return SimpleNamespace(message=received)


def test_a_second_declaration_of_a_name_replaces_the_first() -> None:
    throttle("orders", amount=1, seconds=1)
    throttle("orders", amount=2, seconds=1, name="other")
    throttle("orders", amount=3, seconds=1)

    assert [(each.name, each.rate.amount) for each in declared.limits_of("orders")] == [
        ("other", 2),
        ("default", 3),
    ]
    assert not conf.extensions().limits[0].is_for("bills")


def test_limits_of_one_name_must_not_share_keys() -> None:
    throttle("orders", amount=1, seconds=1, type="mail")
    throttle("orders", amount=1, seconds=1, type="sms", key="type")
    throttle("orders", amount=1, seconds=1)

    with pytest.raises(OutOfRange, match="has a limit 'default' for the type 'mail'"):
        throttle("orders", amount=1, seconds=1, type="fax", key=TENANT)
    assert [each.type for each in declared.limits_of("orders")] == ["mail", "sms", ""]


@pytest.mark.parametrize(
    ("given", "says"),
    [({"amount": 0}, "amount"), ({"seconds": -1}, "seconds"), ({"burst": 0}, "burst"), ({"key": "x"}, "key")],
)
def test_a_throttle_of_nothing_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OutOfRange, match=f"The {says} of"):
        throttle("orders", **{"amount": 1, "seconds": 1} | given)
    assert declared.limits_of("orders") == ()
