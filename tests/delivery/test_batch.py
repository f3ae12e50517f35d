"""A load's messages that are alike are checked once, and are no others than ``publish`` makes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from django_mq import signals
from django_mq.delivery.batch import publish_batch
from django_mq.delivery.codecs import new_message_ids
from django_mq.delivery.publisher import OutgoingMessage
from django_mq.errors import BodyTooLarge, DuplicateMessage, InvalidMessage, QueueFull, UnknownQueue
from django_mq.models import Message, Queue
from django_mq.stores.records import EPOCH, Times


def test_ids_made_at_once_are_version_7_and_differ() -> None:
    ids = [UUID(bytes=each) for each in new_message_ids(1000)]

    assert len(set(ids)) == 1000
    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    assert max(each.int >> 80 for each in ids) == min(each.int >> 80 for each in ids)
    assert new_message_ids(0) == []


def test_messages_are_written_together(database: str) -> None:
    Queue.objects.using(database).create(name="orders")

    publish_batch(
        OutgoingMessage(queue="orders", priority=9, headers={"a": 1}), [b"1", b"\x00"] * 40, using=database
    )
    publish_batch(OutgoingMessage(queue="orders"), [], using=database)

    rows = Message.objects.using(database)
    assert [*rows.order_by().values_list("priority", "headers").distinct()] == [(9, {"a": 1})]
    assert rows.count() == 80
    assert {bytes(row.body) for row in rows.all()} == {b"1", b"\x00"}


def test_a_declared_limit_holds_from_the_first_load(database: str, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"declared": {"max_messages": 50}}}

    with pytest.raises(QueueFull):
        publish_batch(OutgoingMessage(queue="declared"), [b"1"] * 60, using=database)


def test_a_queue_of_the_settings_is_declared(database: str, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"declared": {}}}

    publish_batch(OutgoingMessage(queue="declared"), [b"1"] * 60, using=database)

    assert Message.objects.using(database).count() == 60
    with pytest.raises(UnknownQueue):
        publish_batch(OutgoingMessage(queue="nowhere"), [b"1"] * 60, using=database)


def test_what_publish_refuses_is_refused(database: str, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_BODY_BYTES": 10}
    Queue.objects.using(database).create(name="orders")

    with pytest.raises(BodyTooLarge):
        publish_batch(OutgoingMessage(queue="orders"), [b"1"] * 60 + [b"1" * 11], using=database)
    with pytest.raises(InvalidMessage):
        publish_batch(OutgoingMessage(queue="orders", priority=10), [b"1"], using=database)

    assert Message.objects.using(database).count() == 0


def test_a_limited_queue_is_held_to_its_limit(database: str) -> None:
    Queue.objects.using(database).create(name="small", max_messages=50, overflow="reject")

    with pytest.raises(QueueFull):
        publish_batch(OutgoingMessage(queue="small"), [b"1"] * 60, using=database)

    ids = [uuid4() for _ in range(50)]
    later = Times([2**52] * 50, [None] * 50)
    given = [each.bytes for each in ids]
    publish_batch(OutgoingMessage(queue="small"), [b"1"] * 50, message_ids=given, times=later, using=database)
    rows = Message.objects.using(database)
    assert set(rows.values_list("message_id", flat=True)) == set(ids)
    assert {row.deliver_at for row in rows.all()} == {EPOCH + timedelta(microseconds=2**52)}


def test_some_bring_an_id_and_a_time(database: str) -> None:
    Queue.objects.using(database).create(name="orders")
    ids = [uuid4() for _ in range(30)]
    given = [each.bytes for each in ids] + [None] * 30
    times = Times([None, 2**52, 1] * 20, [None] * 60)

    publish_batch(OutgoingMessage(queue="orders"), [b"1"] * 60, message_ids=given, times=times, using=database)

    rows = Message.objects.using(database)
    known = set(rows.values_list("message_id", flat=True))
    assert len(known) == 60
    assert known > set(ids)
    assert [rows.filter(state=state).count() for state in (Message.Status.SCHEDULED, Message.Status.READY)] == [
        20,
        40,
    ]
    with pytest.raises(DuplicateMessage):
        publish_batch(OutgoingMessage(queue="orders"), [b"1"] * 60, message_ids=given, using=database)
    assert rows.count() == 60


def test_whoever_listens_sees_each_message(database: str) -> None:
    Queue.objects.using(database).create(name="orders")
    seen: list[str] = []

    def mark(headers: dict[str, Any], queue: str, **_: Any) -> None:
        seen.append(queue)
        headers["marked"] = len(seen)

    signals.message_publishing.connect(mark)
    try:
        publish_batch(OutgoingMessage(queue="orders"), [b"1"] * 60, using=database)
    finally:
        signals.message_publishing.disconnect(mark)

    assert len(seen) == 60
    marked = [row.headers["marked"] for row in Message.objects.using(database).all()]
    assert sorted(marked) == [*range(1, 61)]
