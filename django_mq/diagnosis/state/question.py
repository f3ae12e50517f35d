"""Answers in time, whatever hangs: the database is asked in a thread that can be left behind.

A driver that waits for a server which accepts and never answers cannot be interrupted. Whoever
asks must not wait with it, and must not add a thread for each time of asking, either.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Generic, TypeVar

from django.db import connections

from django_mq.errors import StoreUnavailable
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: After so long a thread without an answer is given up, and another may ask: with a new connection, which
#: a server that has come back answers at once, while the old one may wait for hours.
LOST_SECONDS = 30.0
#: Most threads of a question that wait at a time, those given up included.
MOST_THREADS = 3


class Question(Generic[T]):
    """One question that many may ask at a time; those who ask together get one answer.

    ``ask`` is called in a thread, with an alias and a connection of its own; an answer, and a refusal,
    is given again for ``keep_seconds``.
    """

    def __init__(self, ask: Callable[[str], T], *, keep_seconds: float = 0.0) -> None:
        self._ask = ask
        self._keep_seconds = keep_seconds
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # New in a forked child, where a thread of the parent that held the lock does not exist.
        self._lock = threading.Lock()
        self._asked: list[_Asked[T]] = []

    def answer(self, alias: str, *, patience_seconds: float) -> T:
        """Return the answer. Raises MQError: as asking did, or StoreUnavailable when patience is at its end.

        Patience counts from when the database was asked: who comes to a question that has hung for longer
        is told at once, so that a crowd that comes again and again does not fill a web server.
        """
        asked = self._latest(alias)
        left = min(max(0.0, patience_seconds - asked.seconds), threading.TIMEOUT_MAX)
        if not wait([asked.answer], left).done:
            raise StoreUnavailable(f"The database has not answered within {patience_seconds:g} s.")
        return asked.answer.result()

    def _latest(self, alias: str) -> _Asked[T]:
        with self._lock:
            known = [asked for asked in self._asked if asked.alias == alias]
            if known and known[-1].is_good(self._keep_seconds):
                return known[-1]
            waiting = [asked for asked in known if not asked.answer.done()]
            if len(waiting) >= MOST_THREADS:
                return waiting[-1]
            asked = _Asked(self._ask, alias)
            others = [asked for asked in self._asked if asked.alias != alias]
            self._asked = [*others, *waiting, asked]
            threading.Thread(target=asked.run, name="django_mq-question", daemon=True).start()
            return asked


class _Asked(Generic[T]):
    """One time of asking, and its thread."""

    def __init__(self, ask: Callable[[str], T], alias: str) -> None:
        self.alias = alias
        self.answer: Future[T] = Future()
        self._ask = ask
        self._since = time.monotonic()

    def run(self) -> None:
        """Ask; whatever happens, those who wait are told."""
        try:
            found, error = self._found(), None
        except Exception as raised:  # noqa: BLE001 - it is raised to whoever asks
            found, error = None, raised
        self._since = time.monotonic()
        if error is None:
            self.answer.set_result(found)  # type: ignore[arg-type]
        else:
            self.answer.set_exception(error)

    def _found(self) -> T:
        connection = connections[self.alias]
        try:
            with translating(connection):
                return self._ask(self.alias)
        finally:
            connection.close()

    def is_good(self, keep_seconds: float) -> bool:
        """Whether to wait for it, or to give its answer again."""
        return self.seconds < (keep_seconds if self.answer.done() else LOST_SECONDS)

    @property
    def seconds(self) -> float:
        """How long ago it was asked, or answered."""
        return time.monotonic() - self._since
