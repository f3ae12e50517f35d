"""The queues, messages and sessions that all stores of one name share, behind one lock."""

from __future__ import annotations

import logging
import os
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.decisions.claim import is_paused
from django_mq.engine.decisions.ends import END_OF_CAUSE, END_OF_VERDICT, End, Ended, RunOutcome
from django_mq.engine.decisions.routing import Route, exchange_of
from django_mq.engine.states import Cause
from django_mq.errors import StoreError
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.entries.limited import LimitsOfQueue
from django_mq.inprocess.memory.kept import KnownRun
from django_mq.inprocess.memory.row import MOST_REMEMBERED, BrokerQueue, row_of
from django_mq.inprocess.rules import SHARED_TABLE
from django_mq.models import History
from django_mq.seams.ends import told
from django_mq.stores.clock import clock
from django_mq.stores.errors import no_such_queue
from django_mq.stores.records import QueueRecord, failed_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django_mq.engine.decisions.decline import Audience
    from django_mq.engine.decisions.routing import Exchange
    from django_mq.engine.decisions.unique import First
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.memory.row import LiveMessage
    from django_mq.inprocess.memory.session import MemorySession
    from django_mq.inprocess.work import UnitOfWork
    from django_mq.stores.records import Failure, Settlement

logger = logging.getLogger("django_mq.stores")


@dataclass(slots=True)
class Transaction:
    """The open transaction of a connection, or none."""

    #: Messages and settlements that wait for the commit; None outside a transaction.
    unit: UnitOfWork | None = None
    #: What to call after the commit.
    callbacks: list[Callable[[], None]] = field(default_factory=list)


