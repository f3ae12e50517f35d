"""Runs the named statements of one database over one connection."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import transaction

from django_mq.stores.base import Store
from django_mq.stores.connections import close_at_forks, lock_of, translating
from django_mq.stores.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper


class Runner(Store):
    """Statements and transactions; the classes beside it say what they are for."""

    #: The package whose ``sql`` folder holds the statements.
    package: ClassVar[str]
    _begin: ClassVar[str] = "BEGIN"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        self.connection = connection
        self.alias = connection.alias
        self.private = private
        #: Added to the database's clock; only tests set it.
        self.clock_offset = timedelta(0)
        self._in_transaction = False
        # Tokens start at the clock, so that two stores of one session never repeat each other's.
        self._claims = count(time.time_ns())
        if private and not self.features.crosses_forks:
            close_at_forks(connection)

    def _text(self, name: str) -> str:
        return statement(self.package, name, self._now())

    def _now(self) -> str:
        """Return the store's one time expression."""
        raise NotImplementedError

    def _rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._run(name, self._params(params))

    def _run(self, name: str, fitted: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Run a statement with parameters that fit the driver."""
        with self._alone(), translating(self.connection), self._cursor() as cursor:
            cursor.execute(self._text(name), fitted)
            return cursor.fetchall() if cursor.description else []

    def _cursor(self) -> Any:
        """Return a cursor whose times are in UTC or aware, with or without ``USE_TZ``."""
        return self.connection.cursor()

    def fetch(self, query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return a query's rows as the driver makes them: for those who read millions, and convert by columns."""
        with self._alone(), translating(self.connection), self.connection.cursor() as cursor:
            cursor.execute(query, params)
            return list(cursor.fetchall())

    @property
    def _is_watched(self) -> bool:
        """Whether somebody wraps or logs what the connection's cursors run, and so is to see every statement."""
        return bool(self.connection.execute_wrappers or self.connection.queries_logged)

    def _alone(self) -> AbstractContextManager[object]:
        """Keep other threads, and forks where they would do harm, off a private connection."""
        return lock_of(self.connection) if self.private else nullcontext()

    def _params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Fit parameters to the driver."""
        return params

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing: a savepoint of the caller's transaction, or a transaction of its own."""
        with self._alone(), translating(self.connection), self._atomic():
            yield

    def _atomic(self) -> AbstractContextManager[None]:
        if self.private:
            return self._own_transaction()
        return transaction.atomic(using=self.connection.alias)

    @contextmanager
    def _own_transaction(self) -> Iterator[None]:
        # transaction.atomic looks connections up by alias, where a private one is not.
        if self._in_transaction:
            yield
            return
        self._in_transaction = True
        try:
            self._execute(self._begin)
            yield
            self._execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._in_transaction = False

    def _execute(self, text: str) -> None:
        """Begin or end a transaction."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)

    def _roll_back(self) -> None:
        try:
            self._execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - the connection is beyond use; the first error is the one to report
            self.connection.close()

    def transaction(self) -> AbstractContextManager[None]:
        return self._transaction()

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

    def change_marker(self) -> int | None:
        return None

    def close(self) -> None:
        if self.private:
            with self._alone():
                self._in_transaction = False
                self.connection.close()
