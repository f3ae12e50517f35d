"""Events reach what waits for them, whichever comes first."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.api import cancel, emit, publish
from django_mq.delivery.consumer import handlers
from django_mq.delivery.consumer.handlers import consumer, handler_of
from django_mq.delivery.queues import declare
from django_mq.durable.duty import prune_events, prune_steps, wake
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.engine.states import State
from django_mq.errors import EventTimedOut, UnsupportedRule, UnusableEvent
from django_mq.models import Message
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from tests.delivery.builders import running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    from django_mq.testing import QueueTester

    Handle = Callable[..., None]


def test_a_wait_gets_the_first_event_of_its_key_before_and_after(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    got: list[Any] = []

    def ship(message: Any) -> None:
        got.append((message.body, message.wait_for("paid", message.body), message.wait_for("paid", message.body)))

    handle(ship)
    assert emit("paid", "early", {"by": "card"})
    for body in ("early", "late", "other"):
        publish("orders", body)
    assert mq.drain().outcomes == ["accepted", "released", "released"]
    assert emit("paid", "late")
    assert not emit("paid", "late", "again")
    assert mq.drain().outcomes == ["accepted"]
    assert got == [("early", {"by": "card"}, {"by": "card"}), ("late", None, None)]
    message = Message.objects.using(alias).get()
    assert (message.state, message.parked_until, message.attempts) == (State.PARKED.value, None, 0)

    cancel([message.message_id])
    assert not DurableStep.objects.using(alias).exists()


def test_a_wait_that_times_out_says_so_also_when_the_event_comes_later(mq: QueueTester, handle: Handle) -> None:
    got: list[Any] = []

    def ship(message: Any) -> None:
        try:
            got.append(message.wait_for("paid", "7", timeout_seconds=60))
        except EventTimedOut as error:
            got.append(str(error))
        message.sleep(days=1)

    handle(ship)
    publish("orders", 1)
    mq.drain()
    mq.drain(ahead=61)
    emit("paid", "7")
    mq.drain(ahead=timedelta(days=2))
    assert got == ["The event 'paid 7' has not come in time."] * 2

    handle(lambda message: message.wait_for("never", timeout_seconds=0))
    publish("orders", 1)
    [attempt] = mq.drain(raise_errors=False)
    assert attempt.outcome == "dead"


def test_events_are_kept_for_their_time_and_records_of_nothing_are_not(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    store, rows = shared_store(alias), DurableEvent.objects.using(alias)
    handle(lambda message: message.wait_for("waited"))
    publish("orders", 1)
    mq.drain()
    emit("short", ttl_seconds=60)
    emit("usual")
    clock.offset += timedelta(days=1)
    assert prune_events(store, 100) == 1
    assert emit("short")
    clock.offset += timedelta(days=30)
    prune_events(store, 100)
    assert [row.name for row in rows.all()] == ["waited"]  # a message waits for it
    assert prune_steps(store, 100) == 0
    Message.objects.using(alias).all().delete()  # without a word to anybody
    assert prune_steps(store, 100) == 1
    assert prune_events(store, 100) == 1


def test_a_wait_that_an_emit_could_not_free_is_freed_later(alias: str, mq: QueueTester, handle: Handle) -> None:
    handle(lambda message: message.wait_for("paid"))
    publish("orders", 1)
    mq.drain()
    emit("paid")
    # As if the row had been locked by another transaction.
    row = Message.objects.using(alias)
    event = DurableEvent.objects.using(alias).get()
    row.update(state=State.PARKED.value, park_key=f"durable event {event.pk}")
    assert wake(shared_store(alias), 100) == 1
    assert mq.drain().outcomes == ["accepted"]


def test_what_is_no_event_is_refused_before_anything_is_written(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MAX_BODY_BYTES": 1000}
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        (("",), {}, "The name of an event is ''"),
        (("x" * 201,), {}, "1 to 200 characters"),
        (("paid", 7), {}, "such as str"),
        (("paid", "\x00"), {}, "a database can store"),
        (("paid", "7", object()), {}, "cannot be written as JSON"),
        (("paid", "7", "x" * 1000), {}, "1,002 bytes; .* allows 1,000"),
        (("paid",), {"ttl_seconds": -1}, "ttl_seconds is -1"),
    ]
    for given, options, words in cases:
        with pytest.raises(UnusableEvent, match=words):
            emit(*given, **options)
    with pytest.raises(UnsupportedRule, match="do not support events"):
        emit("paid", using=":memory:")
    assert not DurableEvent.objects.using(alias).exists()


def test_a_wait_and_an_emit_at_the_same_time_do_not_miss_each_other(
    committed_database: str, settings: Settings
) -> None:
    alias, rounds = committed_database, 12
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 3600}
    declare(shared_store(alias), "orders")
    barriers = [threading.Barrier(2) for _ in range(rounds)]
    got: list[tuple[int, int]] = []
    met: set[int] = set()

    def ship(message: Any) -> None:
        number = message.body
        if number not in met:
            met.add(number)
            barriers[number].wait(PATIENCE_SECONDS)
        got.append((number, message.wait_for("paid", str(number))))

    def emit_all() -> None:
        for number in range(rounds):
            barriers[number].wait(PATIENCE_SECONDS)
            with transaction.atomic(using=alias):
                emit("paid", str(number), number, using=alias)
        connections[alias].close()

    consumer("orders", durable=True)(ship)
    try:
        for number in range(rounds):
            publish("orders", number)
        emitter = threading.Thread(target=emit_all)
        with running(handler_of("orders"), using=alias, threads=1):
            emitter.start()
            wait_until(lambda: len(got) == rounds)
            emitter.join()
            wait_until(lambda: not Message.objects.using(alias).exists())
    finally:
        handlers.forget("orders")
    assert sorted(got) == [(number, number) for number in range(rounds)]
    assert not DurableStep.objects.using(alias).exists()