class SharedBroker:
    """The state that stores of one name share. Hold ``locked()`` around every use.

    It listens to the in-process broker, and keeps a row for each entry, as a table would.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._pid = os.getpid()
        #: The broker that decides.
        self.inner = Broker(SHARED_TABLE, self)
        #: The transaction of all stores that are not private: it is of the thread that holds the lock.
        self.transaction = Transaction()
        #: The store that was made last, which listenings are given.
        self.store: Any = None
        self.queue_numbers = count(1)
        self.session_numbers = count(1)
        self._begin()

    def _begin(self) -> None:
        #: Added to this machine's clock; only tests set it.
        self.clock_offset = timedelta(0)
        self.queues: dict[str, BrokerQueue] = {}
        self.rows: dict[int, LiveMessage] = {}
        self.sessions: dict[int, MemorySession] = {}
        #: By queue with declined messages, its consumers as last seen.
        self.audiences: dict[str, Audience] = {}
        #: By exchange, pattern and queue, in the order in which they were made.
        self.bindings: dict[tuple[str, str, str], Route] = {}
        #: By name, the type of each declared exchange, and its alternate exchange.
        self.exchanges: dict[str, tuple[str, str]] = {}
        #: By exchange, pattern and destination.
        self.exchange_bindings: dict[tuple[str, str, str], Route] = {}
        #: (exchange, pattern, queue) to the exchange's type, and when the volatile binding ends unless renewed.
        self.volatile_bindings: dict[tuple[str, str, str], tuple[str, datetime]] = {}
        #: (queue, payload, end), oldest first.
        self.volatile_messages: list[tuple[str, str, datetime]] = []
        #: Finished messages, and failed attempts, as ``History`` and ``Attempt`` name their fields.
        self.history: deque[SimpleNamespace] = deque(maxlen=MOST_REMEMBERED)
        #: Dead letters that rings have made to make room, and that were not sent on yet.
        self.dropped: list[LiveMessage] = []
        self.attempts: deque[SimpleNamespace] = deque(maxlen=MOST_REMEMBERED)
        #: By digest, the message that took each unique key.
        self.unique_keys: dict[str, First] = {}
        #: By queue, what limits by key have used.
        self.limits: defaultdict[str, LimitsOfQueue] = defaultdict(LimitsOfQueue)
        #: By row, the runs whose messages are gone.
        self.runs: dict[int, KnownRun] = {}
        #: By row and end, what listenings are told when the call ends, and their names.
        self.ended: dict[tuple[int, End], tuple[str, Ended]] = {}

    def empty(self) -> None:
        """Forget everything: stores stay usable, open sessions are lost, no number is used again."""
        with self.locked():
            self.inner.forget()
            self._begin()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads out. Raises StoreError in a forked child, which has a copy of its own."""
        if os.getpid() != self._pid:
            raise StoreError("Queues in memory belong to the process that made them: use a thread or solo pool.")
        with self.inner.lock:
            yield

    def now(self) -> datetime:
        return clock.now() + self.clock_offset

    def existing(self, name: str) -> BrokerQueue:
        queue = self.queues.get(name)
        if queue is None:
            raise no_such_queue(name)
        return queue

    def found(self, ids: Sequence[int]) -> list[LiveMessage]:
        return [self.rows[id_] for id_ in dict.fromkeys(ids) if id_ in self.rows]

    def given_back(self, session_id: int, id_: int, claim: int) -> LiveMessage | None:
        """Return the row that this claim of a reaped session held, unless it has changed since."""
        row = self.rows.get(id_)
        return row if row is not None and row.ended is not None and row.ended[:2] == (session_id, claim) else None

    def record_of(self, queue: BrokerQueue) -> QueueRecord:
        """Return the queue's record, with the priorities of consumers as of their last heartbeats."""
        heartbeats = (session.heartbeat for session in self.sessions.values() if session.heartbeat is not None)
        told = {info.priority for each in heartbeats for info in each.consumers if info.queue_name == queue.name}
        return QueueRecord(
            id=queue.number,
            name=queue.name,
            closed=queue.inner.closed,
            paused=is_paused(queue.inner.paused, queue.paused_until, self.now()),
            priorities_differ=len(told) > 1,
            **{item.name: getattr(queue.settings, item.name) for item in fields(queue.settings)},
        )

    def note_departure(self, session: MemorySession) -> bool:
        """Note that the session, which ends now, has used its queues; return whether that matters."""
        queues = [self.queues[name] for name in session.queues if name in self.queues]
        left = [queue for queue in queues if not queue.settings.is_lasting]
        for queue in left:
            queue.used_at = self.now()
        return bool(left)

    def consumed(self) -> frozenset[str]:
        """Return the queues of the sessions."""
        return frozenset(name for session in self.sessions.values() for name in session.queues)

    def exchange_named(self, name: str) -> Exchange | None:
        """Return the exchange with its bindings, None if there is no such exchange."""
        now = self.now()
        return exchange_of(
            name,
            self.exchanges.get(name),
            routes=[route for (exchange, *_), route in self.bindings.items() if exchange == name],
            transient=[
                Route(kind, pattern, queue)
                for (exchange, pattern, queue), (kind, end) in self.volatile_bindings.items()
                if exchange == name and end > now
            ],
            exchanges=[route for (exchange, *_), route in self.exchange_bindings.items() if exchange == name],
        )

    def record_named(self, name: str) -> QueueRecord | None:
        queue = self.queues.get(name)
        return None if queue is None else self.record_of(queue)

    def record_failure(self, row: LiveMessage, failure: Failure, worker: str) -> None:
        self.record_attempt(
            failure,
            queue_name=row.queue.name,
            number=row.entry.attempts,
            worker=worker,
            message_id=row.message.message_id,
            correlation_id=row.message.correlation_id,
            type=row.message.type,
        )

    def record_attempt(self, failure: Failure, **about: Any) -> None:
        self.attempts.append(SimpleNamespace(**failed_attempt(failure, **about), failed_at=self.now()))

    # What is told of ends.

    def note_end(self, row: LiveMessage, end: End, *, id_: int | None = None, queue: str = "") -> None:
        """Note how a claim or a message has ended, if that is to be told; it may have another row already."""
        if row.message.told_to is not None:
            ended = ended_as(row, end, id_=id_, queue=queue)
            self.ended[ended.row, end] = row.message.told_to, ended

    def note_outcome(self, settlement: Settlement) -> None:
        """Add how the run went, and what it returned, to the end that is noted for a settlement."""
        place = settlement.id, END_OF_VERDICT[settlement.verdict]
        if place in self.ended:
            told_to, ended = self.ended[place]
            self.ended[place] = told_to, ended._replace(outcome=settlement.outcome, returned=settlement.returned)

    def begin_run(self, row: LiveMessage) -> None:
        """Keep what is told at the end of a run whose message is accepted now."""
        self.runs[row.id] = KnownRun(
            row.entry.claim_number, row.session_id or 0, row.message.told_to, ended_as(row, End.ACCEPTED)
        )
        row.message = replace(row.message, told_to=None)

    def end_run(self, session: int, id_: int, outcome: RunOutcome) -> bool:
        """End a run of a session; return False if it had ended before."""
        if id_ not in self.runs or self.runs[id_].session != session:
            return False
        run = self.runs.pop(id_)
        if run.told_to is not None:
            self.ended[id_, End.ACCEPTED] = run.told_to, run.ended._replace(outcome=outcome, body=b"")
        return True

    def lose_runs(self) -> None:
        """End the runs of sessions that are gone."""
        for id_, run in sorted(self.runs.items()):
            if run.session not in self.sessions:
                self.end_run(run.session, id_, RunOutcome.LOST)

    def tell_ended(self) -> None:
        """Tell what was noted. A listening that fails is logged: what it did stays."""
        while self.ended:
            waiting = [*self.ended.values()]
            self.ended.clear()
            for each, mine in told(waiting, conf.extensions().ends):
                try:
                    each.tell(self.store, mine)
                except Exception:
                    logger.exception("The listening %r failed with %s ends of messages", each.name, len(mine))

    # What the broker inside calls.

    def arrived(self, queue: str, entry: Entry) -> None:
        """Keep the row under the number of its arrival."""
        row = row_of(entry)
        moved = None if row.is_new else self.ended.get((row.id, End.MOVED))
        row.remember_place(self.now())
        row.stands_as(entry, self.queues[queue])
        if moved is not None:
            mark, ended = moved
            self.ended[ended.row, End.MOVED] = mark, ended._replace(new_row=row.id)
        self.rows[row.id] = row

    def departed(self, queue: str, entry: Entry, cause: Cause) -> None:
        """Write the history of a message that has left its queue, where that keeps one."""
        row, keeps = row_of(entry), self.queues[queue].settings.history_days > 0
        del self.rows[entry.arrival]
        self.note_end(row, END_OF_CAUSE[cause], id_=entry.arrival, queue=queue)
        if row.entry is entry:
            outcome = History.Outcome.__members__.get("FORWARDED" if row.is_forwarded else cause.name)
            left = None if outcome is None or not keeps else row.finished(outcome, self.now())
        else:  # it stands in another queue already
            left, row.left = row.left, None
            if left is not None:
                left.outcome = History.Outcome.EXPIRED if cause is Cause.EXPIRED else History.Outcome.DEAD
        if left is not None and keeps:
            self.history.append(left)

    def dropped_by(self, queue: str, entry: Entry) -> None:  # noqa: ARG002 - the row knows it
        """Note a message that its ring has made a dead letter of; the store sends it on."""
        row_of(entry).let_go()  # a stealable consumer may have held it
        self.note_end(row_of(entry), End.DEAD)
        self.dropped.append(row_of(entry))

    def deleted(self, queue: str) -> None:
        """Forget a queue that was deleted, by an operator or with its last consumer."""
        self.inner.forget_deleted()
        gone = self.queues.pop(queue)
        self.bindings = {key: route for key, route in self.bindings.items() if route.queue != queue}
        for session in self.sessions.values():
            session.forget(gone)


def ended_as(row: LiveMessage, end: End, *, id_: int | None = None, queue: str = "") -> Ended:
    """Return what is told of an end of a message, which may have another row already."""
    message = row.message
    return Ended(
        row.id if id_ is None else id_,
        message.message_id,
        queue or row.queue.name,
        end,
        message.type,
        message.headers,
        message.properties,
        message.body,
        message.content_type,
        message.content_encoding,
    )


_brokers: dict[str, SharedBroker] = {}


def broker_named(name: str) -> SharedBroker:
    return _brokers.get(name) or _brokers.setdefault(name, SharedBroker(name))


def empty_brokers() -> None:
    """Forget all queues, messages and sessions in memory, for tests."""
    for broker in list(_brokers.values()):
        broker.empty()
