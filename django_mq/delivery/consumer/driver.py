"""What a session knows of the loop that drives it, and calls of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.decisions.session import LoopState, loop_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.records import ConsumerInfo, WorkerCommand


class Loop:
    """The loop of one worker, which all sessions of the worker share. Any thread may read it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._turned_at = time.monotonic()
        #: The error with which the loop has ended, if it has.
        self.error: BaseException | None = None

    def turn(self, *, waits_seconds: float = 0.0) -> None:
        """Note that the loop turns, in this thread, or waits for so long by its own choice."""
        self._thread, self._turned_at = threading.current_thread(), time.monotonic() + waits_seconds

    def fail(self, error: BaseException) -> None:
        """Note that the loop has ended with an error."""
        self.error = error

    @property
    def has_driver(self) -> bool:
        """Whether the thread of the loop still runs."""
        return self._thread is None or self._thread.is_alive()

    @property
    def still_seconds(self) -> float:
        """How long the loop has made no turn."""
        return time.monotonic() - self._turned_at

    @property
    def state(self) -> LoopState:
        """What the heartbeat is to do about the loop."""
        is_over = self.error is not None or not self.has_driver
        return loop_state(is_over=is_over, still_seconds=self.still_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a heartbeat writes of the consumers."""

    consumers: tuple[ConsumerInfo, ...] = ()
    #: Their credit together, 0 for no limit.
    credit: int = 0
    #: How many messages are being handled, and how many can be at a time; None where nothing counts them.
    busy: int | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The callbacks of the loop that drives a session. The heartbeat's thread calls them."""

    #: The session's name; empty for one made of host and process.
    name: Callable[[], str] = str
    #: All its queues, those included that it does not claim from at the moment.
    queues: Callable[[], tuple[str, ...]] = tuple
    describe: Callable[[], Workload] = Workload
    #: Called with an operator's new command.
    on_command: Callable[[WorkerCommand], object] = lambda told: told
    #: Called when messages were given back to their places, the first of them delayed by so many seconds.
    came_back: Callable[[float], object] = lambda seconds: seconds
    #: The loop, None where the heartbeat does not know of one: a program's own consumer.
    loop: Callable[[], Loop | None] = lambda: None
    #: Whether the worker was told to end: it claims no more.
    leaves: Callable[[], bool] = bool
    #: Called in each round of the heartbeat, for what the driver may be too busy to do.
    on_round: Callable[[], object] = lambda: None
