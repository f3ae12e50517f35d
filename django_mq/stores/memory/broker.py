"""All queues, messages and sessions of one name, behind one lock."""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from django_mq.engine import broker as engine
from django_mq.engine.policy import SHARED_TABLE
from django_mq.errors import StoreError
from django_mq.stores.memory.history import MOST_REMEMBERED, OUTCOMES, FailedAttempt, Finished, finished
from django_mq.stores.memory.lane import Lane
from django_mq.stores.memory.queue import BrokerQueue
from django_mq.stores.memory.row import row_of
from django_mq.stores.memory.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.departing import Cause
    from django_mq.engine.entry import Entry
    from django_mq.engine.options import QueueOptions
    from django_mq.stores.memory.row import Row
    from django_mq.stores.memory.session import WorkerSession
    from django_mq.stores.records import QueueRecord


class Broker:
    """The state that handles of one name share. Hold ``locked()`` around every use.

    It listens to the engine's broker, and keeps for each entry what a table would.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.engine = engine.Broker(SHARED_TABLE, self)
        #: That of the thread which holds the lock.
        self.transaction = Transaction(self.engine)
        self.queue_numbers = count(1)
        self.session_numbers = count(1)
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

    def empty(self) -> None:
        """Forget everything: handles go on with what comes, open sessions are lost, no number is used again."""
        with self.locked():
            self.engine.forget()
            self._begin()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other thread out. Raises StoreError in a forked child, whose copy nobody else sees."""
        if os.getpid() != self._pid:
            raise StoreError("Queues in memory belong to the process that made them: use a thread or solo pool.")
        with self.engine.lock:
            yield

    def now(self) -> datetime:
        """The time of this broker."""
        return datetime.now(UTC) + self.clock_offset

    def declare(self, name: str, settings: QueueOptions) -> None:
        """Make a queue."""
        self.queues[name] = BrokerQueue(next(self.queue_numbers), name, settings, self.engine)

    def found(self, ids: Sequence[int]) -> list[Row]:
        """Return the rows that are here, each once."""
        return [self.rows[id_] for id_ in dict.fromkeys(ids) if id_ in self.rows]

    def record_of(self, queue: BrokerQueue) -> QueueRecord:
        """Return a queue's record, with what the consumers' heartbeats say."""
        heartbeats = (session.heartbeat for session in self.sessions.values() if session.heartbeat is not None)
        told = {info.priority for each in heartbeats for info in each.consumers if info.queue_name == queue.name}
        return queue.record(self.now(), priorities_differ=len(told) > 1)

    # What the engine tells.

    def arrived(self, queue: str, entry: Entry) -> None:
        """Find the row by the number of its arrival from now on."""
        row = row_of(entry)
        row.stands_as(entry, self.queues[queue])
        self.rows[row.id] = row

    def departed(self, queue: str, entry: Entry, cause: Cause) -> None:
        """Remember a message that is finished where its queue wants that."""
        row, outcome = row_of(entry), OUTCOMES.get(cause)
        del self.rows[entry.arrival]
        stands_elsewhere = row.entry is not entry
        if outcome is not None and not stands_elsewhere and self.queues[queue].settings.history_days > 0:
            self.history.append(finished(row, outcome, self.now()))

    def deleted(self, queue: str) -> None:
        """Forget the queue, be it deleted by an operator or with its last consumer."""
        self.engine.forget_deleted()
        gone = self.queues.pop(queue)
        self.bindings = {key: kind for key, kind in self.bindings.items() if key[2] != queue}
        for session in self.sessions.values():
            session.forget(gone)


_brokers: dict[str, Broker] = {}


def broker_named(name: str) -> Broker:
    """Return the broker of this name, a new one if there is none yet in this process."""
    return _brokers.get(name) or _brokers.setdefault(name, Broker())


def empty_brokers() -> None:
    """Forget all queues, messages and sessions in this process's memory: tests begin anew."""
    for broker in list(_brokers.values()):
        broker.empty()
