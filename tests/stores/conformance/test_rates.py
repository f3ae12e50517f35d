"""What limits by key have used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.rates import Rate, Used
from tests.stores.builders import pass_time

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_what_keys_have_used_is_written_and_read(store: Store) -> None:
    now = store.rates.facts("orders").now
    used = {("api", "a"): Used(now + 100.25, now), ("api", "A"): Used(now + 50, now)}

    store.rates.use("orders", used)
    store.rates.use("orders", {("api", "a"): Used(now + 200.25, now + 1)})
    store.rates.use("bills", {("api", "a"): Used(now - 5, now)})

    found = store.rates.facts("orders")
    assert found.used == {("api", "a"): Used(now + 200.25, now + 1), ("api", "A"): Used(now + 50, now)}
    assert found.now == pytest.approx(now, abs=60)
    assert store.rates.facts("bills")[1:] == ({}, {}, {})


def test_a_key_is_held_until_the_longest_hold_is_over(store: Store) -> None:
    for seconds in (20.0, 60.0, 30.0):
        store.rates.hold("orders", "api", "a", seconds)

    found = store.rates.facts("orders")
    assert found.held == {("api", "a"): pytest.approx(found.now + 60, abs=30)}
    pass_time(store, 120)
    assert store.rates.facts("orders").held == {}
    assert store.rates.prune(10) > 0
    assert store.rates.prune(10) == 0


def test_keys_that_are_free_are_pruned(store: Store) -> None:
    now = store.rates.facts("orders").now
    store.rates.use("orders", {("api", "old"): Used(now - 100, now - 100), ("api", "new"): Used(now + 100, now)})

    assert store.rates.prune(10) == 1
    assert list(store.rates.facts("orders").used) == [("api", "new")]


def test_an_exception_of_a_key_is_read_changed_and_taken_back(store: Store) -> None:
    for rate in (Rate(5, 1.0), Rate(50, 1.0, burst=3.5)):
        store.rates.allow("orders", "api", "customer 17", rate)

    assert store.rates.facts("orders").exceptions == {("api", "customer 17"): Rate(50, 1.0, burst=3.5)}
    store.rates.allow("orders", "api", "customer 17", None)
    assert store.rates.facts("orders").exceptions == {}
