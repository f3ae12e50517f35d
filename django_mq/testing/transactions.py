"""Let code in the transaction of a ``TestCase`` see the ends of its own transactions.

A ``TestCase`` keeps a transaction open on each database. What is an outermost transaction elsewhere is a savepoint
there, so Django calls no function of ``on_commit``. Inside of ``as_committed`` it calls them where it would
elsewhere: at the end of the outermost block of the code, and at once outside of such a block.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from django.db import DatabaseError, connections, transaction

from django_mq.errors import WorkerInTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_mq.testing")


@contextmanager
def as_committed() -> Iterator[None]:
    """Take what this thread has written as committed, and so what the code inside writes.

    Raises WorkerInTransaction in a transaction that is not the one of a ``TestCase``.
    """
    tested = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    for connection in tested:
        _refuse_transactions(connection)
    depths = {connection: len(connection.atomic_blocks) for connection in tested}
    with ExitStack() as stack:
        for connection in tested:
            stack.enter_context(patch.object(connection, "on_commit", _on_commit(connection, depths[connection])))
        if tested:
            stack.enter_context(patch.object(transaction.Atomic, "__exit__", _exit(depths)))
        for connection in tested:
            _call_due(connection)
        yield


def _refuse_transactions(connection: BaseDatabaseWrapper) -> None:
    blocks: list[Any] = connection.atomic_blocks
    if not all(block._from_testcase for block in blocks):  # noqa: SLF001 - Django's durable blocks read it, too
        raise WorkerInTransaction(
            f"The queues are drained in a transaction on the database {connection.alias!r}. No worker would see"
            " its messages before the commit. Drain them outside of atomic()."
        )


def _on_commit(connection: BaseDatabaseWrapper, depth: int) -> Callable[..., None]:
    registered = connection.on_commit

    def on_commit(func: Callable[[], object], robust: bool = False) -> None:
        registered(func, robust)
        if len(connection.atomic_blocks) == depth:
            _call_due(connection)

    return on_commit


def _exit(depths: dict[BaseDatabaseWrapper, int]) -> Callable[..., None]:
    leave = transaction.Atomic.__exit__

    def __exit__(self: transaction.Atomic, exc_type: Any, *error: Any) -> None:  # noqa: N807 - it takes its place
        leave(self, exc_type, *error)
        connection = transaction.get_connection(self.using)
        if exc_type is None and len(connection.atomic_blocks) == depths.get(connection):
            _call_due(connection)

    return __exit__


def _call_due(connection: BaseDatabaseWrapper) -> None:
    """Call, as after a commit, the functions that were registered in the innermost block of the ``TestCase``.

    Those of ``setUpTestData`` belong to the tests of a whole class, and stay.
    """
    block = set(connection.savepoint_ids)
    while due := [waiting for waiting in connection.run_on_commit if block <= waiting[0]]:
        connection.run_on_commit = [waiting for waiting in connection.run_on_commit if not block <= waiting[0]]
        for waiting in due:
            _, function, robust = cast("Any", waiting)  # the stubs leave one out
            _call(function, robust=robust)


def _call(function: Callable[[], object], *, robust: bool) -> None:
    try:
        function()
    except Exception:
        if not robust:
            raise
        logger.exception("The function %r of on_commit() has failed", function)


@contextmanager
def one_attempt() -> Iterator[list[str]]:
    """Let no failed statement of an attempt break the transaction of a ``TestCase``.

    Elsewhere the statement would undo only itself, outside of the blocks of the code. Here it undoes what the
    attempt has written: then the list has the alias of the database afterwards.
    """
    tested = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    savepoints = [(connection, str(connection.savepoint())) for connection in tested]
    undone: list[str] = []
    try:
        yield undone
    finally:
        undone += [connection.alias for connection, savepoint in savepoints if not _is_kept(connection, savepoint)]


def _is_kept(connection: BaseDatabaseWrapper, savepoint: str) -> bool:
    """End the savepoint; return False if a failed statement has made it useless."""
    if not connection.needs_rollback:
        try:
            connection.savepoint_commit(savepoint)
        except DatabaseError:
            connection.needs_rollback = True
        else:
            return True
    connection.needs_rollback = False
    connection.savepoint_rollback(savepoint)
    connection.savepoint_commit(savepoint)
    return False
