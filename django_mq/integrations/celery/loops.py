"""The event loops that workers of this process have entered and left.

Kombu before 5.6 keeps the loop of a worker that has ended, and a second worker of the process, as
tests have them, would enter it. It turns with the first one's timer: what the second puts off by
its own, tasks with an ETA among them, would never begin.
"""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakSet

from kombu.asynchronous import get_event_loop, set_event_loop

from django_mq.stores.connections import ApartThreads

if TYPE_CHECKING:
    from collections.abc import Callable


class _Poller:
    """A loop's poller that calls a function before the loop acts on what it has waited for."""

    def __init__(self, poller: Any, before: Callable[[], None]) -> None:
        self.poller = poller
        self._before = before

    def poll(self, timeout: float | None = None) -> Any:
        events = self.poller.poll(timeout)
        self._before()
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self.poller, name)


_left: WeakSet[Any] = WeakSet()


def before_events(loop: Any, function: Callable[[], None]) -> None:
    """Call the function each time the loop has waited: the process may have stood still meanwhile."""
    after_events(loop)
    loop.poller = _Poller(loop.poller, function)


def after_events(loop: Any) -> None:
    """Call nothing any more."""
    if isinstance(loop.poller, _Poller):
        loop.poller = loop.poller.poller


def entered(loop: Any) -> None:
    """Note that a worker uses the loop."""
    _left.discard(loop)


def left(loop: Any) -> None:
    """Note that no worker uses the loop; one that reconnects enters it again."""
    after_events(loop)
    _left.add(loop)


def forget_left() -> None:
    """Let a worker that is about to be built make a loop of its own, if the present one was left."""
    if get_event_loop() in _left:
        set_event_loop(None)


# Work that an event loop's thread must not do itself.
#
# Django refuses its connections to a thread with a running loop. ``.delay()`` in an async
# view blocks the loop for one INSERT, as it does with every broker; only the INSERT is
# made by another thread, on that thread's own connection, in autocommit. The INSERT does not
# wait for room in a full queue: the loop would stand still meanwhile.

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
