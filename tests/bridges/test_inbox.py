"""What has come is written together, each once; what cannot be read is kept as a dead letter with its reason."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from django_mq.bridges.inbox import BlockedError, Taken, take
from django_mq.bridges.incoming import Incoming
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.receivers import Receiver
from django_mq.models import Message
from django_mq.stores.registry import shared_store

RECEIVER = Receiver(name="in", bridge="other", source="theirs", queue="orders")


def arrival(body: bytes = b"1", **changed: Any) -> Incoming:
    given = {"content_type": "application/json", "headers": {}, "properties": {"message_id": str(uuid4())}}
    return Incoming(**{"body": body, "routing_key": "theirs", **given, **changed})


@pytest.fixture
def store(database: str, settings: Any) -> Any:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_BODY_BYTES": 100}
    found = shared_store(database)
    declare(found, "orders")
    return found


UNREADABLE = (
    (arrival(properties={}), "no id in the property message_id"),
    (arrival(content_type="application/x-python-serialize"), "content type is 'application/x-python-serialize'"),
    (arrival(content_encoding="gzip"), "content encoding is 'gzip'"),
    (arrival(b"{"), "not valid application/json"),
    (arrival(b'"' + b"x" * 100 + b'"'), "The body has 102 bytes"),
    (arrival(headers={"name": "null \0 character"}), "null character"),
    (arrival(b"\xff", content_type="text/plain", content_encoding="utf-8"), "not valid text/plain"),
    (arrival(properties={"message_id": str(uuid4()), "correlation_id": "c" * 300}), "correlation_id is 300"),
    (arrival(fault="It cannot be decompressed: no"), "cannot be decompressed"),
)


def test_what_cannot_be_read_is_kept_with_its_reason(store: Any) -> None:
    good = arrival()
    arrivals = [each for each, _ in UNREADABLE]
    assert take(store, RECEIVER, [*arrivals, good]) == Taken(received=1, kept=len(arrivals))

    rows = Message.objects.using(store.alias).filter(state=Message.Status.DEAD).order_by("id")
    for (given, words), row in zip(UNREADABLE, rows, strict=True):
        assert words in row.dead_reason
        assert bytes(row.body) == given.body
    # The broker sends everything again, because the acknowledgement was lost.
    again = take(store, RECEIVER, [*arrivals, good])
    assert again == Taken(duplicates=len(arrivals) + 1)


def test_ids_are_unique_within_a_batch_and_between_batches(store: Any) -> None:
    first, second = arrival(), arrival()
    assert take(store, RECEIVER, [first, first, second]) == Taken(received=2, duplicates=1)
    assert take(store, RECEIVER, [second, arrival()]) == Taken(received=1, duplicates=1)
    assert Message.objects.using(store.alias).count() == 3


def test_a_hash_or_a_header_is_the_id_where_the_receiver_says_so(store: Any) -> None:
    hashed = Receiver(name="in", bridge="other", source="theirs", queue="orders", without_id="hash")
    plain = {"properties": {}, "headers": {"x-death": [{"count": 1}]}}
    given = [arrival(b"1", **plain), arrival(b"1", properties={}), arrival(b"2", **plain)]
    assert take(store, hashed, given) == Taken(received=2, duplicates=1)
    by_header = Receiver(name="in", bridge="other", source="theirs", queue="orders", id_header="id")
    given = [arrival(headers={"id": "a"}), arrival(b"2", headers={"id": "a"}), arrival(headers={"id": 7})]
    assert take(store, by_header, given) == Taken(received=2, duplicates=1)


def test_the_routing_key_names_the_queue_where_the_receiver_names_none(store: Any) -> None:
    by_key = Receiver(name="in", bridge="other", source="theirs", dead_letter_queue="orders")
    given = [arrival(routing_key="orders"), arrival(routing_key="nowhere"), arrival(routing_key="")]
    assert take(store, by_key, given) == Taken(received=1, kept=2)
    reasons = Message.objects.using(store.alias).exclude(dead_reason="").values_list("dead_reason", flat=True)
    assert sorted(reasons) == [
        "It has no routing key, which would name its queue here.",
        "There is no queue 'nowhere', its routing key.",
    ]


def test_a_queue_that_is_not_there_or_remembers_nothing_blocks(store: Any) -> None:
    nowhere = Receiver(name="in", bridge="other", source="theirs", queue="nowhere")
    with pytest.raises(BlockedError, match="no queue 'nowhere'"):
        take(store, nowhere, [arrival(), arrival()])
    declare(store, "forgetful", {"dedup_count": 0})
    with pytest.raises(BlockedError, match="remembers no ids"):
        take(store, Receiver(name="in", bridge="other", source="theirs", queue="forgetful"), [arrival()])
