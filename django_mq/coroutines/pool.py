"""The pool of a worker that runs coroutine functions: one event loop in a thread, and a task for each attempt.

Each task has contextvars of its own, and a context for ``asgiref``: see ``threads.py``. A time limit cancels the
task. What does not end then is given up, as a thread is. When the worker ends, it waits for the tasks; if it is to
end at once, they are cancelled, and their messages go back after they have ended.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_mq.coroutines.threads import AttemptContext, DefaultExecutor, Threads
from django_mq.coroutines.watcher import Watcher
from django_mq.delivery.consumer.pool import LEAST_ABANDONED
from django_mq.engine.decisions.interruption import Interruption
from django_mq.engine.decisions.verdict import RELEASE
from django_mq.stores.records import Settlement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from django_mq.delivery.consumer.attempt import Delivery
    from django_mq.delivery.consumer.pool import NextAttempt

logger = logging.getLogger("django_mq.delivery")

#: How long a coroutine that is cancelled has to end, in seconds.
GRACE_SECONDS = 5.0


def in_any_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Make a receiver of signals one that is awaited: an attempt that needs no thread is not to wait for one."""
    return sync_to_async(function, thread_sensitive=False)


@dataclass(slots=True)
class Run:
    """A task that runs an attempt."""

    task: asyncio.Task[None]
    begun_at: float
    #: The end of its time limit on the monotonic clock, or, once it is cancelled, of its time to end.
    deadline: float | None
    is_cancelled: bool = False


class EventLoopPool:
    """A fixed number of slots, each a task."""

    gathers = False

    def __init__(
        self,
        slots: int,
        *,
        threads: int,
        next_attempt: NextAttempt,
        on_done: Callable[[Delivery, Settlement], None],
        on_idle: Callable[[], None],
    ) -> None:
        """Start the event loop; ``threads`` is how many attempts may use a thread at a time."""
        self.slots = slots
        self._next_attempt = next_attempt
        self._on_done = on_done
        self._on_idle = on_idle
        self._running: dict[Delivery, Run] = {}
        # Tasks that still run an attempt that was taken away.
        self._abandoned: set[asyncio.Task[None]] = set()
        self._woken = self._stopping = False
        self._threads = Threads(threads)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DefaultExecutor(threads))
        self._thread = threading.Thread(target=self._work, name="django_mq-event-loop", daemon=True)
        self._watcher = Watcher(
            self._loop, self._thread, is_needed=lambda: bool(self._running), name=self._name_current
        )
        self._thread.start()

    @property
    def running(self) -> int:
        """How many attempts run."""
        return len(self._running)

    @property
    def free(self) -> int:
        """How many attempts could begin now."""
        return self.slots - self.running

    @property
    def abandoned(self) -> int:
        """How many tasks still run an attempt that was given up."""
        return len(self._abandoned)

    @property
    def exhausted(self) -> bool:
        """Whether too many tasks are abandoned, or one of them keeps the loop from running any other."""
        return self.abandoned >= max(self.slots, LEAST_ABANDONED) or self._is_held_up

    @property
    def _is_held_up(self) -> bool:
        return bool(self._abandoned) and self._watcher.is_blocked

    def wake(self, messages: int | None = None, *, patient: bool = False) -> None:  # noqa: ARG002 - the loop begins what it can
        """Let the loop begin attempts."""
        if not self._woken and not self._stopping:
            self._woken = True
            self._loop.call_soon_threadsafe(self._begin)

    def abandon_overdue(self) -> list[tuple[Delivery, Settlement]]:
        """Cancel the attempts that exceed their time limit; return those that do not end, and are given up."""
        now = time.monotonic()
        given_up = []
        for attempt, run in list(self._running.items()):
            if run.deadline is None or now < run.deadline:
                continue
            if not run.is_cancelled:
                run.deadline = now + GRACE_SECONDS
                self._cancel(attempt, run, Interruption.TIME_LIMIT)
            elif self._abandon(attempt, run):
                given_up.append((attempt, attempt.expire()))
        if self._is_held_up:  # the others cannot end, and are not at fault
            for attempt, run in list(self._running.items()):
                if self._abandon(attempt, run):
                    attempt.message.end_request.ask(Interruption.STOPPING)
                    given_up.append((attempt, Settlement(attempt.claimed.id, attempt.claimed.claim, RELEASE)))
        return given_up

    def attempts(self) -> list[tuple[Delivery, float]]:
        """Return the attempts that run, each with when it began."""
        return [(attempt, run.begun_at) for attempt, run in list(self._running.items())]

    def interrupt(self, attempt: Delivery, reason: Interruption) -> None:
        """Cancel the task of an attempt that is cancelled; another attempt is asked to end."""
        run = self._running.get(attempt)
        if run is not None and reason is Interruption.CANCELLED and not run.is_cancelled:
            self._cancel(attempt, run, reason)
        else:
            attempt.message.end_request.ask(reason)

    def _cancel(self, attempt: Delivery, run: Run, reason: Interruption) -> None:
        run.is_cancelled = True
        attempt.message.end_request.ask(reason)
        self._loop.call_soon_threadsafe(run.task.cancel)

    def abandon(self, attempt: Delivery) -> bool:
        """Give up an attempt; False if it has just ended."""
        run = self._running.get(attempt)
        return run is not None and self._abandon(attempt, run)

    def _abandon(self, attempt: Delivery, run: Run) -> bool:
        """Take an attempt away from its task; False if it has just ended."""
        self._abandoned.add(run.task)  # first: the task removes itself when it notices
        if self._take_away(attempt):
            return True
        self._abandoned.discard(run.task)
        return False

    def _take_away(self, attempt: Delivery) -> bool:
        # The caller that removes the attempt settles it.
        return self._running.pop(attempt, None) is not None

    def stop(self) -> None:
        """Begin no other attempt."""
        self._stopping = True

    def disown(self) -> None:
        """Cancel the running attempts, whose outcomes are ignored, and end the loop once they have ended."""
        self._stopping = True
        for attempt in list(self._running):
            attempt.message.end_request.ask(Interruption.STOPPING)
        self._running.clear()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GRACE_SECONDS)
        self._watcher.stop()

    # In the thread of the loop.

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._cancel_all()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._threads.stop()
            self._loop.close()

    def _cancel_all(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))

    def _begin(self) -> None:
        """Begin as many attempts as there are free slots."""
        self._woken = False
        while not self._stopping and len(self._running) < self.slots:
            attempt = self._next_attempt()
            if attempt is None:
                self._on_idle()
                return
            limit, now = attempt.handler.time_limit_seconds, time.monotonic()
            task = self._loop.create_task(self._run(attempt), context=Context())
            self._running[attempt] = Run(task, now, None if limit is None else now + limit)

    async def _run(self, attempt: Delivery) -> None:
        context = AttemptContext(self._threads)
        context.enter()
        try:
            settlement = await attempt.arun(in_any_thread)
        except asyncio.CancelledError as error:  # before the handler began
            attempt.error = attempt.reason_of(error)
            settlement = attempt.conclude()
        finally:
            context.leave()
        if self._take_away(attempt):
            self._on_done(attempt, settlement)
            self._begin()
        else:
            task = asyncio.current_task()
            if task is not None:
                self._abandoned.discard(task)

    def _name_current(self) -> str:
        """Name the attempt that the loop runs, in another thread."""
        task = asyncio.current_task(self._loop)
        for attempt, run in list(self._running.items()):
            if run.task is task:
                return f"Handler {attempt.handler.name} of message {attempt.message.id}"
        return "A callback" if task is None else f"The task {task.get_name()!r}"
