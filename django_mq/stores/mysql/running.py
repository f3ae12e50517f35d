"""Runs the statements: those that return no rows answer with one row for each that they touched.

Neither server returns what an UPDATE changed, and only one of them what an INSERT wrote. So rows
are locked by one statement and changed by the next, within a transaction.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db.utils import IntegrityError

from django_mq import conf
from django_mq.stores.connections import translating
from django_mq.stores.mysql.retrying import DEADLOCK, DUPLICATE, code_of
from django_mq.stores.mysql.settings import LOCK_SECONDS, bounded
from django_mq.stores.mysql.values import parameters
from django_mq.stores.sql import SQLStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper


class Running(SQLStore):
    """One connection: bounded if it is private, in step with the caller's transaction if not."""

    package = "django_mq.stores.mysql"

    def __init__(self, connection: BaseDatabaseWrapper, *, private: bool = False) -> None:
        super().__init__(connection, private=private)
        self._statement_seconds = conf.load().STATEMENT_TIMEOUT_SECONDS
        #: The driver's connection that has its limits already.
        self._bounded: Any = None
        #: Whether a transaction begins with its first statement, in one round trip.
        self._begins = False
        if private:
            connection.settings_dict = bounded(connection.settings_dict, self._statement_seconds)

    def _now(self) -> str:
        # The statement's time, in UTC whatever the session's time zone.
        if not self.clock_offset:
            return "utc_timestamp(6)"
        return f"(utc_timestamp(6) + INTERVAL {self.clock_offset.total_seconds():f} SECOND)"

    @property
    def is_inside(self) -> bool:
        """Whether a transaction is open: what fails now cannot be tried again alone."""
        return self._in_transaction or self.in_transaction

    def _rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        with self._alone(), translating(self.connection), self._marking():
            self._bound()
            return self._run(name, params)

    def _written(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Insert rows; none if one of them is there already, which spoils no transaction."""
        with self._alone(), translating(self.connection), self._marking():
            self._bound()
            try:
                return self._run(name, params)
            except IntegrityError as error:
                if code_of(error) != DUPLICATE:
                    raise
                return []

    def _run(self, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        begins, self._begins = self._begins, False
        with self.connection.cursor() as cursor:
            cursor.execute(f"BEGIN; {self._text(name)}" if begins else self._text(name), parameters(params))
            if begins:
                cursor.nextset()
            return list(cursor.fetchall()) if cursor.description else [(cursor.lastrowid,)] * cursor.rowcount

    @contextmanager
    def _marking(self) -> Iterator[None]:
        """Let the caller's transaction be known as lost: a dead-lock has rolled back all of it."""
        try:
            yield
        except Exception as error:
            if code_of(error) == DEADLOCK and self.connection.in_atomic_block:
                self.connection.needs_rollback = True
            raise

    def _execute(self, text: str) -> None:
        self._bound()
        if text == self._begin and self.connection.settings_dict["OPTIONS"].get("multi_statements", True):
            self._begins = True
        elif self._begins:  # the transaction ends, and nothing has run in it
            self._begins = False
        else:
            super()._execute(text)

    def _bound(self) -> None:
        """Give a private connection its limits, once, and again when it was opened anew."""
        if not self.private or (self._bounded is not None and self._bounded is self.connection.connection):
            return
        self.connection.ensure_connection()
        limits = {
            "limit": LOCK_SECONDS,
            "statement_seconds": self._statement_seconds,
            "statement_milliseconds": round(self._statement_seconds * 1000),
        }
        self._run("bound_statements", limits)
        self._bounded = self.connection.connection
