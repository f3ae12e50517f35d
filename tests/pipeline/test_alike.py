"""Rows that are alike are found by columns, and make the messages that each row alone would make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from django_mq.delivery.publisher import publish_many
from django_mq.errors import BodyNotSerialisable, DuplicateMessage, InvalidMessage, WrongColumns
from django_mq.models import Message, Queue
from django_mq.pipeline.outgoing import SIGNATURE, groups, outgoing_messages, publish, signature

MESSAGE = ("queue__name", "priority", "headers", "type", "content_type", "body", "group_key", "correlation_id")
#: What a message has beyond that if its row says so.
OWN = ("message_id", "state", "place", "deliver_at", "expires_at")
LONG_AGO, MUCH_LATER = datetime(2001, 2, 3, 4, 5, 6, 789, UTC), datetime(2901, 2, 3, tzinfo=UTC)


def table(count: int, **columns: Any) -> pa.RecordBatch:
    """A batch; a function makes a column of its row's number."""
    made = {name: [of(number) for number in range(count)] for name, of in columns.items()}
    return pa.RecordBatch.from_pydict(made)


def looks(alias: str, *, own: bool) -> list[tuple[Any, ...]]:
    found = Message.objects.using(alias).values_list(*MESSAGE, *(OWN if own else ()))
    return sorted((tuple(map(str, row[:5])), bytes(row[5]), str(row[6:])) for row in found)


BATCHES = {
    "one group": table(90, queue=lambda _: "orders", body=lambda n: f'{{"n": {n}}}'),
    "six groups": table(
        120,
        queue=lambda n: ("orders", "bills")[n % 2],
        body=str,
        priority=lambda n: (None, 1, 9)[n % 3],
        headers=lambda n: None if n % 2 else '{"a": 1}',
    ),
    "all of their own": table(
        30, queue=lambda _: "orders", body=lambda n: b"%d" % n, correlation_id=lambda n: f"c-{n}"
    ),
    "bytes and nothing": table(
        80, queue=lambda _: "orders", body=lambda n: None if n % 4 == 0 else b"\x00\xff", type=lambda _: "t"
    ),
    "ids and times of their own": table(
        90,
        queue=lambda _: "orders",
        body=str,
        message_id=lambda n: str(UUID(int=n)),
        deliver_at=lambda n: (LONG_AGO, MUCH_LATER, None)[n % 3],
        expires_at=lambda n: (MUCH_LATER + timedelta(days=n), None)[n % 2],
    ),
    "ids spelled otherwise": table(
        90, queue=lambda _: "orders", body=str, message_id=lambda n: (UUID(int=n).hex, str(UUID(int=n)))[n % 2]
    ),
    "one expiry": table(
        90,
        queue=lambda _: "orders",
        body=str,
        message_id=lambda n: str(UUID(int=n)),
        expires_at=lambda _: MUCH_LATER,
    ),
    "texts": table(
        80,
        queue=lambda _: "orders",
        body=lambda n: f" {n} ",
        content_type=lambda n: ("text/plain", None, "application/json", "text/csv")[n % 4],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_the_messages_are_those_that_each_row_makes(database: str, name: str) -> None:
    for queue in ("orders", "bills"):
        Queue.objects.using(database).create(name=queue)
    publish_many(outgoing_messages(BATCHES[name]), using=database)
    one_by_one = looks(database, own="message_id" in BATCHES[name].schema.names)
    Message.objects.using(database).all().delete()

    publish(BATCHES[name], database)

    assert looks(database, own="message_id" in BATCHES[name].schema.names) == one_by_one


def test_groups_are_told_by_every_column_but_the_body() -> None:
    found = groups(BATCHES["six groups"])

    assert found is not None
    assert sorted(len(rows) for rows in found) == [20] * 6
    assert sorted(number for rows in found for number in rows.tolist()) == [*range(120)]
    assert groups(BATCHES["all of their own"]) is None
    due = table(50, queue=lambda _: "q", body=lambda _: "1", message_id=lambda n: None if n else "x")
    assert [len(rows) for rows in groups(due) or ()] == [50]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"queue": lambda _: "orders", "body": lambda n: "1" if n < 70 else "hello"}, WrongColumns),
        ({"queue": lambda _: "orders", "body": lambda n: "1" if n < 70 else "1, 2"}, WrongColumns),
        ({"queue": lambda _: "orders", "body": lambda n: "1" if n < 70 else ""}, WrongColumns),
        ({"queue": lambda n: "orders" if n < 40 else None, "body": lambda _: "1"}, WrongColumns),
        ({"queue": lambda _: "orders", "body": lambda _: "1", "headers": lambda _: "{"}, WrongColumns),
        (
            {"queue": lambda _: "orders", "body": lambda _: "1", "message_id": lambda n: "x" * (n == 70) or None},
            InvalidMessage,
        ),
        (
            {"queue": lambda _: "orders", "body": lambda _: "1", "message_id": lambda n: str(UUID(int=n % 79))},
            DuplicateMessage,
        ),
        (
            {"queue": lambda _: "orders", "body": lambda _: None, "content_type": lambda _: "text/csv"},
            BodyNotSerialisable,
        ),
    ],
)
def test_a_row_that_makes_no_message_is_refused(
    database: str, columns: dict[str, Any], error: type[Exception]
) -> None:
    Queue.objects.using(database).create(name="orders")

    with pytest.raises(error):
        publish(table(80, **columns), database)


def test_signatures_do_not_depend_on_the_order_of_rows() -> None:
    batch = BATCHES["six groups"]
    turned = batch.take(pa.array(reversed(range(120))))
    numbers = pa.array([2**63 - 1, 2**62, -5], pa.int64())
    signed = pa.RecordBatch.from_arrays([pa.array(["a", "b", "c"]), numbers], names=["queue", SIGNATURE])

    assert signature(batch)[0] == signature(turned)[0]
    total, messages = signature(signed)
    assert total % 2**64 == sum(numbers.to_pylist()) % 2**64
    assert messages.schema.names == ["queue"]
