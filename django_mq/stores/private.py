"""A worker's own connections: never in ``django.db.connections``, never shared over a fork.

Celery's Django fixup closes every registered connection around each task, and prefork
children are forked again and again while the parent holds its sockets. A child must
neither use nor close them: a driver's goodbye would end the parent's session.

Each connection has a lock that its store holds during an operation: a keeper and a
driver may share a store, and a fork waits until nobody is inside a file-based database.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.db import connections

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

_open: WeakKeyDictionary[BaseDatabaseWrapper, threading.RLock] = WeakKeyDictionary()
#: Those whose open handle must not cross a fork.
_closed_at_forks: WeakKeyDictionary[BaseDatabaseWrapper, None] = WeakKeyDictionary()
#: Locks held while this process forks.
_held: list[threading.RLock] = []
#: Driver connections inherited by a child; kept alive so that no destructor says goodbye.
_inherited: list[Any] = []


def private_connection(alias: str) -> BaseDatabaseWrapper:
    """Return a new connection wrapper of its own, usable from any one thread at a time.

    It opens lazily, and again by itself after ``close()``. It commits each statement, whatever the project's
    ``AUTOCOMMIT`` says.
    """
    connection = connections.create_connection(alias)
    connection.settings_dict = {**connection.settings_dict, "AUTOCOMMIT": True}
    connection.inc_thread_sharing()
    _open[connection] = threading.RLock()
    return connection


def lock_of(connection: BaseDatabaseWrapper) -> threading.RLock:
    """Return the lock to hold during an operation on a private connection."""
    return _open[connection]


def close_at_forks(connection: BaseDatabaseWrapper) -> None:
    """Close this connection before every fork: its open handle must not cross one."""
    _closed_at_forks[connection] = None


def _close_before_fork() -> None:
    # An open SQLite handle must not cross a fork at all: the child's locks would be the
    # parent's. The wrapper opens a new one at its next statement. A thread inside the
    # handle is waited for; what it waits for itself is bounded by the busy timeout.
    for connection in [reference() for reference in _closed_at_forks.keyrefs()]:
        if connection is not None:
            lock = _open[connection]
            lock.acquire()
            _held.append(lock)
            connection.close()


def _release_after_fork() -> None:
    while _held:
        _held.pop().release()


def _abandon_in_child() -> None:
    _release_after_fork()
    for connection in [reference() for reference in _open.keyrefs()]:
        if connection is None:
            continue
        # A thread of the parent may have held the old one, and it does not exist here.
        _open[connection] = threading.RLock()
        driver = connection.connection
        if driver is not None:
            _inherited.append(driver)
            _point_at_nothing(driver)
            connection.connection = None


def _point_at_nothing(driver: Any) -> None:
    """Replace the inherited socket by /dev/null, so that nothing the child does reaches the server."""
    try:
        socket = driver.fileno()
    except Exception:  # noqa: BLE001 - a closed or foreign driver has no socket to protect
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, socket)
    os.close(nothing)


os.register_at_fork(
    before=_close_before_fork, after_in_parent=_release_after_fork, after_in_child=_abandon_in_child
)
