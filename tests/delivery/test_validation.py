"""Every way to publish refuses bad input with a typed error and a clear sentence, and writes nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import publish
from django_mq.delivery import validation
from django_mq.errors import BodyNotSerialisable, BodyTooLarge, InvalidMessage
from django_mq.models import Message
from django_mq.pipeline import outgoing

if TYPE_CHECKING:
    from pytest_django import Settings

NOON = datetime(2031, 1, 1, 12, tzinfo=UTC)
NAIVE = datetime(2031, 1, 1, 12)  # noqa: DTZ001 - what is to be refused
LATEST = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"priority": 10}, "priority is 10; use 0 to 9"),
        ({"priority": -1}, "priority is -1; use 0 to 9"),
        ({"priority": True}, "priority must be a whole number"),
        ({"priority": "7"}, "priority must be a whole number"),
        ({"priority": 4.0}, "priority must be a whole number"),
        ({"priority": None}, "priority must be a whole number"),
        ({"deliver_at": NAIVE}, "deliver_at is a naive datetime"),
        ({"expires_at": NAIVE}, "expires_at is a naive datetime"),
        ({"deliver_at": "tomorrow"}, "deliver_at must be a datetime, not str"),
        ({"deliver_at": LATEST}, "beyond the calendar"),
        ({"deliver_at": datetime.max.replace(tzinfo=UTC)}, "beyond the calendar of some time zone"),
        ({"expires_at": datetime.min.replace(tzinfo=UTC)}, "beyond the calendar of some time zone"),
        ({"deliver_at": NOON, "delay": 5}, "Give deliver_at or delay, not both"),
        ({"expires_at": NOON, "ttl": 5}, "Give expires_at or ttl, not both"),
        ({"delay": -1}, "delay is -1; use 0 or more seconds"),
        ({"delay": timedelta(seconds=-1)}, "delay is -1.0"),
        ({"delay": math.inf}, "less than a century"),
        ({"delay": math.nan}, "delay is nan"),
        ({"delay": "5"}, "delay must be a timedelta or a number of seconds"),
        ({"delay": True}, "delay must be a timedelta or a number of seconds"),
        ({"ttl": -0.5}, "ttl is -0.5"),
        ({"delay": 4, "ttl": 4}, "would expire before it is delivered"),
        ({"deliver_at": NOON, "expires_at": NOON}, "would expire before it is delivered"),
        ({"headers": [("a", 1)]}, "headers must be a dictionary"),
        ({"headers": {1: "a"}}, "with strings as keys"),
        ({"headers": {"a": object()}}, "headers cannot be written as JSON"),
        ({"headers": {"a": math.nan}}, "headers cannot be written as JSON"),
        ({"headers": {"a": Decimal("1.5")}}, "Decimal.*Give it as a float"),
        ({"headers": {"a": ["n\x00ll"]}}, "headers contains a null character"),
        ({"headers": {"n\x00ll": 1}}, "headers contains a null character"),
        ({"headers": {"a": "\ud800"}}, "half a surrogate pair"),
        ({"message_id": "42"}, "message_id must be a UUID"),
        ({"message_id": 42}, "message_id must be a UUID"),
        ({"type": 5}, "type must be a string"),
        ({"type": "t" * 256}, "type is 256 characters long; at most 255 fit"),
        ({"type": "n\x00ll"}, "type contains a null character"),
        ({"correlation_id": "\udfff"}, "correlation_id contains half a surrogate pair"),
        ({"group_key": "g" * 256}, "group_key is 256 characters long"),
        ({"content_type": "text/" + "x" * 100, "body": b""}, "content_type is 105 characters long"),
        ({"queue": ""}, "Name the queue to publish to, or an exchange"),
        ({"queue": None}, "Name the queue"),
        ({"queue": 5}, "Name the queue"),
        ({"queue": "q" * 201}, "at most 200 fit"),
        ({"queue": "n\x00ll"}, "contains a null character"),
        ({"exchange": "e"}, "Name a queue or an exchange, not both"),
        ({"queue": "", "exchange": "e", "routing_key": 5}, "routing_key must be a string"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    database: str, orders: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidMessage, match=sentence):
        publish(**{"queue": orders, **given})

    assert not Message.objects.using(database).exists()


@pytest.mark.parametrize(
    "body",
    [object(), {object()}, math.nan, {"a": math.inf}, {(1, 2): 3}, CIRCLE, b"".join],
    ids=["object", "set of objects", "nan", "infinity", "tuple key", "circle", "method"],
)
def test_a_body_that_is_no_json_is_refused(database: str, orders: str, body: Any) -> None:
    with pytest.raises(BodyNotSerialisable, match="body cannot be written as JSON"):
        publish(orders, body)


def test_text_that_is_no_unicode_is_refused(database: str, orders: str) -> None:
    with pytest.raises(BodyNotSerialisable, match="half a surrogate pair"):
        publish(orders, "\ud800", content_type="text/plain")


def test_another_content_type_wants_bytes(database: str, orders: str) -> None:
    with pytest.raises(BodyNotSerialisable, match="'image/png' must be given as bytes"):
        publish(orders, {"a": 1}, content_type="image/png")


def test_the_largest_body_fits_and_one_byte_more_does_not(database: str, orders: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_BODY_BYTES": 100}
    publish(orders, b"x" * 100)

    with pytest.raises(BodyTooLarge, match="body has 101 bytes"):
        publish(orders, b"x" * 101)
    with pytest.raises(BodyTooLarge, match="headers have 1"):
        publish(orders, headers={"a": "x" * 100})


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"smile": "\U0001f600", "spelt": "\\u0000"}},
        {"type": "Bücher", "correlation_id": "日本", "group_key": "\U0001f600"},
        {"body": "n\x00ll \ud800"},
        {"body": b"\x00\xff"},
        {"delay": 0, "ttl": 0},
        {"headers": None, "correlation_id": None, "type": None},
    ],
)
def test_unusual_input_is_taken(database: str, orders: str, given: dict[str, Any]) -> None:
    publish(orders, **given)

    assert Message.objects.using(database).count() == 1


def test_the_pipeline_takes_the_same_times() -> None:
    bounds = [timedelta(microseconds=moment) for moment in (outgoing.FIRST_MOMENT, outgoing.LAST_MOMENT)]

    known = [validation.EARLIEST, validation.LATEST]
    assert [datetime(1970, 1, 1, tzinfo=UTC) + bound for bound in bounds] == known
