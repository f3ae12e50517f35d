"""Transient queues: rows that may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stores.builders import pass_time

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def bind(store: Store, queue: str, pattern: str = "", *, seconds: float = 60) -> None:
    store.volatile.bind(exchange="x", exchange_type="fanout", pattern=pattern, queue=queue, seconds=seconds)


def test_live_bindings_are_read_by_exchange(store: Store) -> None:
    bind(store, "a", "one")
    bind(store, "b", "two")

    assert sorted(store.volatile.bindings("x")) == [("one", "a"), ("two", "b")]
    assert store.volatile.bindings("y") == []


def test_a_binding_nobody_renews_expires_and_is_pruned(store: Store) -> None:
    bind(store, "a")
    pass_time(store, 40)
    bind(store, "b")
    bind(store, "renewed")
    pass_time(store, 40)

    assert sorted(store.volatile.bindings("x")) == [("", "b"), ("", "renewed")]
    assert store.retention.prune() == 1


def test_binding_again_renews(store: Store) -> None:
    bind(store, "a")
    pass_time(store, 40)
    bind(store, "a")
    pass_time(store, 40)

    assert store.volatile.bindings("x") == [("", "a")]


def test_every_queue_gets_its_copy_and_takes_it_once(store: Store) -> None:
    store.volatile.put(["a", "b"], "hello", seconds=60)

    assert store.volatile.take(["a"]) == [("a", "hello")]
    assert store.volatile.take(["a"]) == []
    assert store.volatile.take(["b"]) == [("b", "hello")]


def test_messages_are_taken_oldest_first_and_up_to_the_limit(store: Store) -> None:
    for number in range(5):
        store.volatile.put(["a" if number % 2 else "b"], str(number), seconds=60)

    first = store.volatile.take(["a", "b"], limit=3)

    assert first == [("b", "0"), ("a", "1"), ("b", "2")]
    assert store.volatile.take(["a", "b"]) == [("a", "3"), ("b", "4")]


def test_messages_nobody_fetched_in_time_are_pruned(store: Store) -> None:
    store.volatile.put(["a"], "old", seconds=10)
    store.volatile.put(["a"], "young", seconds=100)
    pass_time(store, 50)

    assert store.retention.prune() == 1
    assert store.volatile.take(["a"]) == [("a", "young")]


def test_a_message_whose_time_is_over_is_not_taken(store: Store) -> None:
    store.volatile.put(["a"], "old", seconds=10)
    pass_time(store, 11)

    assert store.volatile.take(["a"]) == []


def test_dropping_forgets_bindings_and_messages(store: Store) -> None:
    bind(store, "a")
    bind(store, "b")
    store.volatile.put(["a", "a", "b"], "hello", seconds=60)

    assert store.volatile.drop("a") == 2

    assert store.volatile.bindings("x") == [("", "b")]
    assert store.volatile.take(["a", "b"]) == [("b", "hello")]
