"""A question to the database with an answer in time: it is asked in a thread that can be left behind.

A driver that waits for a server which accepts a connection and never answers cannot be interrupted. The caller
must not wait with it, and must not start a further thread each time.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Generic, TypeVar

from django.db import connections

from django_mq.errors import StoreUnavailable
from django_mq.formats import PLAIN
from django_mq.process import at_fork
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Seconds after which a thread without an answer is given up and another one asks. Its new connection is answered
#: at once when the server is back, while the old one may wait for hours.
LOST_SECONDS = 30.0
#: The most threads of a question that wait at a time, those given up included.
MOST_THREADS = 3


class Question(Generic[T]):
    """A question that many threads may ask; those that ask at the same time share an answer.

    ``ask`` is called in a thread of its own, with an alias. Its answer or its error is given again for
    ``keep_seconds``.
    """

    def __init__(self, ask: Callable[[str], T], *, keep_seconds: float = 0.0) -> None:
        self._ask = ask
        self._keep_seconds = keep_seconds
        self._begin()
        at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # Anew in a forked child: a thread of the parent may have held the lock.
        self._lock = threading.Lock()
        self._asked: list[_Asked[T]] = []

    def answer(self, alias: str, *, patience_seconds: float) -> T:
        """Return the answer. Raises what ``ask`` raised, or StoreUnavailable after ``patience_seconds``.

        The time counts from when the database was asked: a question that already hangs for longer is refused at
        once, so that its callers do not fill a web server.
        """
        asked = self._latest(alias)
        left = min(max(0.0, patience_seconds - asked.seconds), threading.TIMEOUT_MAX)
        if not wait([asked.answer], left).done:
            raise StoreUnavailable(f"The database has not answered within {PLAIN.precise(patience_seconds)}.")
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
    """One call of ``ask``, and its thread."""

    def __init__(self, ask: Callable[[str], T], alias: str) -> None:
        self.alias = alias
        self.answer: Future[T] = Future()
        self._ask = ask
        self._since = time.monotonic()

    def run(self) -> None:
        try:
            found = self._found()
        except Exception as error:  # noqa: BLE001 - the callers raise it
            self._since = time.monotonic()
            self.answer.set_exception(error)
        else:
            self._since = time.monotonic()
            self.answer.set_result(found)

    def _found(self) -> T:
        connection = connections[self.alias]
        try:
            with translating(connection):
                return self._ask(self.alias)
        finally:
            connection.close()

    def is_good(self, keep_seconds: float) -> bool:
        """Return whether to wait for it, or to give its answer again."""
        return self.seconds < (keep_seconds if self.answer.done() else LOST_SECONDS)

    @property
    def seconds(self) -> float:
        """Seconds since it was asked, or answered."""
        return time.monotonic() - self._since
