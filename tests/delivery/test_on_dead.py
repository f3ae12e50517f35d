"""``on_dead`` is called with each message that its handler has failed and that dies, in whichever way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import Reject, Release, consumer, publish
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import discover, forget, handler_of, notices_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.errors import ConfigurationError
from django_mq.stores.records import Lease
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_policy
from tests.stores.builders import claim, lose_worker, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store

pytestmark = pytest.mark.on("sqlite")


@pytest.fixture
def store(committed_database: str) -> Store:
    return shared_store(committed_database)


@pytest.fixture
def told() -> Iterator[list[Any]]:
    """What on_dead was called with."""
    yield []
    for queue in ("orders", notices_of("orders")):
        forget(queue)


def work(store: Store) -> None:
    """Run all handlers until nothing is ready."""
    handlers = [handler for queue in discover() if queue.startswith("orders") for handler in discover()[queue]]
    Worker(handlers, threads=1, using=store.alias).run(until_empty=True)


@pytest.mark.parametrize(
    "error", [Reject("no"), ValueError("no"), None], ids=["rejected", "the last attempt", "fine"]
)
def test_it_is_called_once_with_what_the_handler_has_failed_for_good(
    store: Store, told: list[Any], error: Exception | None
) -> None:
    @consumer("orders", max_attempts=1, on_dead=told.append)
    def handle(_: Any) -> None:
        if error is not None:
            raise error

    declare(store, "orders")
    id_ = publish("orders", {"order": 7}, type="order", headers={"h": 1}, using=store.alias)
    work(store)

    found = [(each.correlation_id, each.body, each.headers, each.type, each.queue) for each in told]
    assert found == ([(str(id_), {"order": 7}, {"h": 1}, "order", "orders.on_dead")] if error else [])


@pytest.mark.parametrize(("own", "most"), [({}, 2), ({"max_attempts": 1}, 9), ({"max_attempts": 9}, 2)], ids=str)
def test_it_is_called_with_a_message_that_kills_its_workers(
    store: Store, told: list[Any], own: dict[str, Any], most: int
) -> None:
    """The queue says when, unless the handler has fewer attempts: then the next worker buries the message."""

    @consumer("orders", on_dead=told.append, **own)
    def handle(_: Any) -> None:
        raise Release

    declare(store, "orders", {"max_attempts": most})
    id_ = publish("orders", {"order": 7}, using=store.alias)
    for _ in range(3):
        session = open_session(store)
        [held] = claim(store, session)
        # What it returns is not settled: the worker dies before.
        Delivery(held, handler_of("orders"), a_policy(max_attempts=most), Lease(store.alias, session)).run()
        lose_worker(store, session)
    work(store)

    assert [each.correlation_id for each in told] == [str(id_)]
    assert store.queues.counts()["orders"].dead == 1


def test_a_function_that_cannot_be_called_with_a_message_is_refused(told: list[Any]) -> None:
    def later(_: Any) -> Iterator[None]:
        yield

    for wrong, words in (
        (5, "on_dead of the handler of 'orders' is 5"),
        (later, "generator"),
        (dict, "cannot be"),
    ):
        if wrong is not dict:
            with pytest.raises(ConfigurationError, match=words):
                consumer("orders", on_dead=wrong)(told.append)  # type: ignore[arg-type]
    assert "orders" not in discover()


def test_what_it_fails_itself_is_tried_again(store: Store, told: list[Any]) -> None:
    def tell(message: Any) -> None:
        told.append(message.attempt)
        if message.attempt == 1:
            raise ValueError

    @consumer("orders", max_attempts=1, on_dead=tell)
    def handle(_: Any) -> None:
        raise Reject

    declare(store, "orders")
    declare(store, notices_of("orders"), {"backoff_seconds": 0.0})
    publish("orders", 1, using=store.alias)
    work(store)

    assert told == [1, 2]
