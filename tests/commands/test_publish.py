"""mq_publish: one message from the command line."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.errors import DuplicateMessage
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")


@pytest.fixture(autouse=True)
def orders(database: str) -> None:
    """A queue to publish to."""
    declare(shared_store(database), "orders")


def message(alias: str) -> Message:
    return Message.objects.using(alias).get()


def test_the_id_is_printed(database: str, run: Run) -> None:
    printed = run("mq_publish", "orders", '{"total": 3}')

    assert printed == f"{message(database).message_id}\n"
    assert (bytes(message(database).body), message(database).content_type) == (b'{"total":3}', "application/json")


def test_every_property_can_be_given(database: str, run: Run) -> None:
    given = ["--priority=9", "--ttl=60", "--header=a=b", "--header=c=d=e", "--type=order"]
    given += ["--group-key=customer-7", "--correlation-id=order-3", "--dedup-id=order-3-paid"]

    run("mq_publish", "orders", "1", *given, "--message-id=00000000-0000-7000-8000-000000000001")

    row = message(database)
    assert (row.priority, row.type, row.headers) == (9, "order", {"a": "b", "c": "d=e"})
    assert (row.group_key, row.correlation_id) == ("customer-7", "order-3")
    assert row.expires_at
    assert str(row.message_id) == "00000000-0000-7000-8000-000000000001"
    with pytest.raises(DuplicateMessage, match="order-3-paid"):
        publish("orders", 2, dedup_id="order-3-paid", using=database)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2031-01-31T09:00+01:00", datetime(2031, 1, 31, 8, tzinfo=UTC)),
        ("2031-01-31 09:00", datetime(2031, 1, 31, 8, tzinfo=UTC)),
    ],
    ids=["with an offset", "in the site's zone"],
)
def test_a_time_is_read_in_the_sites_zone(
    database: str, run: Run, settings: Any, time: str, expected: datetime
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"

    run("mq_publish", "orders", "null", f"--deliver-at={time}")

    assert message(database).deliver_at == expected


@pytest.mark.parametrize(
    ("arguments", "body", "content_type"),
    [
        (["null"], b"null", "application/json"),
        (["--text", "gr\u00fc\u00dfe"], "grüße".encode(), "text/plain"),
        (["--binary", "\udcff"], b"\xff", "application/octet-stream"),
    ],
)
def test_a_body_is_what_the_command_line_says(
    database: str, run: Run, arguments: list[str], body: bytes, content_type: str
) -> None:
    run("mq_publish", "orders", *arguments)

    assert (bytes(message(database).body), message(database).content_type) == (body, content_type)


def test_a_body_is_read_from_a_file(database: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\x00\x01")

    run("mq_publish", "orders", "--binary", "--file", tmp_path / "body")

    assert bytes(message(database).body) == b"\x00\x01"


def test_a_body_is_read_from_the_standard_input(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}')))

    run("mq_publish", "orders", "-")

    assert bytes(message(database).body) == b'{"a":1}'


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere", "1"], "There is no queue 'nowhere'"),
        (["orders"], "Give the BODY, '-' to read it from the standard input, or --file"),
        (["orders", ""], "not JSON"),
        (["orders", "hello"], "not JSON.*--text"),
        (["orders", "NaN"], "cannot be written as JSON"),
        (["orders", "\udcff", "--text"], "not UTF-8.*--binary"),
        (["orders", "1", "--priority=10"], "priority is 10"),
        (["orders", "1", "--delay=-1"], "delay is -1.0"),
        (["orders", "1", "--ttl=nan"], "ttl is nan"),
        (["orders", "1", "--deliver-at=soon"], "'soon' is not a valid date and time"),
        (["orders", "1", "--deliver-at=2031-02-30T00:00"], "is not a valid date and time: day is out of range"),
        (["orders", "1", "--deliver-at=2031-01-01T00:00", "--delay=5"], "Give deliver_at or delay, not both"),
        (["orders", "1", "--header=novalue"], "not of the form NAME=VALUE"),
        (["orders", "1", "--message-id=7"], "message_id must be a UUID"),
        (["orders", "1", "--file=x"], "not both"),
        (["orders", "--file=/no/such/file"], "cannot be read"),
        (["orders", "1", "--binary", "--text"], "not allowed with"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(
    database: str, run: Run, arguments: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        run("mq_publish", *arguments)

    assert not Message.objects.using(database).exists()


def test_a_message_is_published_once_more_with_edits(database: str, run: Run) -> None:
    declare(shared_store(database), "mails")
    traced = {"Traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "", "baggage": "", "sentry-trace": ""}
    headers = {"tenant": "north", "step": 1, "x-origin-queue": "elsewhere", **traced}
    given = {"type": "invoice", "priority": 7, "group_key": "north", "correlation_id": "c"}
    first = publish("orders", {"total": 3}, headers=headers, **given)
    messages = Message.objects.using(database)

    same = json.loads(run("mq_publish", "mails", "--copy", first, "--json"))["message_id"]
    edited = json.loads(
        run("mq_publish", "orders", "--copy", first, '{"total": 4}', "--priority=9", "--header=step=2", "--json")
    )["message_id"]

    assert [value_of(messages.get(message_id=one)) for one in (same, edited)] == [
        ("mails", {"total": 3}, "invoice", 7, {"tenant": "north", "step": 1}),
        ("orders", {"total": 4}, "invoice", 9, {"tenant": "north", "step": "2"}),
    ]
    assert {(row.group_key, row.correlation_id) for row in messages} == {("north", "c")}
    assert messages.count() == 3


def value_of(message: Message) -> tuple[str, Any, str, int, Any]:
    return message.queue.name, json.loads(bytes(message.body)), message.type, message.priority, message.headers


def test_bytes_are_copied_as_they_are(database: str, run: Run) -> None:
    first = publish("orders", b"\xff\x00", content_type="image/png")

    copy = json.loads(run("mq_publish", "orders", "--copy", first, "--json"))["message_id"]

    message = Message.objects.using(database).get(message_id=copy)
    assert (bytes(message.body), message.content_type) == (b"\xff\x00", "image/png")


def test_what_is_not_there_cannot_be_copied(database: str, run: Run) -> None:
    with pytest.raises(CommandError, match=r"no message 00000000-.* to copy"):
        run("mq_publish", "orders", "--copy", "00000000-0000-7000-8000-000000000001")
