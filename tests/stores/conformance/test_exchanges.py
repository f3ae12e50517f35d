"""Exchanges: declared, read with all that is bound to them, bound to each other, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.routing import Exchange, Route
from tests.stores.builders import declare, pass_time
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER


def test_an_exchange_that_nobody_declared_does_not_exist(store: Store) -> None:
    assert store.exchanges.find("news") is None
    assert store.exchanges.find("amq.topic") == Exchange("amq.topic", "topic")


def test_a_declared_exchange_exists_without_bindings(store: Store) -> None:
    assert store.exchanges.declare("news", exchange_type="topic", alternate="rest")
    assert not store.exchanges.declare("news", exchange_type="fanout")

    assert store.exchanges.find("news") == Exchange("news", "topic", alternate="rest")
    assert store.exchanges.find("News") is None


def test_an_exchange_is_read_with_all_that_is_bound_to_it(store: Store) -> None:
    declare(store, "sports")
    store.exchanges.declare("news", exchange_type="topic")
    store.exchanges.bind(exchange="news", exchange_type="topic", pattern="#", queue="sports", selector="a = 1")
    store.volatile.bind(exchange="news", exchange_type="topic", pattern="x.*", queue="ear", seconds=60)
    store.exchanges.bind_exchange(exchange="news", pattern="y", destination="world", selector="b = 1")
    store.exchanges.bind_exchange(exchange="news", pattern="y", destination="world", selector="b = 2")

    assert store.exchanges.find("news") == Exchange(
        "news",
        "topic",
        routes=(Route("topic", "#", "sports", "a = 1"),),
        transient=(Route("topic", "x.*", "ear"),),
        exchanges=(Route("topic", "y", "world", "b = 2"),),
    )
    assert store.exchanges.unbind_exchange(exchange="news", pattern="y", destination="world")
    assert not store.exchanges.unbind_exchange(exchange="news", pattern="y", destination="world")


def test_an_exchange_of_the_previous_version_has_the_type_of_its_bindings(store: Store) -> None:
    store.volatile.bind(exchange="news", exchange_type="fanout", pattern="", queue="ear", seconds=60)

    found = store.exchanges.find("news")
    assert found is not None
    assert (found.type, found.is_declared) == ("fanout", False)
    pass_time(store, 61)
    assert store.exchanges.find("news") is None


def test_a_deleted_exchange_takes_its_bindings_along(store: Store) -> None:
    declare(store, "sports")
    for name in ("news", "world"):
        store.exchanges.declare(name, exchange_type="fanout")
        store.exchanges.bind(exchange=name, exchange_type="fanout", pattern="", queue="sports")
    store.exchanges.bind_exchange(exchange="world", pattern="", destination="news")
    store.exchanges.bind_exchange(exchange="news", pattern="", destination="world")

    assert store.exchanges.delete("news")

    assert store.exchanges.find("news") is None
    assert store.exchanges.find("world") == Exchange("world", "fanout", routes=(Route("fanout", "", "sports"),))
    assert not store.exchanges.delete("news")
