"""All queues, messages and sessions of one name, behind one lock."""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, cast

from django_mq.engine.states import READY, SCHEDULED
from django_mq.engine.timeline import NEVER, Timeline
from django_mq.errors import StoreError
from django_mq.stores.memory.history import MOST_REMEMBERED, FailedAttempt, Finished, Outcome, finished
from django_mq.stores.memory.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.entry import Entry
    from django_mq.stores.memory.queue import BrokerQueue
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession


class Broker:
    """The state that handles of one name share. Hold ``locked()`` around every use."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._pid = os.getpid()
        self.queue_numbers = count(1)
        self.session_numbers = count(1)
        self.arrivals = count(1)
        self._begin()

    def _begin(self) -> None:
        #: Added to this machine's clock; only tests set it.
        self.clock_offset = timedelta(0)
        self.queues: dict[str, BrokerQueue] = {}
        self.rows: dict[int, Row] = {}
        self.sessions: dict[int, WorkerSession] = {}
        #: (exchange, pattern, queue) to the exchange's type, in the order they were bound.
        self.bindings: dict[tuple[str, str, str], str] = {}
        self.lane = Lane()
        self.history: deque[Finished] = deque(maxlen=MOST_REMEMBERED)
        self.attempts: deque[FailedAttempt] = deque(maxlen=MOST_REMEMBERED)
        #: The ready and scheduled rows that have a time to live.
        self.expiring = Timeline(key=_expiry)

    def empty(self) -> None:
        """Forget everything: handles go on with what comes, open sessions are lost, no number is used again."""
        with self.locked():
            self._begin()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other thread out. Raises StoreError in a forked child, whose copy nobody else sees."""
        if os.getpid() != self._pid:
            raise StoreError("Queues in memory belong to the process that made them: use a thread or solo pool.")
        with self._lock:
            yield

    def now(self) -> datetime:
        """The time of this broker."""
        return datetime.now(UTC) + self.clock_offset

    def found(self, ids: Sequence[int]) -> list[Row]:
        """Return the rows that are here, each once."""
        return [self.rows[id_] for id_ in dict.fromkeys(ids) if id_ in self.rows]

    # A row's way.

    def add(self, row: Row) -> None:
        """Put a row into its queue."""
        row.entry.receipt = row
        self.rows[row.id] = row
        row.queue.rows[row.message.message_id] = row
        if row.value_key is not None:
            row.queue.values.setdefault(row.value_key, {})[row.message.message_id] = row
        row.queue.engine.offer(row.entry)
        self.watch(row)

    def watch(self, row: Row) -> None:
        """Expire the row in time, if it is waiting and has an end."""
        if row.expires_at is not None and row.entry.state in (READY, SCHEDULED):
            self.expiring.add(row.entry)

    def forget(self, row: Row) -> None:
        """Drop a row whose entry has left its queue."""
        del self.rows[row.id]
        del row.queue.rows[row.message.message_id]
        if row.value_key is not None:
            same = row.queue.values[row.value_key]
            del same[row.message.message_id]
            if not same:
                del row.queue.values[row.value_key]
        self.expiring.remove(row.entry)

    def finish(self, row: Row, outcome: Outcome) -> None:
        """Take a row out for good, and remember it where its queue wants that."""
        if row.queue.settings.history_days > 0:
            self.history.append(finished(row, outcome, self.now()))
        self.forget(row)
        row.queue.engine.remove(row.entry)


def row_of(entry: Entry) -> Row:
    """Return the row of an entry that a broker made."""
    return cast("Row", entry.receipt)


def _expiry(entry: Entry) -> tuple[float, int]:
    expires_at = row_of(entry).expires_at
    return NEVER if expires_at is None else expires_at.timestamp(), entry.arrival


_brokers: dict[str, Broker] = {}


def broker_named(name: str) -> Broker:
    """Return the broker of this name, a new one if there is none yet in this process."""
    return _brokers.get(name) or _brokers.setdefault(name, Broker())


def empty_brokers() -> None:
    """Forget all queues, messages and sessions in this process's memory: tests begin anew."""
    for broker in list(_brokers.values()):
        broker.empty()
