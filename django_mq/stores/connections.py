"""The private connections of workers, and the translation of database errors.

A private connection is never in ``django.db.connections`` and never shared over a fork. Celery's Django fixup
closes every registered connection around each task, and prefork children are forked again and again while the
parent holds its sockets. A child must neither use nor close them: a driver's goodbye would end the parent's
session. The store holds the lock of a private connection during each operation, because several threads may share
the store, and a fork waits until no thread is inside a file-based database.

A fork also copies the locks inside SQLite's library as they are. One that another thread holds at that moment
stays locked in the child for ever, and the child hangs in its first statement. So a fork waits for threads of this
package that use Django's connections, too.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, utils
from django.db.backends.signals import connection_created

from django_mq.errors import LockHeld, StoreError, StoreUnavailable, TablesMissing
from django_mq.process import at_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

#: The server ends a transaction of a worker that sends nothing for so many seconds: its locks end with it.
IDLE_SECONDS = 5
#: Seconds that a claim waits for a lock. The wait of a worker that is stopped must end before the server ends the
#: transaction of another stopped worker, or the first one would get the lock.
LOCK_SECONDS = 3
#: Longest time that a fork waits for threads with Django's connections, in seconds: they may wait for a server.
FORK_SECONDS = 5.0

_open: WeakKeyDictionary[BaseDatabaseWrapper, threading.RLock] = WeakKeyDictionary()
#: Connections that are closed before a fork.
_closed_at_forks: WeakKeyDictionary[BaseDatabaseWrapper, None] = WeakKeyDictionary()
#: Locks of threads that use Django's connections.
_used_beside: WeakSet[Any] = WeakSet()
#: Locks held while this process forks.
_held: list[threading.RLock] = []
#: Driver connections inherited by a child; kept alive so that no destructor says goodbye.
_inherited: list[Any] = []


def private_connection(alias: str) -> BaseDatabaseWrapper:
    """Return a new connection wrapper of its own, usable from any one thread at a time.

    It opens lazily, and again by itself after ``close()``. It commits each statement, even where the project's
    ``AUTOCOMMIT`` is off.
    """
    connection = connections.create_connection(alias)
    connection.settings_dict = {**connection.settings_dict, "AUTOCOMMIT": True}
    # With DEBUG, Django logs the statements; it would keep them until the next request.
    connection.queries_log = deque(maxlen=0)
    connection.inc_thread_sharing()
    _open[connection] = threading.RLock()
    return connection


def lock_of(connection: BaseDatabaseWrapper) -> threading.RLock:
    return _open[connection]


def close_at_forks(connection: BaseDatabaseWrapper) -> None:
    """Close this connection before every fork: its open handle must not cross one."""
    _closed_at_forks[connection] = None


def lock_against_forks() -> threading.RLock:
    """Return a lock to hold while a thread uses Django's connections: a fork waits for it, up to some seconds."""
    lock = threading.RLock()
    _used_beside.add(lock)
    return lock


def has_ended(driver: Any) -> bool:
    """Whether an idle connection has ended, or has a notice for the next statement, as far as its socket tells."""
    try:
        descriptor = driver.fileno()
    except AttributeError:
        return False  # a file-based database
    except Exception:  # noqa: BLE001 - a closed driver has no socket
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def _close_before_fork() -> None:
    until = time.monotonic() + FORK_SECONDS
    locks = list(_used_beside)
    _held.extend(lock for lock in locks if lock.acquire(timeout=max(0.0, until - time.monotonic())))
    # The child's locks in SQLite would be the parent's. The wrapper opens a new handle with its next statement.
    # The fork waits for a thread inside the handle, whose own wait is bounded by the busy timeout.
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
    _used_beside.clear()  # their threads do not exist here
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


at_fork(before=_close_before_fork, after_in_parent=_release_after_fork, after_in_child=_abandon_in_child)


#: Whether a handler runs in the transaction of a test: its coroutines publish in the thread of that transaction.
in_test: ContextVar[bool] = ContextVar("django_mq_in_test", default=False)

#: How PostgreSQL says, as a programming error, that a table or column is not there.
MISSING_IN_POSTGRESQL = ("does not exist",)
#: How SQLite says it, as an operational error.
MISSING_IN_SQLITE = ("no such table", "no such column", "has no column named")
#: How SQLite reports a statement that it cannot parse: trying again would not help.
SENSELESS = "syntax error"
#: A prepared statement returns other columns since a migration: PostgreSQL says so as an unsupported feature.
OUTDATED = "cached plan must not change"
#: How PostgreSQL, and MariaDB and MySQL, say that a wait for a lock has lasted too long.
LOCKED = {"55P03", 1205}
#: What may go away by itself although the driver does not call it operational, by its SQLSTATE: a prepared
#: statement that is gone, because the project ran DISCARD ALL or DEALLOCATE ALL; a transaction in which nothing
#: came, or which took too long; a server that takes no writes: a standby, as after a failover.
PASSING_IN_POSTGRESQL = {
    "26000": "A prepared statement of this connection is not valid any more",
    "25P03": "The database has ended the connection",
    "25P04": "The database has ended the connection",
    "25006": "The database is read-only now",
}
#: MariaDB and MySQL number their errors: a table or a column that is not there ...
MISSING_IN_MYSQL = {1146, 1054}
#: ... and what may go away by itself. Their driver calls nearly everything an operational error.
PASSING_IN_MYSQL = {
    *(1021, 1114),  # the disk, or a table on it, is full
    *(1040, 1203, 1226),  # too many connections
    *(1044, 1045, 1049),  # the server does not let us in, or not yet
    *(1053, 1158, 1159, 1160, 1161, 1184, 1317, 1927),  # the server shuts down, or cut the connection
    *(1206, 1213),  # locks
    *(1290, 1792, 1836),  # no writes: a replica, as after a failover
    *(1969, 3024),  # the statement's time is up
    4031,  # the server ended the connection because nothing came
    *range(2000, 2100),  # the client's: the connection was lost, or there was none
}


