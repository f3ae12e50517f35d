"""Durable handlers that are coroutine functions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import emit, publish
from django_mq.errors import ConfigurationError, StepMisused

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.testing import QueueTester

    Handle = Callable[..., None]


def test_a_coroutine_goes_on_where_it_was(mq: QueueTester, handle: Handle) -> None:
    done: list[Any] = []

    async def note(value: Any) -> Any:
        await asyncio.sleep(0)
        done.append(value)
        return value

    async def ship(message: Any) -> None:
        await message.astep("one", note, "one")
        await message.asleep(days=1)
        if await message.apatched("new"):
            await message.astep("two", done.append, await message.await_for("paid", "7"))

    handle(ship)
    publish("orders", 1)
    assert mq.drain().outcomes == ["released"]
    assert mq.drain(ahead=timedelta(days=1)).outcomes == ["released"]
    emit("paid", "7", "two")
    assert mq.drain().outcomes == ["accepted"]
    assert done == ["one", "two"]


def test_steps_of_a_coroutine_run_one_after_the_other(mq: QueueTester, handle: Handle) -> None:
    async def ship(message: Any) -> None:
        await asyncio.gather(*(message.astep("one", asyncio.sleep, 0.01) for _ in range(2)))

    handle(ship, max_attempts=1)
    publish("orders", 1)
    [attempt] = mq.drain(raise_errors=False)
    assert isinstance(attempt.error, StepMisused)


def test_a_coroutine_cannot_have_transactions(mq: QueueTester, handle: Handle) -> None:
    async def ship(message: Any) -> None:
        """Never called."""

    with pytest.raises(ConfigurationError, match="cannot be transactional"):
        handle(ship, transactional=True)
