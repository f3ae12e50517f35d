"""Claims where more keys wait than a claim looks at, on every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq import conf
from django_mq.engine.decisions.keyed_limits import MOST_KNOWN, Allowed, KeyState
from django_mq.engine.decisions.rates import Rate, Used
from django_mq.engine.decisions.verdict import Verdict
from django_mq.limits import concurrency, declared, throttle
from django_mq.stores.records import Parked
from tests.stores.builders import claim, ids, look, open_session, pass_time, publish, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store

KEYS = MOST_KNOWN + 20
FIRST = MOST_KNOWN + 1
TENANT = "header:tenant"


@pytest.fixture(autouse=True)
def no_other_limits() -> Iterator[None]:
    yield
    declared._limits.clear()
    conf.remove_extension(declared.NAME)


def of(tenant: object) -> dict[str, str]:
    return {"headers": f'{{"tenant": "{tenant}"}}'}


def park(store: Store, *, until: float, used: float = 0.0) -> list[int]:
    """Let a message of each key wait, each a moment longer than the one before; return their rows."""
    rows = [publish(store, **of(number)) for number in range(KEYS)]
    store.parking.park([Parked(row, f"default:{number}", 3600.0) for number, row in enumerate(rows)])
    now = store.rates.facts("orders").now
    keys = {
        ("default", str(number)): KeyState(Used(now + used, now), now + until + number / 1000)
        for number in range(KEYS)
    }
    store.rates.use("orders", keys, [])
    return rows


@pytest.mark.parametrize("until", [10.0, 1e6], ids=["due", "the clock was set back"])
def test_keys_whose_time_has_come_have_their_turn_in_pages(
    store: Store, orders: str, session: int, until: float
) -> None:
    throttle(orders, amount=1, seconds=3600, key=TENANT)
    rows = park(store, until=until)
    if until == 10.0:
        waits = look(store, session, slots=1000)
        assert (waits.claimed, waits.next_due_seconds) == ([], pytest.approx(10, abs=9))
        pass_time(store, 11)

    first, second = (look(store, session, credit=1000, slots=1000) for _ in range(2))

    assert ids(first.claimed) == rows[:FIRST]
    assert first.next_due_seconds == 0
    assert ids(second.claimed) == rows[FIRST:]
    assert second.next_due_seconds != 0


def test_keys_that_may_not_begin_do_not_keep_the_others_from_their_turn(
    store: Store, orders: str, session: int
) -> None:
    throttle(orders, amount=1, seconds=10, key=TENANT)
    rows = park(store, until=1.0)
    for number in range(FIRST):
        store.rates.hold(orders, "default", str(number), 30.0)
    pass_time(store, 5)

    first, second = (look(store, session, credit=1000, slots=1000) for _ in range(2))
    pass_time(store, 30)
    # The keys of the second claim are asked once more, and nothing waits for them.
    later = [claim(store, open_session(store), credit=1000, slots=1000) for _ in range(2)]

    assert (first.claimed, first.next_due_seconds) == ([], 0)
    assert ids(second.claimed) == rows[FIRST:]
    assert ids([*later[0], *later[1]]) == rows[:FIRST]


def test_a_new_message_is_within_the_limit_of_a_key_whose_time_has_not_come(
    store: Store, orders: str, session: int
) -> None:
    throttle(orders, amount=1, seconds=3600, key=TENANT)
    park(store, until=50.0, used=3600.0)
    store.rates.hold(orders, "default", "held", 30.0)
    store.rates.allow(orders, "default", "110", Allowed(Rate(1e6, 1.0, burst=1000)))
    new = [publish(store, **of(tenant)) for tenant in ("109", "110", "held", "other")]

    assert ids(claim(store, session, slots=1000)) == [new[1], new[3]]
    assert store.queues.counts()[orders].parked == KEYS + 2


def test_a_slot_that_becomes_free_is_seen_among_many_that_run(store: Store, orders: str) -> None:
    concurrency(orders, 1, key=TENANT)
    rows = [[publish(store, **of(number)) for number in range(KEYS)] for _ in range(2)]
    session = open_session(store, deadline_seconds=3600)
    running = claim(store, session, credit=1000, slots=1000)
    assert ids(running) == rows[0]

    settle(store, session, running[115], Verdict.ACCEPT)
    found = look(store, session, slots=1)
    assert ids(found.claimed) == [rows[1][115]]
    pass_time(store, 61)
    # All were asked meanwhile, and run still.
    assert claim(store, session, slots=1) == []
    for number in (3, 4):
        settle(store, session, running[number], Verdict.ACCEPT)
    found = look(store, session, slots=1)
    assert ids(found.claimed) == [rows[1][3]]
    assert ids(claim(store, session, slots=10)) == [rows[1][4]]
