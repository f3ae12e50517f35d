"""What a handler, its message and the clock may do that is not meant to be: each has a stated end."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import emit, publish, redrive
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.errors import EventTimedOut, StepMismatch, UnusableEvent, UnusableResult
from django_mq.models import Message
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.testing import QueueTester

    Handle = Callable[..., None]


def test_an_event_that_nothing_waits_for_is_kept_for_its_time(alias: str, mq: QueueTester, handle: Handle) -> None:
    got: list[Any] = []
    handle(lambda message: got.append(message.wait_for("paid", message.body, timeout_seconds=0)))
    emit("paid", "kept", 1)
    emit("paid", "gone", 2, ttl_seconds=60)
    clock.offset += timedelta(days=6)
    for key in ("kept", "gone"):
        publish("orders", key)
    drained = mq.drain(raise_errors=False)

    assert got == [1]
    assert [type(each.error) for each in drained] == [type(None), EventTimedOut]


def test_two_messages_that_wait_for_one_event_both_get_it(alias: str, mq: QueueTester, handle: Handle) -> None:
    got: list[Any] = []
    handle(lambda message: got.append((message.body, message.wait_for("paid", "7"))))
    for body in (1, 2):
        publish("orders", body)
    assert mq.drain().outcomes == ["released", "released"]
    assert emit("paid", "7", "yes")
    assert mq.drain().outcomes == ["accepted", "accepted"]
    assert sorted(got) == [(1, "yes"), (2, "yes")]
    assert not DurableStep.objects.using(alias).exists()


def test_a_step_that_is_renamed_while_its_handler_sleeps_makes_a_dead_letter(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    done: list[str] = []

    def old(message: Any) -> None:
        message.step("charge", done.append, "charge")
        message.sleep(days=1)

    def renamed(message: Any) -> None:
        message.step("pay", done.append, "pay")
        message.sleep(days=1)

    handle(old)
    message_id = publish("orders", 1)
    mq.drain()
    handle(renamed)
    [attempt] = mq.drain(ahead=timedelta(days=1), raise_errors=False)
    assert isinstance(attempt.error, StepMismatch)
    assert (attempt.outcome, done) == ("dead", ["charge"])

    handle(old)  # the old way is put back
    redrive([message_id])
    assert mq.drain().outcomes == ["accepted"]
    assert done == ["charge"]


def test_a_clock_that_jumps_forth_and_back_ends_each_sleep_and_wait_once(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    done: list[Any] = []

    def ship(message: Any) -> None:
        message.sleep(hours=1)
        try:
            message.wait_for("paid", timeout_seconds=3600)
        except EventTimedOut:
            message.step("remind", done.append, "remind")
        message.sleep(hours=1)
        message.step("end", done.append, "end")

    handle(ship)
    publish("orders", 1)
    mq.drain()
    clock.offset += timedelta(days=1)  # the sleep ends too early
    assert mq.drain().outcomes == ["released"]
    clock.offset += timedelta(days=1)
    assert mq.drain().outcomes == ["released"]
    assert done == ["remind"]
    clock.offset -= timedelta(days=2)  # it waits for as long as it did by the clock before
    assert mq.drain().outcomes == []
    emit("paid")  # too late: that it has not come is recorded
    assert mq.drain(ahead=timedelta(days=2, hours=1)).outcomes == ["accepted"]
    assert done == ["remind", "end"]


def test_a_result_that_no_database_can_keep_makes_a_dead_letter(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for result in (math.nan, math.inf, {1, 2}, b"bytes", {(1, 2): 3}, circle, deep):
        handle(lambda message, result=result: message.step("odd", lambda: result))
        publish("orders", 1)
        [attempt] = mq.drain(raise_errors=False)
        assert isinstance(attempt.error, UnusableResult), (result if result is not deep else "deep", attempt.error)
        assert attempt.outcome == "dead"
        assert not DurableStep.objects.using(alias).exists()
        Message.objects.using(alias).all().delete()


def test_texts_that_are_hard_to_store_come_back_as_they_were(alias: str, mq: QueueTester, handle: Handle) -> None:
    got: list[Any] = []
    values = ["\x00", "\ud800", "😀", {"1": "ä\x00"}, 10**30]

    def ship(message: Any) -> None:
        got.append([message.step("odd", lambda value=value: value) for value in values])
        got[-1].append(message.wait_for("odd"))
        if len(got) == 1:
            raise ValueError("on purpose")

    handle(ship)
    emit("odd", "", values)
    publish("orders", 1)
    mq.drain(raise_errors=False)
    assert got == [[*values, values]] * 2


def test_names_and_keys_are_told_apart_as_they_are_written(alias: str, mq: QueueTester, handle: Handle) -> None:
    handle(lambda message: message.wait_for("paid", "Ä"))
    publish("orders", 1)
    mq.drain()
    for name, key in (("Paid", "Ä"), ("paid", "ä"), ("paid", "A"), ("paid", " Ä")):
        assert emit(name, key), (name, key)
    assert mq.drain().outcomes == []
    assert emit("paid", "Ä")
    assert mq.drain().outcomes == ["accepted"]
    assert DurableEvent.objects.using(alias).count() == 5


def test_an_event_that_cannot_be_stored_is_refused(alias: str) -> None:
    for given in (
        ("\ud800",),
        ("paid", "\ud800"),
        ("paid", "\x00"),
        (b"paid",),
        ("paid", None),
        ("paid", "7 "),
        ("paid ",),
    ):
        with pytest.raises(UnusableEvent):
            emit(*given)  # type: ignore[arg-type]
    for payload in (math.nan, {1}, object()):
        with pytest.raises(UnusableEvent):
            emit("paid", "7", payload)
    assert not DurableEvent.objects.using(alias).exists()
