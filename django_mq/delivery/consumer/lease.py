"""The lease of a session: the loop that drives it, its state, which two threads share, and its row.

The driver and the heartbeat know the state and the row, and these know neither. Every change of the state is a
transition of ``engine/decisions/session.py``.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from django_mq import __version__, conf
from django_mq.engine.decisions.session import (
    Consequence,
    LoopState,
    SessionEvent,
    SessionRecord,
    SessionState,
    after,
    is_over,
    loop_state,
    revival,
)
from django_mq.errors import SessionLost
from django_mq.stores.records import MOST_RUNNING, Heartbeat, SessionInfo, WorkerCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.notifications.base import Wake
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ConsumerInfo, Receipt, Renewal, Running, Settlement

logger = logging.getLogger("django_mq.delivery")

#: A session is renewed so often before its deadline.
RENEWALS = 2.25

# The monotonic clock of Linux stands still while the machine sleeps; the databases' clocks do not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return the seconds since some moment in the past, including those for which the machine was suspended."""
    return time.clock_gettime(_CLOCK)


class Loop:
    """The loop of one worker, which all sessions of the worker share. Any thread may read it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._turned_at = time.monotonic()
        #: The error with which the loop has ended, if it has.
        self.error: BaseException | None = None

    def turn(self, *, waits_seconds: float = 0.0) -> None:
        """Note that the loop turns, in this thread, or waits for so long by its own choice."""
        self._thread, self._turned_at = threading.current_thread(), time.monotonic() + waits_seconds

    def fail(self, error: BaseException) -> None:
        """Note that the loop has ended with an error."""
        self.error = error

    @property
    def has_driver(self) -> bool:
        """Whether the thread of the loop still runs."""
        return self._thread is None or self._thread.is_alive()

    @property
    def still_seconds(self) -> float:
        """How long the loop has made no turn."""
        return time.monotonic() - self._turned_at

    @property
    def state(self) -> LoopState:
        """What the heartbeat is to do about the loop."""
        is_over = self.error is not None or not self.has_driver
        return loop_state(is_over=is_over, still_seconds=self.still_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a heartbeat writes of the consumers."""

    consumers: tuple[ConsumerInfo, ...] = ()
    #: Their credit together, 0 for no limit.
    credit: int = 0
    #: How many messages are being handled, and how many can be at a time; None where nothing counts them.
    busy: int | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The callbacks of the loop that drives a session. The heartbeat's thread calls them."""

    #: The session's name; empty for one made of host and process.
    name: Callable[[], str] = str
    #: All its queues, those included that it does not claim from at the moment.
    queues: Callable[[], tuple[str, ...]] = tuple
    describe: Callable[[], Workload] = Workload
    #: Called with an operator's new command.
    on_command: Callable[[WorkerCommand], object] = lambda told: told
    #: What is being handled, those that run for longest first.
    running: Callable[[], Iterable[Running]] = tuple
    #: Called when the session is asked to stop claims that it holds, also again until it has them no more.
    on_stops: Callable[[], object] = lambda: None
    #: Called when messages were given back to their places, the first of them delayed by so many seconds.
    came_back: Callable[[float], object] = lambda seconds: seconds
    #: The loop, None where the heartbeat does not know of one: a program's own consumer.
    loop: Callable[[], Loop | None] = lambda: None
    #: Whether the worker was told to end: it claims no more.
    leaves: Callable[[], bool] = bool
    #: Called in each round of the heartbeat, for what the driver may be too busy to do.
    on_round: Callable[[], object] = lambda: None


