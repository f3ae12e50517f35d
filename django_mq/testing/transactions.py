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

from django.db import connections, transaction

from django_mq.errors import WorkerInTransaction
from django_mq.stores.connections import in_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_mq.testing")


@contextmanager
def as_committed() -> Iterator[None]:
    """Take what this thread has written as committed, and so what the code inside writes.

    Raises WorkerInTransaction in a transaction that is not the one of a ``TestCase``.
    """
    tested = tested_connections()
    for connection in tested:
        _refuse_transactions(connection)
    depths = {connection: len(connection.atomic_blocks) for connection in tested}
    with ExitStack() as stack:
        for connection in tested:
            stack.enter_context(patch.object(connection, "on_commit", _on_commit(connection, depths[connection])))
        if tested:
            stack.enter_context(patch.object(transaction.Atomic, "__exit__", _exit(depths)))
            stack.callback(in_test.reset, in_test.set(True))
        for connection in tested:
            _call_due(connection)
        yield


def tested_connections() -> list[BaseDatabaseWrapper]:
    """Return the connections of this thread that are in a transaction."""
    return [each for each in connections.all(initialized_only=True) if each.in_atomic_block]


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


# Outside of blocks, Django commits each statement, and one that fails undoes only itself. In the transaction of a
# ``TestCase`` it would break everything on some databases, so each statement has a savepoint.

#: Statements that end or begin savepoints.
OF_SAVEPOINTS = ("SAVEPOINT", "RELEASE", "ROLLBACK")


@contextmanager
def as_autocommit() -> Iterator[None]:
    """Let a statement that fails outside of the blocks of the code undo only itself."""
    tested = {connection: Statements(connection) for connection in tested_connections()}
    with ExitStack() as stack:
        if tested:
            stack.enter_context(patch.object(transaction.Atomic, "__enter__", _enter(tested)))
        for connection, statements in tested.items():
            stack.callback(statements.end)
            stack.enter_context(connection.execute_wrapper(statements))
        yield


class Statements:
    """Runs the statements of a connection, each that is in no block of the code in a savepoint of its own."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._depth = len(connection.atomic_blocks)
        self._savepoint: str | None = None

    @property
    def is_outside(self) -> bool:
        """Whether the code is in no block of its own."""
        return len(self._connection.atomic_blocks) == self._depth

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if not self.is_outside or str(sql).lstrip().upper().startswith(OF_SAVEPOINTS):
            return execute(sql, params, many, context)
        self.end()
        self._savepoint = self._connection.savepoint()
        try:
            return execute(sql, params, many, context)
        except BaseException:
            self._connection.savepoint_rollback(str(self._savepoint))
            raise

    def end(self) -> None:
        """End the savepoint of the last statement, whose rows have been read by now."""
        self._connection.needs_rollback = False
        savepoint, self._savepoint = self._savepoint, None
        if savepoint is not None:
            self._connection.savepoint_commit(savepoint)


def _enter(tested: dict[BaseDatabaseWrapper, Statements]) -> Callable[..., None]:
    enter = transaction.Atomic.__enter__

    def __enter__(self: transaction.Atomic) -> None:  # noqa: N807 - it takes its place
        statements = tested.get(transaction.get_connection(self.using))
        if statements is None or not statements.is_outside:
            enter(self)
            return
        statements.end()  # Django has noted the failure of a statement that is undone
        # Elsewhere it would be a transaction, which is undone alone.
        wished, self.savepoint = self.savepoint, True
        enter(self)
        self.savepoint = wished

    return __enter__
