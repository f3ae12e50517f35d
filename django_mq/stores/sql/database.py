"""One connection of a database: its named statements and its transactions."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from django.db import transaction

from django_mq.stores.connections import lock_of, translating
from django_mq.stores.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.stores.sql.store import SQLStore

Rows: TypeAlias = list[tuple[Any, ...]]
#: The name of a statement and its parameters.
Statement: TypeAlias = tuple[str, dict[str, Any]]


class Asking(Protocol):
    """Run statements that need no answers of each other; the last of a transaction may say so."""

    def __call__(self, statements: Sequence[Statement], *, is_last: bool = False) -> list[Rows]: ...


class Database:
    """Runs the statements of a package over one connection."""

    #: The package whose ``sql`` folder holds the statements.
    package: ClassVar[str]
    #: How a transaction of a private connection begins.
    begin: ClassVar[str] = "BEGIN"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        self.connection = connection
        self.private = private
        #: Added to the database's clock; only tests set it.
        self.clock_offset = timedelta(0)
        #: Whether a transaction of a private connection is open.
        self.begun = False

    def now(self) -> str:
        """Return the one time expression of the statements."""
        raise NotImplementedError

    def text(self, name: str) -> str:
        return statement(self.package, name, self.now())

    def fitted(self, params: dict[str, Any]) -> dict[str, Any]:
        return params

    def rows(self, name: str, /, **params: Any) -> Rows:
        return self.run(name, self.fitted(params))

    def insert(self, name: str, /, **params: Any) -> Rows:
        """Run a statement that writes rows, and returns none if one of them is there already."""
        return self.rows(name, **params)

    def run(self, name: str, fitted: dict[str, Any]) -> Rows:
        with self.alone(), translating(self.connection), self.cursor() as cursor:
            cursor.execute(self.text(name), fitted)
            return cursor.fetchall() if cursor.description else []

    def cursor(self) -> Any:
        """Return a cursor whose times are in UTC or aware, with or without ``USE_TZ``."""
        return self.connection.cursor()

    def fetch(self, query: str, params: Sequence[Any]) -> Rows:
        with self.alone(), translating(self.connection), self.connection.cursor() as cursor:
            cursor.execute(query, params)
            return list(cursor.fetchall())

    @property
    def is_watched(self) -> bool:
        """Whether the project wraps or logs what cursors run, and so is to see every statement."""
        return bool(self.connection.execute_wrappers or self.connection.queries_logged)

    def alone(self) -> AbstractContextManager[object]:
        """Keep other threads, and forks where they would do harm, off a private connection."""
        return lock_of(self.connection) if self.private else nullcontext()

    # Transactions.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: a savepoint of the caller's transaction, or a transaction of its own."""
        atomic = self._own_transaction() if self.private else self._shared_transaction()
        with self.alone(), translating(self.connection), atomic:
            yield

    @contextmanager
    def conversation(self) -> Iterator[Asking]:
        """Run a transaction in steps."""
        with self.transaction():
            yield self.each

    def each(self, statements: Sequence[Statement], *, is_last: bool = False) -> list[Rows]:  # noqa: ARG002 - it ends with its block
        return [self.rows(name, **params) for name, params in statements]

    def _shared_transaction(self) -> AbstractContextManager[None]:
        return transaction.atomic(using=self.connection.alias)

    @contextmanager
    def _own_transaction(self) -> Iterator[None]:
        # transaction.atomic looks connections up by alias, where a private one is not.
        if self.begun:
            yield
            return
        self.begun = True
        try:
            self.execute(self.begin)
            yield
            self.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise
        finally:
            self.begun = False

    def execute(self, text: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(text)

    def roll_back(self) -> None:
        """Undo the open transaction; a connection that cannot do that is closed."""
        try:
            self.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - the connection is beyond use; the first error is the one to report
            self.connection.close()

    @property
    def in_transaction(self) -> bool:
        return bool(self.connection.in_atomic_block) or not self._commits_each_statement

    @property
    def _commits_each_statement(self) -> bool:
        opened = self.connection.connection is not None
        return bool(self.connection.autocommit if opened else self.connection.settings_dict["AUTOCOMMIT"])

    def after_commit(self, callback: Callable[[], None]) -> None:
        if self.connection.in_atomic_block:
            transaction.on_commit(callback, using=self.connection.alias, robust=True)
        elif self._commits_each_statement:
            callback()

    def last_after_commit(self) -> Callable[[], None] | None:
        waiting = self.connection.run_on_commit
        return waiting[-1][1] if waiting else None

    # The connection.

    def disconnect(self) -> bool:
        if self.in_transaction:
            return False
        self.connection.close()
        return True

    def reconnect(self) -> bool:
        # Django's ``errors_occurred`` says nothing of that. The locks, temporary tables and variables of a
        # connection that still works are the caller's.
        if self.connection.connection is None or self.in_transaction or self.connection.is_usable():
            return False
        return self.disconnect()

    def close(self) -> None:
        if self.private:
            with self.alone():
                self.begun = False
                self.connection.close()


class Part:
    """What a store does about one subject. The store makes it when it is first used."""

    def __init__(self, store: SQLStore) -> None:
        self.store = store
        self.database = store.database
        self.rows = store.database.rows