class SharedState:
    """The record of one session with its lock, and the claims that it holds. Any thread may read it.

    The lock is held over a revival: what was claimed meanwhile must not count as kept. A signal's handler may take
    it in the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._record = SessionRecord()
        self._deadline_seconds = conf.load().SESSION_SECONDS
        #: The claims that are not settled in the database yet.
        self.held: set[Receipt] = set()
        #: Whether the last claimed messages may keep others of their queue from workers until they are settled.
        self.constrained = False
        #: The claims that the session is asked to stop, of those that it holds and of tasks that it has begun.
        self.stops: frozenset[Receipt] = frozenset()
        #: What an operator has told the session.
        self.command = WorkerCommand()
        #: When the next renewal is due, and when one last looked for messages in vain, on the monotonic clock.
        self.renew_at = 0.0
        self.looked_at = float("-inf")
        # When to give back what a claim without an answer may have taken.
        self._resync_at: list[float] = []

    @property
    def record(self) -> SessionRecord:
        """The record of this moment."""
        return self._record

    @property
    def may_begin(self) -> bool:
        """Whether messages may begin: no other worker can have them."""
        return self._record.may_begin(now(), self._deadline_seconds)

    @property
    def is_over(self) -> bool:
        """Whether a retired session has nothing left to wait for."""
        return is_over(self._record, self.held)

    @property
    def id(self) -> int:
        """The id of the session's row. Raises SessionLost where there is none."""
        session_id = self._record.id
        if session_id is None:
            raise SessionLost
        return session_id

    def on(
        self, event: SessionEvent, *, session_id: int | None = None, confirmed_at: float | None = None
    ) -> tuple[SessionRecord, frozenset[Consequence]]:
        """Make the transition; return the record from before, and what to do. Raises IllegalMove."""
        with self.lock:
            while True:
                stored = self._record
                before = stored.at(now(), self._deadline_seconds)
                record, consequences = after(before, event)
                if session_id is not None:
                    record = replace(record, id=session_id)
                if confirmed_at is not None:
                    record = replace(record, confirmed_at=confirmed_at)
                if self._record is stored:  # else a signal's handler has come in between
                    self._record = record
                    return before, consequences

    def close(self) -> int | None:
        """Close the session; return the id of the row to delete, to the first caller only."""
        before, _ = self.on(SessionEvent.CLOSED)
        return before.id

    def forget(self) -> None:
        """Leave the session to the parent, in a forked child: one of its threads may have held the lock."""
        self.lock = threading.RLock()
        self.on(SessionEvent.CLOSED)

    def let_go(self, items: Iterable[Claimed | Settlement]) -> None:
        """Hold these messages no more."""
        self.held.difference_update(item.receipt for item in items)

    def let_go_unless_revived(self, items: Iterable[Claimed | Settlement], revivals: int) -> bool:
        """Hold these no more; False if the session was revived meanwhile: it may have them again."""
        with self.lock:
            if self._record.is_revived_since(revivals):
                return False
            self.let_go(items)
        return True

    def hold(self, receipts: Iterable[Receipt], revivals: int) -> bool:
        """Hold what was claimed; False if the session was revived meanwhile: others may have the messages."""
        with self.lock:
            if not self._record.may_hold(revivals):
                return False
            self.held.update(receipts)
        return True

    def renew_soon(self) -> None:
        """Renew in the heartbeat's next round."""
        self.renew_at = 0.0

    def expect_renewal(self) -> None:
        """Renew well before the deadline that was set just now."""
        self.renew_at = time.monotonic() + self._deadline_seconds / RENEWALS

    def miss_claim(self) -> None:
        """Note that a claim got no answer, or one that is void."""
        # Twice: a statement of the lost connection may claim until its timeout.
        self._resync_at = [now(), now() + 2 * conf.load().STATEMENT_TIMEOUT_SECONDS]

    def resync_due(self) -> float | None:
        """Return the time at which to give back what such a claim may have taken, None if it is to come."""
        due = self._resync_at[:1]
        return due[0] if due and now() >= due[0] else None

    def resynced(self, due: float) -> None:
        """Note that it was given back. Two threads may have done it at once."""
        with suppress(ValueError):
            self._resync_at.remove(due)


