"""A handler that waits on the event loop, and one of many messages."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from django_mq.api import apublish, consumer
from tests.journeys.project import diary


@consumer("waits")
async def wait(message: Any) -> None:
    """Note the attempt, wait at a gate, and publish."""
    diary.write(name=message.body, pid=os.getpid())
    try:
        await asyncio.to_thread(diary.wait_at, message.body)
    except asyncio.CancelledError:
        diary.write(name="cancelled")
        raise
    await apublish("plain", message.body)


@consumer("many", bulk=3, bulk_seconds=3600)
def take(messages: list[Any]) -> None:
    """Note the attempts of one call."""
    diary.write(name="-".join(message.body for message in messages), pid=os.getpid())


@consumer("plain")
def note(message: Any) -> None:
    """Run in the pool."""
    diary.write(name=f"plain {message.body}", pid=os.getpid())
