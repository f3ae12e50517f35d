"""Durable handlers: one that runs in the pool, and one on the event loop beside it."""

from __future__ import annotations

import os
from typing import Any

from django_mq.api import consumer
from tests.journeys.project import diary


def note(name: str) -> int:
    """Note that a step runs, and return its process."""
    diary.write(name=name, pid=os.getpid())
    return os.getpid()


@consumer("orders", durable=True)
def ship(message: Any) -> None:
    """Charge, sleep, wait until the order is paid, and send."""
    first = message.step("charge", note, f"charge {message.body}")
    message.sleep(seconds=0.01)
    paid = message.wait_for("paid", message.body)
    message.step("send", note, f"send {message.body} {paid}")
    diary.write(name=f"end {message.body}", pid=first)


@consumer("mails", durable=True)
async def write(message: Any) -> None:
    """Do the same on the event loop."""
    first = await message.astep("draft", note, f"draft {message.body}")
    await message.asleep(seconds=0.01)
    await message.await_for("paid", message.body)
    diary.write(name=f"end {message.body}", pid=first)
