"""Threads for the code of attempts that does not run on the event loop, such as Django's ORM.

``asgiref`` runs the thread-sensitive functions of one context in one thread: without contexts of their own, all
attempts would share one thread and its connections. Here each attempt has a context. It gets a thread when it
first needs one, and keeps it until it ends, so that what it sets on a connection stays. There are few threads: an
attempt waits until one is free. For a thread, each attempt is a unit of work: it leaves nothing on connections.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import SyncToAsync
from django.db import connections

from django_mq.delivery.consumer.unit_of_work import adopt_thread, begin_unit, end_unit

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Threads:
    """A number of threads, each started when all others are busy. Each serves one executor after the other."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = self._idle = 0
        self._waiting: SimpleQueue[AttemptExecutor | None] = SimpleQueue()
        self._lock = threading.Lock()

    def serve(self, executor: AttemptExecutor) -> None:
        """Have the next free thread run the functions of this executor, until it is shut down."""
        with self._lock:
            self._waiting.put(executor)
            must_start = self._started < self._most and self._idle < self._waiting.qsize()
            self._started += must_start
        if must_start:
            threading.Thread(target=self._work, name="django_mq-async", daemon=True).start()

    def stop(self) -> None:
        """End the threads, each when the executor that it serves is shut down."""
        with self._lock:
            for _ in range(self._started):
                self._waiting.put(None)

    def _next(self) -> AttemptExecutor | None:
        with self._lock:
            self._idle += 1
        executor = self._waiting.get()
        with self._lock:
            self._idle -= 1
        return executor

    def _work(self) -> None:
        adopt_thread()
        try:
            while (executor := self._next()) is not None:
                begin_unit()
                try:
                    executor.work()
                finally:
                    end_unit()
        finally:
            connections.close_all()  # this thread's own


class AttemptExecutor(Executor):
    """Runs the functions of one attempt in one thread, one after the other."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._has_thread = False
        self._is_over = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function. Raises RuntimeError after ``shutdown``."""
        if self._is_over:
            raise RuntimeError(
                "The attempt has ended. Await the tasks that a handler creates before it returns: they cannot use"
                " the database afterwards."
            )
        future: Future[T] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        if not self._has_thread:
            self._has_thread = True
            self._threads.serve(self)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - the loop does not wait
        """Run nothing more, and let the thread go when its function has returned."""
        self._is_over = True
        if self._has_thread:
            self._calls.put(None)

    def work(self) -> None:
        """Run the functions in this thread until ``shutdown``."""
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it is raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(result)
            del call, future, function


class AttemptContext:
    """What ``asgiref`` knows a thread-sensitive context by."""

    #: Newer versions look here, and would not ask the executor.
    _exited = False

    def __init__(self, threads: Threads) -> None:
        self._executor = AttemptExecutor(threads)

    def enter(self) -> None:
        """Let the thread-sensitive functions of this task, and of those it creates, run in one thread."""
        SyncToAsync.thread_sensitive_context.set(self)  # type: ignore[arg-type]  # asgiref's own is a class without uses
        SyncToAsync.context_to_thread_executor[self] = self._executor  # type: ignore[index]

    def leave(self) -> None:
        """Let the thread go."""
        self._executor.shutdown()


class DefaultExecutor(ThreadPoolExecutor):
    """What an event loop runs functions in by itself, as for ``asyncio.to_thread``: each is a unit of work."""

    def __init__(self, most: int) -> None:
        self._own = Threads(most)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in any thread."""
        executor = AttemptExecutor(self._own)
        future = executor.submit(fn, *args, **kwargs)
        executor.shutdown()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - threads that do not end must not keep the process
        """End the threads when their functions have returned."""
        self._own.stop()
