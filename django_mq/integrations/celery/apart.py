"""Work that an event loop's thread must not do itself.

Django refuses its connections to a thread with a running loop. ``.delay()`` in an async
view blocks the loop for one INSERT, as it does with every broker; only the INSERT is
made by another thread, on that thread's own connection, in autocommit. The INSERT does not
wait for room in a full queue: the loop would stand still meanwhile.
"""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from django_mq.delivery.apart import ApartThreads

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

threads = ApartThreads("django_mq-apart")


def apart_from_event_loops(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function in another thread when this one runs an event loop."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if not _under_event_loop():
            return function(*args, **options)
        return threads.executor.submit(function, *args, **options).result()

    return call


def _under_event_loop() -> bool:
    # Not get_running_loop(): every publish would raise and catch what says "none".
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - named in its documentation
