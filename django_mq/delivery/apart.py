"""Threads and their database connections; Django refuses its connections to a thread that runs an event loop."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

#: Most threads of a pool, each with a database connection of its own. They are started one by one, when
#: those that are there are busy.
MOST_THREADS = 8

_this_thread = threading.local()


class ApartThreads:
    """A pool of threads that use the database for event loops.

    A forked child begins with none: its parent's threads do not exist there.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._executor = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=self._name, initializer=_enter)

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The pool of this process."""
        return self._executor


def _enter() -> None:
    _this_thread.apart = True


def works_for_event_loop() -> bool:
    """Return whether this thread is of such a pool: an event loop, or its coroutines, wait for the thread."""
    return getattr(_this_thread, "apart", False)


def has_connected() -> bool:
    """Whether a connection of Django's was ever opened in this thread: if not, there is none to put in order.

    Looking through Django's connections takes longer than all the rest of a short attempt.
    """
    return getattr(_this_thread, "connected", False)


def _prepare(connection: BaseDatabaseWrapper, **_: Any) -> None:
    _this_thread.connected = True
    if works_for_event_loop() and not connection.get_autocommit():
        # The transaction of the coroutine's caller is none of this thread's.
        connection.set_autocommit(True)


connection_created.connect(_prepare, dispatch_uid="django_mq.delivery.apart")
