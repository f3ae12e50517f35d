"""What limits by key have used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.keyed_limits import Allowed, KeyState, Slot
from django_mq.engine.decisions.rates import Rate, Used
from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.records import SessionInfo, Settlement
from tests.stores.builders import claim, declare, lose_worker, open_session, pass_time, publish, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_what_keys_have_used_is_written_and_read(store: Store) -> None:
    now = store.rates.facts("orders").now
    used = {
        ("api", "a"): KeyState(Used(now + 100.25, now), None),
        ("api", "A"): KeyState(Used(now + 50, now), now + 7.5),
    }

    store.rates.use("orders", used, [])
    store.rates.use("orders", {("api", "a"): KeyState(Used(now + 200.25, now + 1), None)}, [])
    store.rates.use("bills", {("api", "a"): KeyState(Used(now - 5, now), None)}, [])

    found = store.rates.facts("orders")
    assert found.used == {("api", "a"): Used(now + 200.25, now + 1), ("api", "A"): Used(now + 50, now)}
    assert found.waiting == {("api", "A"): now + 7.5}
    assert found.now == pytest.approx(now, abs=60)
    assert store.rates.facts("bills")[1:6] == ({}, {}, {}, {}, {})


def test_a_key_is_held_until_the_longest_hold_is_over(store: Store) -> None:
    for seconds in (20.0, 60.0, 30.0):
        store.rates.hold("orders", "api", "a", seconds)

    found = store.rates.facts("orders")
    assert found.held == {("api", "a"): pytest.approx(found.now + 60, abs=30)}
    pass_time(store, 120)
    assert store.rates.facts("orders").held == {}
    assert store.rates.prune(10) > 0
    assert store.rates.prune(10) == 0


def test_a_hold_is_over_when_the_clock_was_set_back(store: Store) -> None:
    store.rates.hold("orders", "api", "a", 20.0)

    pass_time(store, -30)
    assert ("api", "a") in store.rates.facts("orders").held
    pass_time(store, -100)
    assert store.rates.facts("orders").held == {}


def test_what_is_left_of_a_limit_or_a_queue_that_is_gone_is_pruned(store: Store) -> None:
    now = store.rates.facts("gone").now
    old = Used(now - 5000, now - 5000)
    states = {"left": KeyState(old, now - 3700), "waits": KeyState(old, now - 3500), "slot": KeyState(old, 0.0)}
    store.rates.use("gone", {("api", key): state for key, state in states.items()}, [])
    store.rates.use("other", {}, [Slot("api", "a", 10**9, 1)])
    store.rates.use("gone", {}, [Slot("api", "a", 10**9, 1), Slot("api", "waits", 10**9, 1)])

    assert store.rates.prune(10) == 3
    assert {key for _, key in store.rates.facts("gone").waiting} == {"waits", "slot"}
    assert store.rates.prune(10) == 0


def test_keys_that_are_free_are_pruned_unless_something_waits(store: Store) -> None:
    now = store.rates.facts("orders").now
    old, new = Used(now - 100, now - 100), Used(now + 100, now)
    states = {"old": KeyState(old, None), "waits": KeyState(old, 0.0), "new": KeyState(new, None)}
    store.rates.use("orders", {("api", key): state for key, state in states.items()}, [])

    assert store.rates.prune(10) == 1
    assert {key for _, key in store.rates.facts("orders").used} == {"waits", "new"}


def test_an_exception_of_a_key_is_read_changed_and_taken_back(store: Store) -> None:
    for given in (Allowed(Rate(5, 1.0)), Allowed(at_once=3), Allowed(Rate(50, 1.0, burst=3.5), at_once=2)):
        store.rates.allow("orders", "api", "customer 17", given)
        assert store.rates.facts("orders").allowed == {("api", "customer 17"): given}

    store.rates.allow("orders", "api", "customer 17", Allowed())
    assert store.rates.facts("orders").allowed == {}


SESSION = SessionInfo(name="worker", kind="native", host="host", pid=1, version="1", queues=())


def running(store: Store) -> int:
    found = store.rates.running("orders")
    assert found == store.rates.facts("orders").running
    return sum(found.values())


@pytest.mark.parametrize("verdict", [Verdict.ACCEPT, Verdict.RELEASE, Verdict.DEAD, Verdict.PARK, Verdict.CANCEL])
def test_a_slot_counts_until_its_claim_ends(store: Store, verdict: Verdict) -> None:
    declare(store)
    publish(store)
    session = open_session(store)
    [held] = claim(store, session)
    store.rates.use("orders", {}, [Slot("api", "a", *held.receipt), Slot("api", "b", held.id, held.claim + 1)])

    assert store.rates.facts("orders").running == {("api", "a"): 1}
    store.rates.use("orders", {}, [])
    assert running(store) == 1
    settle(store, session, held, verdict)
    assert running(store) == 0


def test_a_slot_of_a_dead_session_is_free_and_counts_again_if_the_session_was_only_late(store: Store) -> None:
    declare(store)
    publish(store)
    session = open_session(store)
    [held] = claim(store, session)
    store.rates.use("orders", {}, [Slot("api", "a", *held.receipt)])

    lose_worker(store, session)
    assert running(store) == 0
    store.rates.use("orders", {}, [])
    again = store.sessions.revive(session, SESSION, [held.receipt], deadline_seconds=60)
    assert again == {held.id}
    assert running(store) == 1


def test_a_task_that_is_acknowledged_when_it_begins_has_its_slot_until_it_ends(store: Store) -> None:
    declare(store)
    publish(store)
    session = open_session(store)
    [held] = claim(store, session)
    store.rates.use("orders", {}, [Slot("api", "a", *held.receipt)])

    settle(store, session, held, Verdict.BEGIN)
    assert store.queues.counts()["orders"].total == 0
    assert running(store) == 1
    store.rates.use("orders", {}, [])
    assert running(store) == 1

    end = Settlement(held.id, held.claim, Verdict.END)
    assert store.settlements.settle(session, [end]) == frozenset()
    assert running(store) == 0
    assert store.settlements.settle(session, [end]) == frozenset([held.id])


def test_a_run_may_begin_and_end_at_once(store: Store) -> None:
    declare(store)
    publish(store)
    session = open_session(store)
    [held] = claim(store, session)
    store.rates.use("orders", {}, [Slot("api", "a", *held.receipt)])

    both = [Settlement(*held.receipt, verdict) for verdict in (Verdict.BEGIN, Verdict.END)]
    assert store.claims.settle_and_claim(session, both, None).void == frozenset()
    assert running(store) == 0


def test_a_run_ends_with_its_session(store: Store) -> None:
    declare(store)
    sessions = [open_session(store) for _ in range(2)]
    for session in sessions:
        publish(store)
        [held] = claim(store, session)
        store.rates.use("orders", {}, [Slot("api", "a", *held.receipt)])
        settle(store, session, held, Verdict.BEGIN)
    assert running(store) == 2

    store.sessions.close(sessions[0])
    assert running(store) == 1
    lose_worker(store, sessions[1])
    assert running(store) == 0