@contextmanager
def translating(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Raise StoreUnavailable, TablesMissing or StoreError instead of any driver error.

    StoreUnavailable is what may go away by itself: a lost connection, a dead-lock, a lock
    or statement timeout, a full disk, a database that takes no writes.
    """
    try:
        with connection.wrap_database_errors:
            yield
    except utils.DatabaseError as error:
        raise _translated(error, connection.alias) from error
    except utils.InterfaceError as error:
        raise StoreUnavailable(f"The connection to the database is gone: {_line(error)}") from error


def _translated(error: utils.DatabaseError, alias: str) -> StoreError:
    cause, text, line = error.__cause__, str(error), _line(error)
    number = next(iter(getattr(cause, "args", ())), None)
    state = getattr(cause, "sqlstate", None)
    operational = isinstance(error, utils.OperationalError)
    if isinstance(number, int):
        missing, passing = number in MISSING_IN_MYSQL, number in PASSING_IN_MYSQL
    else:
        words = MISSING_IN_SQLITE if operational else MISSING_IN_POSTGRESQL
        missing, passing = any(each in text for each in words), operational and SENSELESS not in text
        # PostgreSQL numbers each of its errors: one without a number, and of no class, tells of a lost connection.
        passing = passing or (type(error) is utils.DatabaseError and hasattr(cause, "sqlstate") and state is None)
    if LOCKED & {state, number}:
        return LockHeld(f"Another transaction holds a lock that the operation needs: {line}")
    if OUTDATED in text:
        state = "26000"
    if state in PASSING_IN_POSTGRESQL:
        return StoreUnavailable(f"{PASSING_IN_POSTGRESQL[state]}: {line}")
    if missing:
        remedy = "run manage.py migrate" + ("" if alias == DEFAULT_DB_ALIAS else f" django_mq --database {alias}")
        if not apps.is_installed("django_mq"):
            remedy = f"add 'django_mq' to INSTALLED_APPS, and {remedy}"
        remedy += "; if that applies nothing, mq_doctor says what to do"
        return TablesMissing(f"A table or column of django_mq is missing; {remedy} (the database says: {line})")
    if passing:
        return StoreUnavailable(f"The database cannot be used now: {line}")
    return StoreError(f"The database refused the operation: {line}")


def _line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


P = ParamSpec("P")
R = TypeVar("R")

# Threads that use the database for event loops: Django refuses its connections to a thread that runs one.

#: Most threads of a pool, each with a database connection of its own. A thread starts when all others are busy.
MOST_THREADS = 8

_this_thread = threading.local()


class ApartThreads:
    """A pool of threads that use the database for event loops.

    No request begins in them, with which Django would replace a connection that the server has ended:
    ``replacing`` does so before a call. A forked child begins with none: its parent's threads do not exist there.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()
        at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        #: The pool of this process.
        self.executor = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=self._name, initializer=_enter)


def _enter() -> None:
    _this_thread.apart = True


def replacing(function: Callable[P, R]) -> Callable[P, R]:
    """Let a call in such a thread begin without connections that the server has ended."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for connection in connections.all(initialized_only=True):
            driver = connection.connection
            if driver is not None and not connection.in_atomic_block and has_ended(driver):
                connection.close()
        return function(*args, **options)

    return call


def works_for_event_loop() -> bool:
    """Whether this thread is of such a pool: an event loop waits for it."""
    return getattr(_this_thread, "apart", False)


def has_connected() -> bool:
    """Whether Django has opened a connection in this thread, since all of them were closed.

    Looking through Django's connections takes longer than all the rest of a short attempt.
    """
    return getattr(_this_thread, "connected", False)


def when_connected(function: Callable[[BaseDatabaseWrapper], None] | None) -> None:
    """Call the function with each connection that Django opens in this thread, until you pass None."""
    _this_thread.when_connected = function


def forget_connected() -> None:
    """Note that Django has no open connection in this thread."""
    _this_thread.connected = False


def _prepare(connection: BaseDatabaseWrapper, **_: Any) -> None:
    _this_thread.connected = True
    if function := getattr(_this_thread, "when_connected", None):
        function(connection)
    if works_for_event_loop() and not connection.get_autocommit():
        # The transaction of the coroutine's caller is none of this thread's.
        connection.set_autocommit(True)


connection_created.connect(_prepare, dispatch_uid="django_mq.stores.connections")


# Django refuses its connections to a thread with a running loop. ``.delay()`` in an async view blocks the loop
# for one INSERT, as it does with every broker. Another thread makes the INSERT on its own connection, in
# autocommit. It does not wait until a full queue has room: the loop would stand still meanwhile.

threads = ApartThreads("django_mq-apart")


def apart_from_event_loops(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function in another thread when this one runs an event loop."""

    apart = replacing(function)

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        # Not get_running_loop(): every publish would raise and catch an error that says "none".
        if asyncio._get_running_loop() is None:  # noqa: SLF001 - named in its documentation
            return function(*args, **options)
        return threads.executor.submit(apart, *args, **options).result()

    return call
