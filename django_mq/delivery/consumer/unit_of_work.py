"""Django's connections of a thread that runs handlers: each attempt is a unit of work, as a request is.

Nothing that one message has set on a connection is there for the next one. Django closes a connection at the end
of a request, or keeps it for CONN_MAX_AGE. A connection that is kept is reset, and so is one that goes back to a
pool. Where it cannot be reset, it is closed: only PostgreSQL can undo everything that statements have set.

The worker does this, not the delivery: a connection in the transaction of a caller is left alone.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.backends.signals import connection_created

from django_mq.errors import DriverMissing, StoreError, UnsupportedDatabase
from django_mq.stores.connections import forget_connected, has_connected, has_ended, when_connected
from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_mq.delivery")

#: A connection that was not used for so long, in seconds, is closed before the next attempt: a firewall may have
#: dropped it without a sign, and its first statement would wait in vain.
KEEP_SECONDS = 10.0


class _State(threading.local):
    """What is known of this thread."""

    #: The aliases with a transaction of the caller; None outside of a unit of work.
    spared: frozenset[str] | None = None
    #: When the last unit of work ended, on the monotonic clock.
    used_at = 0.0


_thread = _State()


@contextmanager
def unit_of_work(*, is_alone: bool = True) -> Iterator[None]:
    """Give the work inside connections that are alive, and leave nothing of it on them.

    If it ``is_alone``, no other work uses the connections of this thread in between; otherwise, nothing of that is
    left on them either.
    """
    spared = transactions()
    if not is_alone:
        _tidy(spared)
    adopt_thread(spared)
    begin_unit()
    try:
        yield
    finally:
        end_unit()
        adopt_thread(None)


# The same in parts, for a thread that does nothing else: most attempts use no database, and take less time than a
# context manager.


def adopt_thread(spared: frozenset[str] | None = frozenset()) -> None:
    """Let this thread do units of work from now on; ``spared`` aliases are in a transaction of the caller."""
    _thread.spared = spared
    when_connected(None if spared is None else _take_another)


def begin_unit() -> None:
    """Check the connections of this thread, as at the begin of a request."""
    if has_connected():
        _each(_check, _thread.spared or ())


def end_unit() -> None:
    """Close or reset them, as at the end of a request."""
    if has_connected():
        _tidy(_thread.spared or ())


def _tidy(spared: Container[str]) -> None:
    """Close or reset the connections of this thread, as at the end of a request."""
    if not _each(_leave, spared):
        forget_connected()
    _thread.used_at = time.monotonic()


def _each(function: Callable[[BaseDatabaseWrapper], None], spared: Container[str]) -> bool:
    """Call the function, which may fail, with the connections of this thread, except of ``spared`` aliases.

    Return whether a connection is open.
    """
    is_open = False
    for connection in connections.all(initialized_only=True) if has_connected() else ():
        try:
            if connection.alias not in spared:
                function(connection)
        except StoreError:  # the server has ended it
            replace(connection)
        except Exception:
            logger.exception("The connection %r could not be put in order, and is closed", connection.alias)
            replace(connection)
        is_open = is_open or connection.connection is not None
    return is_open


def _check(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that has ended or may have; Django checks the others, if it is told to."""
    if connection.connection is None:
        return
    is_old = time.monotonic() - _thread.used_at > KEEP_SECONDS
    if is_old or has_ended(connection.connection):
        connection.close()
    else:
        connection.close_if_unusable_or_obsolete()


def _leave(connection: BaseDatabaseWrapper) -> None:
    """Close a connection, or reset one that is kept or goes back to a pool."""
    if _is_in_transaction(connection):
        replace(connection)
        return
    connection.queries_log.clear()
    # A backend of another package may remember in Python what it has set.
    is_known = type(connection).__module__.startswith("django.")
    is_pooled = _is_pooled(connection)
    if not is_pooled:
        connection.close_if_unusable_or_obsolete()
    if connection.connection is not None:
        if not (is_known or is_pooled) or not _is_reset(connection):
            replace(connection)
            return
        if is_pooled:
            connection.close()
        else:
            _initialise(connection)
    if not is_known:
        del connections[connection.alias]


def _initialise(connection: BaseDatabaseWrapper) -> None:
    """Let Django, and receivers of the project, set on the connection what they set on a new one."""
    connection.health_check_done = True  # type: ignore[attr-defined]  # the stubs leave it out
    connection.init_connection_state()
    connection_created.send(sender=type(connection), connection=connection)


def _is_pooled(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict.get("OPTIONS", {}).get("pool"))


def _is_reset(connection: BaseDatabaseWrapper) -> bool:
    """Reset a connection; return False if its database cannot."""
    try:
        return store_for(connection).database.reset_connection()
    except (UnsupportedDatabase, DriverMissing):
        return False


def _take_another(connection: BaseDatabaseWrapper) -> None:
    """Take another connection while a pool gives one that has ended: Django's pool checks none by default."""
    while _is_pooled(connection) and has_ended(connection.connection):
        driver: Any = connection.connection
        driver.close()
        connection.close()
        connection.connection = connection.get_new_connection(connection.get_connection_params())
        connection.set_autocommit(connection.settings_dict["AUTOCOMMIT"])


# What a handler leaves behind at the end of its call, before receivers of signals write.


def transactions() -> frozenset[str]:
    """Return the aliases on which this thread is in a transaction, before the attempt that begins."""
    if _thread.spared is not None or not has_connected():
        return _thread.spared or frozenset()
    return frozenset(
        connection.alias for connection in connections.all(initialized_only=True) if _is_in_transaction(connection)
    )


def leave_transactions(spared: Container[str]) -> None:
    """End transactions that are open, and close connections that have failed, except of ``spared`` aliases."""
    _each(_end, spared)


def _end(connection: BaseDatabaseWrapper) -> None:
    if _is_in_transaction(connection):
        replace(connection)
    elif connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


def _is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether uncommitted writes would join those of the next attempt; with autocommit off, they would."""
    return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)


def replace(connection: BaseDatabaseWrapper) -> None:
    """Close a connection for good, and let Django make another one.

    A pool replaces a connection that comes back closed. A wrapper closed in an atomic block stays unusable.
    """
    driver = connection.connection
    try:
        if driver is not None and _is_pooled(connection):
            driver.close()
        connection.close()
    except Exception:
        logger.debug("A connection could not be closed", exc_info=True)
    del connections[connection.alias]
