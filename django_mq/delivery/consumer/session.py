"""A worker session: one process's lease on everything it has claimed.

As long as the deadline in the session's row is renewed, the session keeps its messages, however long they run.
When the deadline has passed, by the database's clock, any other worker gives them back.

Two threads write, each over a connection of its own. The driver (the worker's loop) claims and settles. The
heartbeat renews, does maintenance, and writes settlements that a blocked or stopped loop leaves behind.

What it may do, and what becomes of it, is decided in ``engine/decisions/session.py``. A verdict of a lost session
counts only if nothing has become of its message since.
"""

from __future__ import annotations

import atexit
import logging
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq import outages
from django_mq.delivery.consumer.duties import end_stuck
from django_mq.delivery.consumer.heartbeat import HeartbeatThread
from django_mq.delivery.consumer.lease import Driver, SessionRow, SharedState, now
from django_mq.delivery.consumer.settlements import PendingSettlements, SettlementWriter, write_first
from django_mq.engine.decisions.session import SessionEvent, SessionState
from django_mq.engine.decisions.verdict import ACCEPT, RELEASE, Verdict, if_cancelled
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import LockHeld, SessionLost, StoreError
from django_mq.notifications.base import News
from django_mq.process import at_fork
from django_mq.stores import connections
from django_mq.stores.records import ClaimResult, Lease, Settlement
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from django_mq.notifications.base import Wake
    from django_mq.stores.records import Claimed, ClaimRequest, Receipt, WorkerCommand

logger = logging.getLogger("django_mq.delivery")

_live: weakref.WeakSet[Session] = weakref.WeakSet()
#: Alias and id of sessions that the database refused to close. They are closed before another session opens, so
#: that a worker that connects again and again does not leave a row behind each time.
_unclosed: set[tuple[str, int]] = set()


