"""Several handlers of a queue: by selector, by type, shared."""

from __future__ import annotations

import os
from typing import Any

from django_mq.api import consumer, publish
from tests.journeys.project import diary


def note(handler: str, message: Any) -> None:
    """Note the attempt, and wait at a gate if the body names one."""
    diary.write(name=message.body, handler=handler, pid=os.getpid())
    if message.body.startswith("held"):
        diary.wait_at("held")


@consumer("parcels", type="parcel.v2", transactional=True, priority=2)
def send(message: Any) -> None:
    """Publish in the transaction of the attempt."""
    publish("sent", message.body)
    note("v2", message)


@consumer("parcels", selector="region = 'eu'", time_limit_seconds=1, max_attempts=1)
def send_in_europe(message: Any) -> None:
    """Exceed the limit if asked."""
    note("eu", message)
    if message.body == "slow":
        diary.wait_at("slow")


@consumer("parcels")
def send_anywhere(message: Any) -> None:
    """Take the rest."""
    note("rest", message)


@consumer("letters", shared=True, priority=1, credit=1)
def read(message: Any) -> None:
    """Take what the other one need not."""
    note("first", message)


@consumer("letters", shared=True)
def read_later(message: Any) -> None:
    """Take letters while the first one is busy."""
    note("second", message)


@consumer("sent")
def count(message: Any) -> None:
    """Run in the pool."""
    diary.write(name=f"sent {message.body}", pid=os.getpid())
