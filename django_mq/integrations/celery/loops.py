"""The event loops that workers of this process have entered and left.

Kombu before 5.6 keeps the loop of a worker that has ended, and a second worker of the process, as
tests have them, would enter it. It turns with the first one's timer: what the second puts off by
its own, tasks with an ETA among them, would never begin.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from kombu.asynchronous import get_event_loop, set_event_loop

_left: WeakSet[Any] = WeakSet()


def entered(loop: Any) -> None:
    """Note that a worker uses the loop."""
    _left.discard(loop)


def left(loop: Any) -> None:
    """Note that no worker uses the loop; one that reconnects enters it again."""
    _left.add(loop)


def forget_left() -> None:
    """Let a worker that is about to be built make a loop of its own, if the present one was left."""
    if get_event_loop() in _left:
        set_event_loop(None)
