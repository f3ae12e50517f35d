"""Writes what the handlers of this process report: one thread for all, over one connection.

A handler only leaves what it reports. The thread writes what is new, for all messages together, and then rests: a
message is written at most once in ``WRITE_SECONDS``, and what it has reported last is always written. The thread
ends, with its connection, when nothing was reported for a while.

A later report stays, whichever process writes last: a worker that was stopped may go on when another one has the
message.
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final

from django_mq import outages
from django_mq.engine.decisions.backoff import Backoff
from django_mq.errors import LockHeld, StoreError
from django_mq.process import at_fork
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from uuid import UUID

    from django_mq.replies.reported import ReportedProgress

    #: The alias of a database, and the id of a message.
    Place = tuple[str, UUID]

#: Time between two writes. While the database is away, it grows.
WRITE_SECONDS: Final = 0.5
PAUSES: Final = Backoff(base_seconds=WRITE_SECONDS, multiplier=2.0, cap_seconds=30.0)
#: The thread ends when nothing was reported for so long.
LINGER_SECONDS: Final = 10.0
#: How many messages one statement writes, and how many are kept without a database.
MOST_WRITTEN, MOST_KEPT = 200, 10_000


class Reporter:
    """What the handlers of one process have reported."""

    def __init__(self) -> None:
        self._begin()
        # A forked child has no thread, and its parent writes what its handlers have reported.
        at_fork(after_in_child=self._begin)
        atexit.register(self.close)

    def _begin(self) -> None:
        # Reentrant: a signal's handler may report what it has interrupted.
        self._lock = threading.RLock()
        self._waiting: dict[Place, ReportedProgress] = {}
        self._kept: OrderedDict[Place, ReportedProgress] = OrderedDict()
        self._thread: WritingThread | None = None

    def take(self, alias: str, found: ReportedProgress) -> None:
        """Have this written soon, in place of what the message has reported before."""
        with self._lock:
            self._waiting[alias, found.message_id] = found
            if self._thread is None:
                self._thread = WritingThread(self)
                self._thread.start()
            self._thread.bell.set()

    def keep(self, alias: str, found: ReportedProgress) -> None:
        """Keep this in the process, for ``kept``."""
        with self._lock:
            self._kept[alias, found.message_id] = found
            self._kept.move_to_end((alias, found.message_id))
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def kept(self, alias: str, message_id: UUID) -> ReportedProgress | None:
        """Return what ``keep`` was last given of a message."""
        return self._kept.get((alias, message_id))

    def close(self) -> None:
        """Write what waits, and end the thread. The next report begins another one."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._kept.clear()
        if thread is not None and thread is not threading.current_thread():
            thread.end()
        with self._lock:
            if self._thread is None:
                self._waiting.clear()

    # What the thread calls.

    def taken(self) -> dict[str, list[ReportedProgress]]:
        """Return what waits, by alias. Messages are in one order, in which all processes lock their rows."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        found: defaultdict[str, list[ReportedProgress]] = defaultdict(list)
        for (alias, _), each in sorted(waiting.items(), key=lambda item: item[0][1].int):
            found[alias].append(each)
        return found

    def give_back(self, alias: str, found: list[ReportedProgress]) -> None:
        """Let what was not written wait, unless something later waits."""
        with self._lock:
            self._waiting = {(alias, each.message_id): each for each in found} | self._waiting

    def leave(self, thread: WritingThread) -> bool:
        """Return whether the thread may end: nothing waits, or it is not the thread of this process any more."""
        with self._lock:
            if self._waiting and self._thread is thread:
                return False
            if self._thread is thread:
                self._thread = None
            return True


class WritingThread(threading.Thread):
    """Writes what waits, over a connection for each database."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(name="django_mq-progress", daemon=True)
        self._reporter = reporter
        #: Set when something waits, and when to end.
        self.bell, self._ending = threading.Event(), threading.Event()
        self._stores: dict[str, Any] = {}

    def run(self) -> None:
        failures = 0
        try:
            while not self._ending.is_set():
                if not self.bell.wait(LINGER_SECONDS) and self._reporter.leave(self):
                    return
                self.bell.clear()
                failures = 0 if self._write() else failures + 1
                if failures:
                    self.bell.set()
                self._ending.wait(PAUSES.delay(failures + 1) if failures else WRITE_SECONDS)
            self._write()
        finally:
            for alias, store in self._stores.items():
                outages.database(alias).leave(self)
                store.close()

    def end(self) -> None:
        """End the thread, after it has written what waits."""
        self._ending.set()
        self.bell.set()
        self.join(timeout=LINGER_SECONDS)

    def _write(self) -> bool:
        """Write what waits; return whether all of it was written."""
        done = True
        for alias, found in self._reporter.taken().items():
            outage = outages.database(alias)
            try:
                for start in range(0, len(found), MOST_WRITTEN):
                    write(self._store(alias), found[start : start + MOST_WRITTEN])
                outage.succeeded(self)
            except LockHeld:
                done = False  # SQLite has one writer, perhaps the transaction of the handler itself
                self._reporter.give_back(alias, found)
            except Exception as error:  # noqa: BLE001 - handlers go on, and what they report is written later
                done = False
                self._reporter.give_back(alias, found)
                self._store(alias).close()
                outage.failed(self, error if isinstance(error, StoreError) else StoreError(repr(error)))
        return done

    def _store(self, alias: str) -> Any:
        if alias not in self._stores:
            self._stores[alias] = private_store(alias)
        return self._stores[alias]


def write(store: Any, found: list[ReportedProgress]) -> None:
    """Write what messages have reported, unless something later is there. Raises StoreError."""
    rows = [
        {
            "message_id": each.message_id,
            "queue_name": each.queue,
            "fraction": each.fraction,
            "text": each.text,
            "attempt": each.attempt,
            "reported_at": each.reported_at,
        }
        for each in found
    ]
    if len(rows) == 1:
        store.database.rows("write_progress", **rows[0])
        return
    with store.database.transaction():
        store.database.insert_many("write_progress", rows)


#: What the handlers of this process have reported.
REPORTER: Final = Reporter()
