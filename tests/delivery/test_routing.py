"""From an exchange to queues: AMQP's direct, topic and fanout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.api import publish
from django_mq.delivery.declaring import declare
from django_mq.delivery.routing import matches
from django_mq.models import Message

if TYPE_CHECKING:
    from django_mq.stores.base import Store


@pytest.mark.parametrize(
    ("pattern", "key", "taken"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.bc", False),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("*", "", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("#", "", True),
        ("#", "a", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "ab", False),
        ("#.c", "c", True),
        ("#.c", "a.b.c", True),
        ("#.c", "a.b.cd", False),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.b.b.c", True),
        ("a.#.c", "a.b", False),
        ("#.b.#", "b", True),
        ("#.b.#", "a.b.c", True),
        ("#.b.#", "a.c", False),
        ("*.#", "a", True),
        ("*.#", "", False),
        ("#.*", "a", True),
        ("#.#", "", True),
        ("#.#", "a.b", True),
        ("a+b", "a+b", True),
        ("a+b", "aab", False),
        ("a.b", "a\nb", False),
        ("", "", True),
    ],
)
def test_a_topic_pattern_takes_whole_words(pattern: str, key: str, taken: bool) -> None:
    assert matches("topic", pattern, key) is taken


def test_a_direct_pattern_is_taken_literally() -> None:
    assert matches("direct", "a.*", "a.*")
    assert not matches("direct", "a.*", "a.b")


def test_fanout_takes_everything() -> None:
    assert matches("fanout", "ignored", "anything")


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
