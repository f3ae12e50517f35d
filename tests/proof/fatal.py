"""Ends this process before or after the n-th statement that it sends to any database.

A statement is what the driver sends at once: on PostgreSQL, several in a pipeline are one. A commit is one, too.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The exit code of a process that has died so.
DEAD = 9


#: Threads that send statements by the clock: where the program is at their n-th one differs from run to run.
BESIDE = ("django_mq-heartbeat", "django_mq-hints", "django_mq-gathered", "django_mq-duties")


class Fatal:
    """Counts the statements of this process, and ends it at one of them."""

    def __init__(self, number: int, *, after: bool, grave: Path) -> None:
        self.count = 0
        self._number, self._after, self._grave = number, after, grave
        self._counting = threading.Lock()

    def passed(self, text: str, send: Callable[[], Any]) -> Any:
        """Send a statement, and die before or after it if it is the one."""
        if threading.current_thread().name.startswith(BESIDE):
            return send()
        with self._counting:
            self.count += 1
            is_fatal = self.count == self._number
        if is_fatal and not self._after:
            self._die(text)
        try:
            return send()
        finally:
            if is_fatal:
                self._die(text)

    def _die(self, text: str) -> None:
        self._grave.write_text(" ".join(text.split())[:200], encoding="utf-8")
        os._exit(DEAD)

    # The drivers.

    def lay(self) -> None:
        """Watch all connections that are opened from now on."""
        connection_created.connect(self._opened, weak=False)
        self._watch_psycopg()
        self._watch_mysqlclient()

    def _opened(self, connection: Any, **_: Any) -> None:
        if connection.vendor == "sqlite":
            # It is told before each statement. Behind one is before the next one, for the database.
            connection.connection.set_trace_callback(lambda text: self.passed(text, lambda: None))

    def _watch_psycopg(self) -> None:
        from psycopg import Connection

        wait = Connection.wait

        def watched(connection: Any, steps: Any, *given: Any, **options: Any) -> Any:
            name = getattr(steps, "__qualname__", "")
            if "notif" in name:  # listens, until there is something to hear
                return wait(connection, steps, *given, **options)
            return self.passed(name, lambda: wait(connection, steps, *given, **options))

        Connection.wait = watched  # type: ignore[method-assign, assignment]

    def _watch_mysqlclient(self) -> None:
        try:
            from MySQLdb.connections import Connection
        except ImportError:
            return
        query = Connection.query
        Connection.query = lambda connection, text: self.passed(
            bytes(text).decode(errors="replace"), lambda: query(connection, text)
        )
        for name in ("commit", "rollback"):
            self._watch_method(Connection, name)

    def _watch_method(self, kind: Any, name: str) -> None:
        method = getattr(kind, name)
        setattr(kind, name, lambda connection: self.passed(name, lambda: method(connection)))
