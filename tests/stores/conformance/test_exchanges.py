"""Exchanges: declared, read with all that is bound to them, bound to each other, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.routing import Exchange, Route
from tests.stores.builders import declare, pass_time

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_an_exchange_that_nobody_declared_does_not_exist(store: Store) -> None:
    assert store.exchange("news") is None
    assert store.exchange("amq.topic") == Exchange("amq.topic", "topic")


def test_a_declared_exchange_exists_without_bindings(store: Store) -> None:
    assert store.declare_exchange("news", exchange_type="topic", alternate="rest")
    assert not store.declare_exchange("news", exchange_type="fanout")

    assert store.exchange("news") == Exchange("news", "topic", alternate="rest")
    assert store.exchange("News") is None


def test_an_exchange_is_read_with_all_that_is_bound_to_it(store: Store) -> None:
    declare(store, "sports")
    store.declare_exchange("news", exchange_type="topic")
    store.bind(exchange="news", exchange_type="topic", pattern="#", queue="sports", selector="a = 1")
    store.volatile_bind(exchange="news", exchange_type="topic", pattern="x.*", queue="ear", seconds=60)
    store.bind_exchange(exchange="news", pattern="y", destination="world", selector="b = 1")
    store.bind_exchange(exchange="news", pattern="y", destination="world", selector="b = 2")

    assert store.exchange("news") == Exchange(
        "news",
        "topic",
        routes=(Route("topic", "#", "sports", "a = 1"),),
        transient=(Route("topic", "x.*", "ear"),),
        exchanges=(Route("topic", "y", "world", "b = 2"),),
    )
    assert store.unbind_exchange(exchange="news", pattern="y", destination="world")
    assert not store.unbind_exchange(exchange="news", pattern="y", destination="world")


def test_an_exchange_of_the_previous_version_has_the_type_of_its_bindings(store: Store) -> None:
    store.volatile_bind(exchange="news", exchange_type="fanout", pattern="", queue="ear", seconds=60)

    found = store.exchange("news")
    assert found is not None
    assert (found.type, found.is_declared) == ("fanout", False)
    pass_time(store, 61)
    assert store.exchange("news") is None


def test_a_deleted_exchange_takes_its_bindings_along(store: Store) -> None:
    declare(store, "sports")
    for name in ("news", "world"):
        store.declare_exchange(name, exchange_type="fanout")
        store.bind(exchange=name, exchange_type="fanout", pattern="", queue="sports")
    store.bind_exchange(exchange="world", pattern="", destination="news")
    store.bind_exchange(exchange="news", pattern="", destination="world")

    assert store.delete_exchange("news")

    assert store.exchange("news") is None
    assert store.exchange("world") == Exchange("world", "fanout", routes=(Route("fanout", "", "sports"),))
    assert not store.delete_exchange("news")
