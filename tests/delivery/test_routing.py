"""From an exchange to queues: a message is written into each that is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.models import Message

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_a_message_goes_once_to_every_queue_that_matches(database: str, store: Store) -> None:
    for name in ("all", "errors", "other"):
        declare(store, name)
    for pattern, queue in (("#", "all"), ("*.error", "all"), ("*.error", "errors"), ("*.info", "other")):
        store.bind(exchange="logs", exchange_type="topic", pattern=pattern, queue=queue)

    message_id = publish(exchange="logs", routing_key="web.error", body="hot")

    found = Message.objects.using(database).order_by("queue__name").values_list("queue__name", "message_id")
    assert list(found) == [("all", message_id), ("errors", message_id)]


def test_a_message_that_matches_nothing_is_published_to_nobody(database: str, store: Store) -> None:
    declare(store, "errors")
    store.bind(exchange="logs", exchange_type="direct", pattern="error", queue="errors")

    publish(exchange="logs", routing_key="info")
    publish(exchange="no-such-exchange", routing_key="info")

    assert not Message.objects.using(database).exists()
