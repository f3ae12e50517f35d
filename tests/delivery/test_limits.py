"""Publishing into a full queue: which publisher waits, which is refused, and what that costs the others."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_mq.api import OutgoingMessage, publish, publish_many
from django_mq.delivery import publisher
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue
from django_mq.delivery.publisher import as_outgoing, check
from django_mq.errors import ConfigurationError, DuplicateMessage, InvalidMessage, QueueFull
from django_mq.models import Message, Queue
from django_mq.stores.registry import private_store, shared_store
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_a_queue_without_rules_costs_one_statement(database: str, orders: str) -> None:
    publish(orders)

    with CaptureQueriesContext(connections[database]) as captured:
        publish(orders)

    assert len(captured) == 1


def test_a_limited_queue_is_not_counted_while_it_has_room(database: str) -> None:
    create_queue("orders", {"max_messages": 10}, using=database)
    publish("orders")

    with CaptureQueriesContext(connections[database]) as captured:
        publish("orders")

    assert not [query for query in captured if "count(*)" in query["sql"]]
    assert Queue.objects.using(database).get().held_messages == 2


def test_nobody_waits_in_a_transaction(database: str) -> None:
    create_queue("orders", {"max_messages": 1, "overflow": "flow", "wait_seconds": 3600.0}, using=database)

    with transaction.atomic(using=database):
        publish("orders")
        with pytest.raises(QueueFull):
            publish("orders")

    assert Message.objects.using(database).count() == 1


def test_what_is_dropped_is_counted(database: str) -> None:
    create_queue("orders", {"max_messages": 1, "overflow": "drop"}, using=database)

    publish_many([("orders", 1), ("orders", 2)])
    publish("orders", 3)

    assert Queue.objects.using(database).get().dropped == 2
    assert [bytes(row.body) for row in Message.objects.using(database).all()] == [b"1"]


def test_options_that_contradict_are_refused_before_anything_is_written(database: str) -> None:
    with pytest.raises(ConfigurationError, match="overflow is 'ring', but the queue has no limit"):
        create_queue("orders", {"overflow": "ring"}, using=database)
    create_queue("orders", {}, using=database)
    with pytest.raises(ConfigurationError, match="above max_ttl_seconds"):
        edit_queue("orders", {"min_ttl_seconds": 9.0, "max_ttl_seconds": 8.0}, using=database)
    with pytest.raises(ConfigurationError, match="its own expiry queue"):
        edit_queue("orders", {"expiry_queue": "orders"}, using=database)


def test_an_edited_limit_forgets_what_was_known_of_the_room(database: str) -> None:
    create_queue("orders", {"max_messages": 9}, using=database)
    publish("orders")

    edit_queue("orders", {"max_messages": 1}, using=database)

    with pytest.raises(QueueFull, match="holds 1 of at most 1"):
        publish("orders")


class Publisher(threading.Thread):
    """Publishes one message on a connection of its own."""

    def __init__(self, alias: str, tries: list[int]) -> None:
        super().__init__(daemon=True)
        self._alias = alias
        self._tries = tries
        self.error: BaseException | None = None

    def run(self) -> None:
        store = private_store(self._alias)
        rules = publisher.rules_of(store, "orders")
        assert rules is not None
        message = check(as_outgoing(("orders", "late")))
        try:
            publisher.waiting_for_capacity(store, {"orders": rules}, lambda: self._write(store, message))
        except QueueFull as error:
            self.error = error
        finally:
            store.close()

    def _write(self, store: Store, message: object) -> None:
        self._tries.append(1)
        store.admission.append([message])  # type: ignore[list-item]


def test_a_publisher_waits_until_there_is_room(committed_database: str) -> None:
    alias = committed_database
    create_queue("orders", {"max_messages": 1, "overflow": "flow", "wait_seconds": 3600.0}, using=alias)
    publish("orders", "early")
    early = Message.objects.using(alias).get()
    tries: list[int] = []
    waiting = Publisher(alias, tries)

    waiting.start()
    wait_until(lambda: len(tries) > 1)
    # No purge: that one looks again until nothing is left, and might take the late one, too.
    shared_store(alias).operations.cancel([early.id])
    waiting.join()

    assert waiting.error is None
    assert [bytes(row.body) for row in Message.objects.using(alias)] == [b'"late"']


def test_a_publisher_does_not_wait_for_ever(committed_database: str) -> None:
    options = {"max_messages": 1, "overflow": "flow", "wait_seconds": 0.05}
    create_queue("orders", options, using=committed_database)
    publish("orders")

    with pytest.raises(QueueFull):
        publish("orders")


def test_a_duplicate_id_is_refused_and_the_transaction_goes_on(database: str, orders: str) -> None:
    with transaction.atomic(using=database):
        publish(orders, 1, dedup_id="a")
        with pytest.raises(DuplicateMessage, match="'a' was used"):
            publish(orders, 2, dedup_id="a")
        publish(orders, 3, dedup_id="b")

    assert [bytes(row.body) for row in Message.objects.using(database).order_by("id")] == [b"1", b"3"]


def test_an_id_of_a_publish_that_was_rolled_back_may_be_used(database: str, orders: str) -> None:
    with suppress(ZeroDivisionError), transaction.atomic(using=database):
        publish(orders, dedup_id="a")
        raise ZeroDivisionError

    publish(orders, dedup_id="a")


def test_an_impossible_duplicate_id_is_refused(database: str, orders: str) -> None:
    for wrong in (7, "a" * 256, "nu\x00ll"):
        with pytest.raises(InvalidMessage, match="dedup_id"):
            publish(orders, dedup_id=wrong)  # type: ignore[arg-type]


def test_a_published_value_replaces_the_older_one(database: str) -> None:
    create_queue("prices", {"kind": "last_value", "last_value_key": "sku"}, using=database)

    for price in (1, 2, 3):
        publish("prices", price, headers={"sku": "apple"})
    publish_many([OutgoingMessage(queue="prices", body=body, headers={"sku": "pear"}) for body in (4, 5)])

    assert [bytes(row.body) for row in Message.objects.using(database).order_by("id")] == [b"3", b"5"]
