"""From an exchange to queues: a message is written into each that is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.api import OutgoingMessage, publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.models import Message

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_a_message_goes_once_to_every_queue_that_matches(database: str, store: Store) -> None:
    for name in ("all", "errors", "other"):
        declare(store, name)
    for pattern, queue in (("#", "all"), ("*.error", "all"), ("*.error", "errors"), ("*.info", "other")):
        store.exchanges.bind(exchange="logs", exchange_type="topic", pattern=pattern, queue=queue)

    message_id = publish(exchange="logs", routing_key="web.error", body="hot")

    found = Message.objects.using(database).order_by("queue__name").values_list("queue__name", "message_id")
    assert list(found) == [("all", message_id), ("errors", message_id)]


def test_a_message_that_matches_nothing_is_published_to_nobody(database: str, store: Store) -> None:
    declare(store, "errors")
    store.exchanges.bind(exchange="logs", exchange_type="direct", pattern="error", queue="errors")

    publish(exchange="logs", routing_key="info")
    publish(exchange="no-such-exchange", routing_key="info")

    assert not Message.objects.using(database).exists()


def test_a_message_goes_on_through_other_exchanges(database: str, store: Store) -> None:
    declare(store, "errors")
    store.exchanges.declare("logs", exchange_type="direct", alternate="rest")
    for exchange in ("archive", "rest"):
        store.exchanges.bind(exchange=exchange, exchange_type="fanout", pattern="", queue="errors")
    store.exchanges.bind_exchange(exchange="logs", pattern="error", destination="archive")

    for key in ("error", "info"):
        publish(exchange="logs", routing_key=key)

    assert Message.objects.using(database).filter(queue__name="errors").count() == 2


def test_a_message_goes_to_the_queues_whose_selectors_match_its_headers(database: str, store: Store) -> None:
    for name, selector in (("eu", "region = 'eu'"), ("big", "size > 100"), ("all", "")):
        declare(store, name)
        store.exchanges.bind(exchange="orders", exchange_type="headers", pattern="", queue=name, selector=selector)

    first = publish(exchange="orders", headers={"region": "eu", "size": 7}, body="x")
    second = publish(exchange="orders", headers={"region": "us", "size": 700}, body="y")

    found = Message.objects.using(database).order_by("message_id", "queue__name")
    assert sorted(found.values_list("message_id", "queue__name")) == sorted(
        [(first, "all"), (first, "eu"), (second, "all"), (second, "big")]
    )


def test_many_messages_are_routed_each_by_its_own_headers(database: str, store: Store) -> None:
    declare(store, "eu")
    store.exchanges.bind(
        exchange="orders", exchange_type="topic", pattern="#", queue="eu", selector="region = 'eu'"
    )

    publish_many(
        [
            OutgoingMessage(exchange="orders", routing_key="new", headers={"region": region}, body=region)
            for region in ("eu", "us", "eu")
        ]
    )

    assert Message.objects.using(database).count() == 2


def test_a_selector_reads_the_priority_and_the_type(database: str, store: Store) -> None:
    declare(store, "urgent")
    selector = "JMSPriority > 6 AND JMSType = 'order'"
    store.exchanges.bind(exchange="orders", exchange_type="headers", pattern="", queue="urgent", selector=selector)

    for priority, kind in ((9, "order"), (9, "bill"), (3, "order")):
        publish(exchange="orders", priority=priority, type=kind)

    assert Message.objects.using(database).count() == 1