class Session:
    """Claims and settles in the name of one session row. Opens at the first claim."""

    def __init__(self, alias: str, *, kind: str, wake: Wake, driver: Driver | None = None) -> None:
        self.alias = alias
        self.kind = kind
        self.wake = wake
        self.store = private_store(alias)
        self.settlements = PendingSettlements()
        self.state = SharedState()
        self.row = SessionRow(
            alias, kind=kind, state=self.state, driver=driver or Driver(), wake=wake, store=self.store
        )
        self._writer = SettlementWriter(self.row, self.settlements)
        #: None before the session opens and after it closes.
        self.heartbeat: HeartbeatThread | None = None

    @property
    def driver(self) -> Driver:
        """The callbacks of the loop that drives the session."""
        return self.row.driver

    @property
    def id(self) -> int | None:
        """The id of its row; None where it has none."""
        return self.state.record.id

    @property
    def name(self) -> str:
        """The name that operators see."""
        return self.row.name

    @property
    def queues(self) -> tuple[str, ...]:
        """All its queues, those included that it does not claim from at the moment."""
        return self.driver.queues()

    # Claiming and settling, by the driver.

    def settle_and_claim(self, request: ClaimRequest | None) -> ClaimResult:
        """Write the waiting settlements and claim, in one transaction.

        Raises SessionLost and StoreUnavailable. After StoreUnavailable, call it again: no settlement is
        forgotten, and no claimed message is lost.
        """
        self._ensure_open()
        if request is not None:
            self.ensure_certain()
        revivals = self.state.record.revivals
        batch = self.settlements.take(self.state.held)
        try:
            self.row.resync(self.store)
            write_first(self.store, batch)
            if batch or request is not None:
                result = self.store.claims.settle_and_claim(self.state.id, batch, request)
            else:
                result = ClaimResult()
        except SessionLost:
            self.settlements.put_back(batch)
            if not self.row.revive(revivals):
                raise
            return self.settle_and_claim(request)
        except BaseException as error:
            # BaseException: a signal's handler may end the worker in the middle of this.
            self._writer.put_back(batch)
            self.state.miss_claim()
            self.store.close()
            if isinstance(error, LockHeld):
                raise self._held_up(error) from error
            raise
        self._writer.written(batch, result.void, self.store, revivals)
        if result.claimed:
            if not self.state.hold((message.receipt for message in result.claimed), revivals):
                self.state.miss_claim()
                return self.settle_and_claim(request)
            self.state.constrained = result.constrained
        return result

    def _held_up(self, error: LockHeld) -> LockHeld:
        """Return the error with the names of the workers that hold the lock. End those that no server ends."""
        end_stuck(self.store, connections.IDLE_SECONDS)
        holders = self.store.server.lock_holders(connections.LOCK_SECONDS)
        return LockHeld(". ".join([str(error), *map(str, holders)])) if holders else error

    def subscribe(self, queue: str) -> None:
        """Take an exclusive queue. Raises AccessRefused while another session has it, and StoreError."""
        self._ensure_open()
        revivals = self.state.record.revivals
        try:
            self.store.claims.subscribe(self.state.id, queue)
        except SessionLost:
            if not self.row.revive(revivals):
                raise
            self.subscribe(queue)

    def settle(self, settlement: Settlement, *, is_written: bool = False) -> None:
        """Take a verdict, to be written soon, or only noted if it ``is_written``: by the handler's transaction.

        Any thread may call this; it never raises.
        """
        if is_written:
            self.state.let_go([settlement])
        if self.state.stops:
            settlement = self._unless_stopped(settlement)
        self.settlements.add(settlement, is_written=is_written)
        if self.retired:
            connections.apart_from_event_loops(self.flush)()

    def accept_all(self, settlements: Sequence[Settlement], *, is_written: bool) -> None:
        """Take verdicts that accept messages, as ``settle`` does."""
        if is_written:
            self.state.let_go(settlements)
        self.settlements.add_all(settlements, is_written=is_written)
        if self.retired:
            self.flush()

    def _unless_stopped(self, settlement: Settlement) -> Settlement:
        """Return the settlement; that of a cancelled message does not give it back."""
        if settlement.receipt not in self.state.stops:
            return settlement
        return replace(settlement, verdict=if_cancelled(settlement.verdict))

    def accept(self, message: Claimed) -> None:
        """Settle a message as done."""
        self.settle(Settlement(message.id, message.claim, ACCEPT, told_to=message.told_to))

    def release(self, message: Claimed, *, delay_seconds: float = 0.0) -> None:
        """Give a message back to its place, uncounted."""
        receipt = message.id, message.claim
        self.settle(Settlement(*receipt, RELEASE, delay_seconds=delay_seconds, told_to=message.told_to))

    def expire(self, message: Claimed) -> None:
        """Settle an expired message."""
        self.settle(Settlement(message.id, message.claim, Verdict.EXPIRE, told_to=message.told_to))

    def flush(self) -> bool:
        """Write the waiting settlements, without claiming; False if that must wait. Never raises a StoreError."""
        return self._writer.flush()

    @property
    def held(self) -> int:
        """How many messages this session holds."""
        return len(self.state.held)

    @property
    def receipts(self) -> Set[Receipt]:
        """The claims of the messages that this session holds; of a settled one until that is written."""
        return self.state.held

    @property
    def looked_at(self) -> float:
        """When the heartbeat last looked for messages in vain, on the monotonic clock."""
        return self.state.looked_at if self.heartbeat is not None else float("-inf")

    @property
    def stops(self) -> Set[Receipt]:
        """The claims that this session holds and is asked to stop."""
        return self.state.stops

    @property
    def is_stuck(self) -> bool:
        """Whether only another worker, after the deadline, can give back what this session holds."""
        return self._writer.is_stuck

    # The session's life.

    @property
    def lost(self) -> bool:
        """Whether others have some of its messages, or it has ended: it claims no more, and nothing begins."""
        return self.state.record.is_lost

    @property
    def retired(self) -> bool:
        """Whether its driver has left it: it claims no more, and ends with its last message."""
        return self.state.record.retired

    @property
    def may_begin(self) -> bool:
        """Whether messages may begin: no other worker can have them."""
        return self.state.may_begin

    def ensure_certain(self) -> None:
        """Renew the session now, unless messages may begin. Raises SessionLost and other StoreErrors."""
        heartbeat = self.heartbeat
        if heartbeat is not None and not self.may_begin:
            heartbeat.renew()
        if self.lost:
            raise SessionLost

    @property
    def command(self) -> WorkerCommand:
        """What an operator has told the session."""
        return self.state.command

    @property
    def quiet(self) -> bool:
        """Whether an operator's command says to claim no more."""
        return self.command.mode is not WorkerMode.WORK

    def renew_soon(self) -> None:
        """Renew at once."""
        self.state.renew_soon()

    def _ensure_open(self) -> None:
        record = self.state.record
        if record.is_lost:
            raise SessionLost
        if record.state is not SessionState.NEW:
            return
        self._close_former()
        begun_at = now()
        heartbeat = HeartbeatThread(self.row, self._writer, self.close)
        session_id = heartbeat.open(self.row.info)
        self.heartbeat, self.row.store = heartbeat, heartbeat.store
        self.state.on(SessionEvent.OPENED, session_id=session_id, confirmed_at=begun_at)
        heartbeat.start()
        _live.add(self)

    def _close_former(self) -> None:
        """Close the sessions of this process that the database has refused to close. Raises StoreError."""
        for alias, session_id in [former for former in _unclosed if former[0] == self.alias]:
            released = self.store.sessions.close(session_id)
            _unclosed.discard((alias, session_id))
            if released:
                self._writer.tell_others(News(messages=released, back=True))

    @property
    def lease(self) -> Lease | None:
        """The lease of the claimed messages; None before the first claim and after the last."""
        session_id = self.id
        return None if session_id is None else Lease(self.alias, session_id)

    def forget(self) -> None:
        """Leave the session to the parent, in a forked child."""
        self.state.forget()
        self._writer.forget()
        if self.heartbeat is not None:
            self.heartbeat.abandon()
        self.heartbeat, self.row.store = None, self.store

    @property
    def over(self) -> bool:
        """Whether a retired session has nothing left to wait for."""
        return self.state.is_over

    def retire(self, unstarted: Iterable[Claimed] = ()) -> None:
        """Claim no more and give back what was not started; close when the last message is settled."""
        self.state.on(SessionEvent.RETIRED)
        for message in unstarted:
            given_back = Settlement(message.id, message.claim, RELEASE, told_to=message.told_to)
            self.settlements.add(self._unless_stopped(given_back))
        self.flush()
        if self.over:
            self.close()

    def close(self) -> None:
        """Write the waiting settlements, give back everything else, delete the row. Never raises a StoreError."""
        heartbeat = self.heartbeat
        if heartbeat is not None:
            heartbeat.stop()
        # Only now: settlements that the heartbeat was writing need the session's id.
        with self._writer.stopped():
            session_id = self.state.close()
        self.heartbeat, self.row.store = None, self.store
        _live.discard(self)
        if outages.ongoing:
            outages.database(self.alias).leave(self._writer)
        if session_id is None:
            self.store.close()
            return
        self._close_row(session_id)
        if heartbeat is not None:
            # Last: without its connection, other workers shorten the deadline of the session.
            heartbeat.close()

    def _close_row(self, session_id: int) -> None:
        self.store.close()  # it may be broken, and a new connection may not be
        try:
            while batch := self.settlements.take():
                write_first(self.store, batch)
                self._writer.written(batch, self.store.settlements.settle(session_id, batch), self.store)
            self._writer.written([], frozenset(), self.store)
            released = self.store.sessions.close(session_id)
            if released or self.state.constrained:
                self._writer.tell_others(News(messages=max(1, released), back=True))
        except StoreError as error:
            _unclosed.add((self.alias, session_id))
            logger.warning("The session will be reaped, the database cannot be written: %s", error)
        finally:
            self.store.close()


def close_all() -> None:
    """Close this process's sessions, so that nothing waits for their deadlines."""
    for session in list(_live):
        session.close()


def close_retired() -> None:
    """Close the retired sessions of this process, when none of what they wait for runs any more."""
    for session in list(_live):
        if session.retired:
            session.close()


def _forget_parents() -> None:
    # A forked child holds no lease: closing the parent's sessions would release their messages.
    for session in list(_live):
        session.forget()
    _live.clear()
    _unclosed.clear()


atexit.register(close_all)
at_fork(after_in_child=_forget_parents)
