"""Limits that an extension adds to claims: what they refuse is parked, and what is behind it passes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.engine.decisions import claim_limits
from django_mq.engine.decisions.claim_limits import OpenLimit, Refusal
from django_mq.engine.decisions.rates import UNUSED, Rate, after_use, wait_seconds
from django_mq.engine.decisions.verdict import Verdict
from django_mq.seams.extension import Extension
from tests.stores.builders import claim, declare, ids, look, open_session, pass_time, publish, settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.message import Message
    from django_mq.stores.base import Store


class AtOnce(OpenLimit):
    """So many messages of a group may run at once, in the queue ``orders``."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.running: Counter[str | None] = Counter()

    def is_for(self, queue: str) -> bool:
        return queue == "orders"

    def holds_runs(self, queue: str) -> bool:
        return False

    def opened(self, store: Any, queue: str, facts: Any) -> AtOnce:
        assert store.queues.find(queue) is not None  # a limit may read in the claim's transaction
        self.taken: Counter[str | None] = Counter()
        return self

    def refuses(self, message: Message) -> Refusal | None:
        key = message.group
        full = self.running[key] + self.taken[key] >= self.most
        return Refusal(str(key)) if key is not None and full else None

    def takes(self, message: Message) -> None:
        self.taken[message.group] += 1

    def writes(self, taken: Sequence[tuple[tuple[int, int], Message]]) -> None:
        self.running.update(message.group for _, message in taken)


class PerTime(AtOnce):
    """So many messages of a type may begin in a time, by a clock that the test moves."""

    def __init__(self, rate: Rate) -> None:
        self.rate, self.used, self.now = rate, {"": UNUSED}, 0.0

    def opened(self, store: Any, queue: str, facts: Any) -> PerTime:
        self.before = dict(self.used)
        return self

    def refuses(self, message: Message) -> Refusal | None:
        waits = wait_seconds(self.rate, self.used.get(message.type, UNUSED), self.now)
        return Refusal(f"type {message.type}", waits) if waits and message.type else None

    def takes(self, message: Message) -> None:
        self.used[message.type] = after_use(self.rate, self.used.get(message.type, UNUSED), self.now)

    def writes(self, taken: Sequence[tuple[tuple[int, int], Message]]) -> None:
        pass


@pytest.fixture
def add(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Add limits to the claims of all stores."""

    def add(*limits: Any) -> None:
        conf.add_extension(Extension(name="limited", limits=limits))

    yield add
    conf.remove_extension("limited")


def test_what_is_over_its_limit_is_parked_and_the_others_pass(
    store: Store, orders: str, session: int, add: Any
) -> None:
    add(limit := AtOnce(2))
    rows = [publish(store, group_key=key) for key in ("a", "a", "a", "a", "b", None)]  # type: ignore[arg-type]

    found = look(store, session, slots=10)

    assert ids(found.claimed) == [rows[0], rows[1], rows[4], rows[5]]
    counts = store.queues.counts()[orders]
    assert (counts.parked, counts.ready) == (2, 0)
    assert found.constrained
    assert limit.running == {"a": 2, "b": 1, None: 1}
    assert claim(store, session, slots=10) == []

    settle(store, session, found.claimed[0], Verdict.ACCEPT)
    limit.running["a"] -= 1
    assert store.parking.free(orders, "a", 1) == 1
    assert ids(claim(store, session, slots=10)) == [rows[2]]


def test_a_throttled_message_is_brought_when_its_time_has_come(
    store: Store, orders: str, session: int, add: Any
) -> None:
    add(limit := PerTime(Rate(1, 10.0)))
    first, second, other = publish(store, type="mail"), publish(store, type="mail"), publish(store)

    found = look(store, session, slots=10)
    assert ids(found.claimed) == [first, other]
    assert found.next_due_seconds == pytest.approx(10.0, abs=1.0)

    limit.now += 11
    pass_time(store, 11)
    [late] = claim(store, session, slots=10)
    assert (late.id, late.attempts, late.redelivered) == (second, 0, False)


def test_all_limits_are_asked_before_one_is_used(store: Store, orders: str, session: int, add: Any) -> None:
    rate = PerTime(Rate(1, 10.0))
    add(rate, full := AtOnce(1))
    full.running["a"] = 1
    publish(store, type="mail", group_key="a")
    free = publish(store, type="mail")

    assert ids(claim(store, session, slots=10)) == [free]


def test_a_limited_queue_is_claimed_for_free_slots_only(store: Store, orders: str, session: int, add: Any) -> None:
    rows = [publish(store) for _ in range(5)]
    publish(store, declare(store, "bills"))
    add(AtOnce(9))

    assert ids(claim(store, session, slots=2)) == rows[:2]
    assert claim(store, session, slots=0) == []
    assert len(claim(store, session, "bills", slots=0)) == 1


def test_a_parked_message_leaves_its_group_to_the_next(store: Store, session: int, add: Any) -> None:
    declare(store, grouping="shared")
    add(limit := AtOnce(1))
    limit.running["a"] = 1
    rows = [publish(store, group_key="a") for _ in range(3)]
    free = publish(store, group_key="b")

    assert ids(claim(store, session, slots=10)) == [free]
    assert store.queues.counts()["orders"].parked == len(rows)


def test_a_claim_ends_when_it_has_parked_many(
    store: Store, orders: str, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_limits, "MOST_REFUSED", 3)
    add(limit := AtOnce(1))
    limit.running["a"] = 1
    for _ in range(5):
        publish(store, group_key="a")
    free, session = publish(store), open_session(store)

    first = look(store, session, slots=10)
    assert (first.claimed, first.next_due_seconds) == ([], 0.0)
    assert store.queues.counts()[orders].parked == 3
    assert ids(claim(store, session, slots=10)) == [free]
    assert store.queues.counts()[orders].parked == 5
