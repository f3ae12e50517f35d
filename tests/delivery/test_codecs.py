"""Bodies and headers to bytes and back; what is corrupt says so."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from http import HTTPStatus
from typing import Any
from uuid import UUID

import pytest
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.translation import gettext_lazy

from django_mq.delivery.codecs import decode_body, decode_headers, encode_body, encode_headers, encode_json
from django_mq.errors import BodyNotSerialisable, CorruptMessage, InvalidMessage

#: A list that contains itself.
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "body", [None, True, 0, 1.5, "", "Bücher \U0001f600", [], {"a": [1, {"b": None}]}, b"", b"\x00\xff", "n\x00"]
)
def test_what_went_in_comes_out(body: Any) -> None:
    assert decode_body(*encode_body(body)) == body


@pytest.mark.parametrize("body", [bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_of_any_kind_come_out_as_bytes(body: Any) -> None:
    assert decode_body(*encode_body(body)) == b"ab"


def test_text_stays_text() -> None:
    assert encode_body("grüße", "text/plain") == ("grüße".encode(), "text/plain")
    assert decode_body(*encode_body("grüße", "text/plain")) == "grüße"


@pytest.mark.parametrize(
    "value",
    [
        "Bücher \U0001f600",
        "\ud83d",
        10**40,
        1e300,
        -0.0,
        True,
        {1: (2,), None: [], 2.5: {}},
        HTTPStatus.OK,
        gettext_lazy("Yes"),
    ],
)
def test_json_is_written_as_the_standard_library_writes_it(value: Any) -> None:
    assert encode_json(value, "body") == json.dumps(value, cls=DjangoJSONEncoder, separators=(",", ":"))


@pytest.mark.parametrize(
    "value", [CIRCLE, float("nan"), {"a": float("inf")}, {(1, 2): 3}, {"a": {1, 2}}, object()]
)
def test_what_json_has_no_words_for_is_refused(value: Any) -> None:
    with pytest.raises(BodyNotSerialisable, match="The body cannot be written as JSON"):
        encode_json(value, "body")


def test_dates_decimals_and_ids_are_written_as_django_writes_them() -> None:
    body = {"on": date(2031, 1, 2), "total": Decimal("1.50"), "id": UUID(int=0)}

    encoded, _ = encode_body(body)

    assert json.loads(encoded) == {"on": "2031-01-02", "total": "1.50", "id": str(UUID(int=0))}


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2031, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        datetime(2031, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2))),
        datetime(2031, 1, 2, 3, 4, 5, 1),  # noqa: DTZ001 - a naive one
        datetime(2031, 1, 2, tzinfo=UTC),
        time(3, 4, 5, 678901),
    ],
)
def test_times_keep_their_microseconds(moment: Any) -> None:
    body, headers = decode_body(*encode_body([moment])), decode_headers(encode_headers({"at": moment}))

    assert [type(moment).fromisoformat(text) for text in (*body, headers["at"])] == [moment, moment]


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Decimal("1.10"), "Decimal.'1.10'. is no text and no number of JSON. Give it as a float"),
        ([{"deep": Decimal(1)}], "as a float"),
        (timedelta(seconds=5), "total_seconds"),
        (float("inf"), "not JSON compliant"),
        (Colour.RED, "Colour"),
        (b"x", "bytes"),
        pytest.param(10**5000, "digits", id="digits"),
    ],
)
def test_a_header_that_would_be_another_value_in_json_is_refused(value: Any, words: str) -> None:
    with pytest.raises(InvalidMessage, match=f"The headers cannot be written as JSON: .*{words}"):
        encode_headers({"a": value})


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (date(2031, 1, 2), "2031-01-02"),
        (UUID(int=0), str(UUID(int=0))),
        (gettext_lazy("Yes"), "Yes"),
        (True, True),
        (1, 1),
        (HTTPStatus.OK, 200),
        pytest.param(10**400, 10**400, id="large"),
        (2**53 + 1, 2**53 + 1),
        (2.0**53, 2.0**53),
        (1e23, 99999999999999991611392),
    ],
)
def test_a_header_is_stored_as_what_it_is(value: Any, stored: Any) -> None:
    [found] = decode_headers(encode_headers({"a": value})).values()

    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        (b"{", "application/json", "utf-8"),
        (b"\xff", "application/json", "utf-8"),
        (b"\xff", "text/plain", "utf-8"),
        (b"{}", "application/json", "no-such-encoding"),
        (b"a-", "text/plain", "punycode"),
        (b"a", "text/plain", "idna"),
        (b"a", "text/plain", "utf-7"),
        (b"[" * 100_000, "application/json", "utf-8"),
    ],
    ids=["cut off", "no utf-8", "no text", "unknown encoding", "punycode", "idna", "utf-7", "too deep"],
)
def test_a_corrupt_body_says_what_it_should_have_been(body: bytes, content_type: str, encoding: str) -> None:
    with pytest.raises(CorruptMessage, match=f"The body is not valid {content_type}"):
        decode_body(body, content_type, encoding)


@pytest.mark.parametrize(
    "encoding", ["UTF8", "utf_8", "utf-16", "utf-32", "ISO-8859-1", "latin1", "us-ascii", "binary"]
)
def test_an_encoding_goes_by_any_of_its_names(encoding: str) -> None:
    body = "[1]".encode("utf-8" if encoding == "binary" else encoding)

    assert decode_body(body, "application/json", encoding) == [1]


@pytest.mark.parametrize(
    "text", ["{", "[]", '"a"', "3", "[" * 100_000], ids=["cut", "list", "text", "number", "deep"]
)
def test_corrupt_headers_say_so(text: str) -> None:
    with pytest.raises(CorruptMessage, match="The headers are"):
        decode_headers(text)


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_no_headers_are_an_empty_dictionary(text: str | None) -> None:
    assert decode_headers(text) == {}
