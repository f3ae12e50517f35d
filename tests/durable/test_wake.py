"""A sleep that a program or an operator ends early."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import transaction

from django_mq.api import emit, publish, wake
from django_mq.durable.models import DurableStep
from django_mq.durable.panel import show
from django_mq.engine.states import State
from django_mq.errors import InvalidMessage, NotAsleep, UnsupportedRule
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.testing import QueueTester

    Handle = Callable[..., None]


def test_a_sleep_that_is_ended_early_is_remembered_and_the_next_one_lasts(
    alias: str, mq: QueueTester, handle: Handle
) -> None:
    done: list[str] = []

    def ship(message: Any) -> None:
        message.sleep(hours=1)
        message.step("first", done.append, "first")
        message.sleep(days=3)
        message.step("second", done.append, "second")
        message.sleep(days=3)
        message.step("third", done.append, "third")

    handle(ship)
    woken = publish("orders", 1)
    other = publish("orders", 2)
    mq.drain()
    mq.drain(ahead=timedelta(hours=1))
    assert done == ["first"] * 2

    with transaction.atomic(using=alias):
        wake(woken)
        transaction.set_rollback(True, using=alias)  # a wake is a part of the caller's transaction
    assert mq.drain().outcomes == []
    wake(str(woken))
    message = Message.objects.using(alias).select_related("queue").get(message_id=woken)
    assert (message.state, message.park_key, message.attempts) == (State.READY.value, None, 0)
    outcomes = DurableStep.objects.using(alias).filter(message_id=woken, kind="sleep").order_by("place")
    assert list(outcomes.values_list("outcome", flat=True)) == ["open", "woken"]  # that of now, and not the first
    assert "ended early" in show(None, message)  # type: ignore[arg-type] # as no user is asked for
    assert mq.drain().outcomes == ["released"]
    assert done == ["first", "first", "second"]
    assert mq.drain(ahead=timedelta(days=2)).outcomes == []
    wake(woken)
    assert mq.drain().outcomes == ["accepted"]
    assert done[3:] == ["third"]
    assert Message.objects.using(alias).get().message_id == other
    assert Message.objects.using(alias).get().state == State.PARKED.value


def test_what_does_not_sleep_is_not_woken_and_said_why(alias: str, mq: QueueTester, handle: Handle) -> None:
    handle(lambda message: message.wait_for("paid", "7"))
    waiting = publish("orders", 1)
    mq.drain()
    ready = publish("orders", 2)
    none = uuid4()
    cases: list[tuple[Any, type[Exception], str]] = [
        (waiting, NotAsleep, "waits for the event 'paid 7'. Emit it."),
        (ready, NotAsleep, f"no handler of {ready} sleeps, its message is ready"),
        (none, NotAsleep, f"there is no message {none}"),
        ("no id", InvalidMessage, "no id"),
        (None, InvalidMessage, "None"),
    ]
    for given, kind, words in cases:
        with pytest.raises(kind) as raised:
            wake(given)
        assert words in str(raised.value), given
    assert set(DurableStep.objects.using(alias).values_list("outcome", flat=True)) == {"open"}
    with pytest.raises(UnsupportedRule):
        wake(waiting, using=":memory:")
    emit("paid", "7")
    assert mq.drain().outcomes == ["accepted", "accepted"]


def test_a_coroutine_that_sleeps_is_woken(mq: QueueTester, handle: Handle) -> None:
    done: list[int] = []

    async def ship(message: Any) -> None:
        await message.asleep(days=1)
        await message.astep("end", done.append, message.body)

    handle(ship)
    message_id = publish("orders", 1)
    mq.drain()
    wake(message_id)
    assert mq.drain().outcomes == ["accepted"]
    assert done == [1]
