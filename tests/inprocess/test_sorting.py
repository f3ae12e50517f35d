"""Sorted queues: the place of a message is the value of one header."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.sorting import FIRST, NUMBER, TIME, Sorting
from django_mq.engine.message import Message
from django_mq.errors import InvalidMessage
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)


def place(value: Any, kind: str = NUMBER) -> int:
    return Sorting("by", kind).place("q", {"by": value})


@given(NUMBERS, NUMBERS)
def test_places_are_in_the_order_of_numbers(one: float, other: float) -> None:
    assert (place(one) < place(other)) == (float(one) < float(other))
    assert (place(one) == place(other)) == (float(one) == float(other))
    assert FIRST < place(one) < 2**63


ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
TIMES = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES)  # noqa: DTZ001


@given(TIMES, TIMES)
def test_places_are_in_the_order_of_times(one: datetime, other: datetime) -> None:
    assert (place(one.isoformat(), TIME) < place(other.isoformat(), TIME)) == (one < other)


def test_a_time_in_utc_may_end_with_z() -> None:
    assert place("2031-05-01T12:00:00Z", TIME) == place(datetime(2031, 5, 1, 12, tzinfo=UTC).isoformat(), TIME)


@pytest.mark.parametrize("value", ["7", True, [7], {}, 10**400, float("nan"), float("inf")], ids=repr)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"sorted by the header .by., which is .* give it a number"):
        place(value)


@pytest.mark.parametrize(
    "value", [7, "soon", "2031-05-01T12:00:00", "2031-05-01", "0001-01-01T00:00+23:00", "x" * 99]
)
def test_what_is_no_time_is_refused(value: Any) -> None:
    if value == "0001-01-01T00:00+23:00":  # before the calendar in UTC, and still a time
        assert place(value, TIME) < 0
        return
    with pytest.raises(InvalidMessage, match="give it a time with its offset"):
        place(value, TIME)


def test_an_error_shows_the_first_characters_of_a_long_value() -> None:
    with pytest.raises(InvalidMessage, match=r"which is 'x{200}\.\.\.': give it"):
        place("x" * 201, TIME)


@pytest.mark.parametrize("headers", [{}, {"by": None}])
def test_a_missing_header_is_refused(headers: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage, match="the message has none: give it a number"):
        Sorting("by").place("q", headers)
    assert Sorting("by").place_or_first(headers) == FIRST


def test_a_queue_in_process_is_sorted_too() -> None:
    queue = Queue("q", Rules(kind="fifo", sorting=Sorting("by")))
    for name, by in (("b", 2), ("a", 1.5), ("c", 2), ("first", None), ("negative", -3)):
        queue.publish(Message(id=name, headers={} if by is None else {"by": by}), 0.0)
    queue.publish(Message(id="early", headers={"by": -9}, deliver_at=5.0), 0.0)

    assert [entry.message.id for entry in queue.browse()] == ["first", "negative", "a", "b", "c"]
    queue.promote(6.0)
    assert [entry.message.id for entry in queue.browse()][:2] == ["first", "early"]