class SessionRow:
    """The row of a session in the database: what writes it, and what the answers mean for the state."""

    def __init__(
        self, alias: str, *, kind: str, state: SharedState, driver: Driver, wake: Wake, store: Store
    ) -> None:
        self.alias = alias
        self.state = state
        self.driver = driver
        #: The store of what may run in any thread: the heartbeat's, while there is one.
        self.store = store
        self._kind = kind
        self.wake = wake
        self._deadline_seconds = conf.load().SESSION_SECONDS
        # The claims that the session was asked to stop, and did not hold.
        self._missed: frozenset[Receipt] = frozenset()

    @property
    def name(self) -> str:
        """The name that operators see."""
        return self.driver.name() or f"{self._kind}@{socket.gethostname()}:{os.getpid()}"

    @property
    def info(self) -> SessionInfo:
        return SessionInfo(
            name=self.name,
            kind=self._kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            queues=self.driver.queues(),
            credit=self.driver.describe().credit,
        )

    def renew(self, *, memory_bytes: int | None) -> Renewal | None:
        """Renew the row, or revive it; None if it was not there as it was. Raises StoreError."""
        record, begun_at, driver = self.state.record, now(), self.driver
        if record.id is None:
            return None
        load, held = driver.describe(), len(self.state.held)
        running = (each for each in driver.running() if self._shows(each))
        heartbeat = Heartbeat(
            deadline_seconds=self._deadline_seconds,
            held=held,
            queues=driver.queues(),
            credit=load.credit,
            consumers=load.consumers,
            busy=load.busy,
            slots=load.slots,
            memory_bytes=memory_bytes,
            running=tuple(islice(running, MOST_RUNNING)),
            look=held < max(1, load.credit),
        )
        renewal = self.store.sessions.renew(record.id, heartbeat)
        self.state.expect_renewal()
        if renewal is None or Consequence.REVIVE in self._confirm(begun_at):
            if self.revive(record.revivals):
                self._confirm(begun_at)
            return None
        return renewal

    def _shows(self, each: Running) -> bool:
        """Whether to report what the driver runs; another session of the driver may have it."""
        return not self.state.record.retired if each.begun else each.receipt in self.state.held

    def _confirm(self, begun_at: float) -> frozenset[Consequence]:
        """Note a successful renewal; tell the driver if messages may begin again."""
        _, consequences = self.state.on(SessionEvent.RENEWED, confirmed_at=begun_at)
        if Consequence.RESUME in consequences:
            logger.warning("The lease of %r was not renewed in time, and is confirmed again", self.name)
            self.driver.on_command(self.state.command)
        return consequences

    def revive(self, revivals: int) -> bool:
        """Open the session again after it was reaped; False if it lost messages: then the driver begins anew.

        ``revivals`` is how often it was revived before it was missed: another thread may have revived it since.
        Raises StoreError.
        """
        consequences = frozenset[Consequence]()
        with self.state.lock:
            if self.state.record.was_missed_at(revivals):
                consequences = self._revive()
        if Consequence.LOOK in consequences:
            self.wake.set()
            self.state.renew_soon()
        if Consequence.RESUME in consequences:
            self.driver.on_command(self.state.command)
        return not self.state.record.is_lost

    def _revive(self) -> frozenset[Consequence]:
        state, session_id, held = self.state, self.state.id, frozenset(self.state.held)
        before, _ = state.on(SessionEvent.MISSED)
        info = replace(self.info, told=state.command)
        kept = self.store.sessions.revive(session_id, info, sorted(held), deadline_seconds=self._deadline_seconds)
        was_unanswered = before.state is SessionState.MISSING
        answer = revival(held, kept, was_unanswered=was_unanswered, constrained=state.constrained)
        logger.warning(
            "Session %s was reaped: its process could not renew it in time. It keeps %s of its messages; %s were"
            " given to others, or finished",
            session_id,
            len(held) - len(answer.gone),
            len(answer.gone),
        )
        state.held -= answer.gone
        return state.on(answer.event)[1]

    def resync(self, store: Store) -> None:
        """Give back the messages of a claim that got no answer. Raises StoreError."""
        due = self.state.resync_due()
        if due is None:
            return
        released = store.claims.resync(self.state.id, sorted(id_ for id_, _ in list(self.state.held)))
        self.state.resynced(due)
        if released:
            logger.warning("Gave back %s messages of a claim that got no answer", released)

    def take_command(self, command: WorkerCommand) -> None:
        """Take the operator's command that a renewal brought, and pass a new one on to the driver."""
        if command != self.state.command:
            logger.info("%r is told: %s, credit %s", self.name, command.mode, command.credit or "its own")
            self.state.command = command
            self.driver.on_command(command)
            self.state.renew_soon()  # shows the operator that the worker follows

    def take_stops(self, stops: frozenset[Receipt]) -> None:
        """Pass on what is to be stopped of what the session holds, and of what it has begun. Raises StoreError.

        What it does not have is forgotten at the next renewal: the answer to its claim may be on its way.
        """
        mine = stops & self.state.held
        if gone := stops - mine:
            mine |= gone & {each.receipt for each in self.driver.running() if each.begun}
            gone -= mine
        forgotten, self._missed = gone & self._missed, gone
        self.state.stops = mine
        if forgotten:
            self.store.sessions.forget_stops(self.state.id, forgotten)
        if mine:
            self.driver.on_stops()
