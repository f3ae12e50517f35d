"""A worker session: one process's lease on everything it has claimed.

As long as the deadline in the session's row is renewed, the session keeps its messages, however long they run.
When the deadline has passed, by the database's clock, any other worker gives them back.

Two threads write, each over a connection of its own. The driver (the worker's loop) claims and settles. The
heartbeat renews, does maintenance, and writes settlements that a blocked or stopped loop leaves behind.

    open ──> claims and settles ──> retired (settles only) ──> closed
                  └── renewal refused ──> lost: a verdict counts only if nothing has become of its message since
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django_mq import __version__, conf, outages
from django_mq.delivery import hints
from django_mq.delivery.consumer import settlements
from django_mq.delivery.consumer.duties import end_stuck
from django_mq.delivery.consumer.heartbeat import Certainty, HeartbeatThread, now
from django_mq.delivery.consumer.settlements import PendingSettlements, SettlementWriter
from django_mq.engine.decisions.verdict import ACCEPT, DECLINE, RELEASE, Verdict
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import LockHeld, SessionLost, StoreError
from django_mq.notifications.base import News
from django_mq.notifications.registry import notifier
from django_mq.stores import connections
from django_mq.stores.records import ClaimResult, Lease, SessionInfo, Settlement, WorkerCommand
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from django_mq.delivery.consumer.loop import Loop
    from django_mq.notifications.base import Wake
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ClaimRequest, ConsumerInfo, Receipt

logger = logging.getLogger("django_mq.delivery")

_live: weakref.WeakSet[Session] = weakref.WeakSet()
#: Alias and id of sessions that the database refused to close. They are closed before another session opens, so
#: that a worker that connects again and again does not leave a row behind each time.
_unclosed: set[tuple[str, int]] = set()


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
    #: Called when messages were given back to their places, the first of them delayed by so many seconds.
    came_back: Callable[[float], object] = lambda seconds: seconds
    #: The loop, None where the heartbeat does not know of one: a program's own consumer.
    loop: Callable[[], Loop | None] = lambda: None
    #: Whether the worker was told to end: it claims no more.
    leaves: Callable[[], bool] = bool
    #: Called in each round of the heartbeat, for what the driver may be too busy to do.
    on_round: Callable[[], object] = lambda: None


class Session:
    """Claims and settles in the name of one session row. Opens at the first claim."""

    def __init__(self, alias: str, *, kind: str, wake: Wake, driver: Driver = Driver()) -> None:
        self.alias = alias
        self.kind = kind
        self.wake = wake
        self.store = private_store(alias)
        self.id: int | None = None
        self.settlements = PendingSettlements()
        self.driver = driver
        self.command = WorkerCommand()
        self.certainty = Certainty(self)
        self.lost = False
        self.retired = False
        # Whether the last claimed messages may keep others of their queue from workers until they are settled.
        self._constrained = False
        # Claimed and not yet settled in the database.
        self._held: set[Receipt] = set()
        # Ids of messages whose settlement had no answer: it may be in the database already.
        self._unanswered: set[int] = set()
        #: None before the session opens and after it closes.
        self.heartbeat: HeartbeatThread | None = None
        self._writer = SettlementWriter(self)
        self._closing = threading.Lock()
        self._reviving = threading.Lock()

    @property
    def name(self) -> str:
        """The name that operators see."""
        return self.driver.name() or f"{self.kind}@{socket.gethostname()}:{os.getpid()}"

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
            self.certainty.ensure()
        revivals = self.certainty.revivals
        batch = self.settlements.take()
        try:
            self.resync(self.store)
            if batch or request is not None:
                result = self.store.settle_and_claim(self._id(), batch, request)
            else:
                result = ClaimResult()
        except SessionLost:
            self.settlements.put_back(batch)
            if not self.revive(revivals):
                raise
            return self.settle_and_claim(request)
        except BaseException as error:
            # BaseException: a signal's handler may end the worker in the middle of this.
            self.put_back(batch)
            self.certainty.miss_claim()
            self.store.close()
            if isinstance(error, LockHeld):
                raise self._held_up(error) from error
            raise
        self.written(batch, result.void, self.store)
        if result.claimed and not self._hold(result.claimed, revivals):
            self.certainty.miss_claim()
            return self.settle_and_claim(request)
        if result.claimed:
            self._constrained = result.constrained
        return result

    def _held_up(self, error: LockHeld) -> LockHeld:
        """Return the error with the names of the workers that hold the lock. End those that no server ends."""
        end_stuck(self.store, connections.IDLE_SECONDS)
        holders = self.store.lock_holders(connections.LOCK_SECONDS)
        return LockHeld(". ".join([str(error), *map(str, holders)])) if holders else error

    def _hold(self, claimed: Iterable[Claimed], revivals: int) -> bool:
        """Hold what was claimed; False if the session was revived meanwhile: other sessions may have the messages.

        A lost session holds them until its driver gives them back.
        """
        with self._reviving:
            if self.certainty.revivals != revivals and not self.lost:
                return False
            self._held.update(message.receipt for message in claimed)
        return True

    def subscribe(self, queue: str) -> None:
        """Take an exclusive queue. Raises AccessRefused while another session has it, and StoreError."""
        self._ensure_open()
        revivals = self.certainty.revivals
        try:
            self.store.subscribe(self._id(), queue)
        except SessionLost:
            if not self.revive(revivals):
                raise
            self.subscribe(queue)

    def resync(self, store: Store) -> None:
        """Give back the messages of a claim that got no answer. Raises StoreError."""
        due = self.certainty.resync_due()
        if due is None:
            return
        released = store.resync(self._id(), sorted(id_ for id_, _ in list(self._held)))
        self.certainty.resynced(due)
        if released:
            logger.warning("Gave back %s messages of a claim that got no answer", released)

    def settle(self, settlement: Settlement, *, is_written: bool = False) -> None:
        """Take a verdict, to be written soon, or only noted if it ``is_written``: by the handler's transaction.

        Any thread may call this; it never raises.
        """
        if is_written:
            self.let_go(settlement)
        self.settlements.add(settlement, is_written=is_written)
        if self.retired:
            self.flush()

    def accept(self, message: Claimed) -> None:
        """Settle a message as done."""
        self.settle(Settlement(message.id, message.claim, ACCEPT))

    def release(self, message: Claimed, *, delay_seconds: float = 0.0) -> None:
        """Give a message back to its place, uncounted."""
        self.settle(Settlement(message.id, message.claim, RELEASE, delay_seconds=delay_seconds))

    def expire(self, message: Claimed) -> None:
        """Settle an expired message."""
        self.settle(Settlement(message.id, message.claim, Verdict.EXPIRE))

    def let_go(self, *items: Claimed | Settlement) -> None:
        """Hold these messages no more."""
        self._held.difference_update(item.receipt for item in items)

    def flush(self) -> bool:
        """Write the waiting settlements, without claiming; False if that must wait. Never raises a StoreError."""
        return self._writer.flush()

    def put_back(self, batch: list[Settlement]) -> None:
        """Keep settlements whose writing had no answer, to write them again."""
        self.settlements.put_back(batch)
        self._unanswered.update(item.id for item in batch)

    def written(self, batch: list[Settlement], void: frozenset[int], store: Store) -> None:
        """Note these settlements as written, all but the void ones, and those that were written elsewhere."""
        if batch:
            self.settlements.stop_failing()
        self.let_go(*batch)
        ended = [*batch, *self.settlements.take_written()]
        others = [item for item in ended if item.verdict is not ACCEPT and item.id not in void]
        given_back = [item.delay_seconds for item in others if item.verdict is RELEASE]
        if given_back:
            self.driver.came_back(min(given_back))
        declined = sum(item.verdict is DECLINE for item in others)
        if given_back or declined or (ended and self._constrained):
            later = [seconds for seconds in given_back if seconds > 0]
            # In a queue with rules, each settlement may make another message ready.
            ready = len(ended) if self._constrained else len(given_back) - len(later) + declined
            self._tell_others(News(ready, min(later, default=None), back=True))
        dead = sum(item.verdict is Verdict.DEAD for item in others)
        expired = sum(item.verdict is Verdict.EXPIRE for item in others)
        if dead or expired:
            hints.announce_ended(self.queues, store, dead=dead, expired=expired)
        # A settlement that was written without an answer finds nothing to settle the second time.
        lost = void - self._unanswered
        self._unanswered.difference_update(item.id for item in batch)
        if lost:
            logger.warning(
                "%s settlements were void: their messages were claimed, moved or cancelled meanwhile", len(lost)
            )

    def _tell_others(self, news: News) -> None:
        """Announce, in this session's queues, messages that came back."""
        notifier().announce(dict.fromkeys(self.queues, news))

    @property
    def held(self) -> int:
        """How many messages this session holds."""
        return len(self._held)

    @property
    def receipts(self) -> Set[Receipt]:
        """The claims of the messages that this session holds; of a settled one until that is written."""
        return self._held

    @property
    def looked_at(self) -> float:
        """When the heartbeat last looked for messages in vain, on the monotonic clock."""
        heartbeat = self.heartbeat
        return float("-inf") if heartbeat is None else heartbeat.looked_at

    @property
    def is_stuck(self) -> bool:
        """Whether only another worker, after the deadline, can give back what this session holds.

        All of its messages are finished, and can neither be settled nor given back from here.
        """
        waiting = len(self.settlements)
        return 0 < self.held <= waiting and self.settlements.failing_seconds() >= settlements.GIVE_UP_SECONDS

    # The session's life.

    @property
    def quiet(self) -> bool:
        """Whether an operator's command says to claim no more."""
        return self.command.mode is not WorkerMode.WORK

    def take_command(self, command: WorkerCommand) -> None:
        """Take the operator's command that a renewal brought, and pass a new one on to the driver."""
        if command != self.command:
            logger.info("%r is told: %s, credit %s", self.name, command.mode, command.credit or "its own")
            self.command = command
            self.driver.on_command(command)
            self.renew_soon()  # shows the operator that the worker follows

    def renew_soon(self) -> None:
        """Renew at once."""
        heartbeat = self.heartbeat
        if heartbeat is not None:
            heartbeat.renew_soon()

    def _ensure_open(self) -> None:
        if self.lost:
            raise SessionLost
        if self.id is not None:
            return
        self._close_former()
        self.certainty.confirmed_at = now()
        heartbeat = HeartbeatThread(self)
        self.id, self.heartbeat = heartbeat.open(self._info()), heartbeat
        heartbeat.start()
        _live.add(self)

    def _info(self) -> SessionInfo:
        return SessionInfo(
            name=self.name,
            kind=self.kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            queues=self.queues,
            credit=self.driver.describe().credit,
        )

    def revive(self, revivals: int) -> bool:
        """Open the session again after it was reaped; False if it lost messages: then the driver begins anew.

        ``revivals`` is ``certainty.revivals`` from before the session was missed: another thread may have
        revived it. Raises StoreError.
        """
        with self._reviving:
            if self.certainty.revivals == revivals and not self.lost:
                self._revive()
        return not self.lost

    def _revive(self) -> None:
        session_id, held, certainty = self._id(), set(self._held), self.certainty
        store = self.store if self.heartbeat is None else self.heartbeat.store
        info = replace(self._info(), told=self.command)
        was_unanswered, certainty.revival_unanswered = certainty.revival_unanswered, True
        kept = store.revive(session_id, info, sorted(held), deadline_seconds=conf.load().SESSION_SECONDS)
        certainty.revival_unanswered = False
        certainty.revivals += 1
        gone = {receipt for receipt in held if kept is None or receipt[0] not in kept}
        logger.warning(
            "Session %s was reaped: its process could not renew it in time. It keeps %s of its messages; %s were"
            " given to others, or finished",
            session_id,
            len(held) - len(gone),
            len(gone),
        )
        if kept is None and was_unanswered:
            gone, self.lost = set(), True  # an earlier try revived it, with messages that are not known here
        elif kept is None:
            self.id = None  # it names another session now
        self._held -= gone
        # In a queue with rules, another session may have the slot or the group by now: what runs may be settled,
        # and nothing else begins.
        self.lost = self.lost or bool(gone) or self.id is None or (self._constrained and bool(held))
        self.wake.set()
        self.renew_soon()

    def _close_former(self) -> None:
        """Close the sessions of this process that the database has refused to close. Raises StoreError."""
        for alias, session_id in [former for former in _unclosed if former[0] == self.alias]:
            released = self.store.close_session(session_id)
            _unclosed.discard((alias, session_id))
            if released:
                self._tell_others(News(messages=released, back=True))

    @property
    def lease(self) -> Lease | None:
        """The lease of the claimed messages; None before the first claim and after the last."""
        return None if self.id is None else Lease(self.alias, self.id)

    def _id(self) -> int:
        if self.id is None:
            raise SessionLost
        return self.id

    def forget(self) -> None:
        """Leave the session to the parent, in a forked child."""
        self.lost = True
        if self.heartbeat is not None:
            self.heartbeat.abandon()
        self.id = self.heartbeat = None
        # A thread of the parent may have held the old locks.
        self._writer, self._closing, self._reviving = SettlementWriter(self), threading.Lock(), threading.Lock()

    @property
    def over(self) -> bool:
        """Whether a retired session has nothing left to wait for."""
        return self.retired and not self._held

    def retire(self, unstarted: Iterable[Claimed] = ()) -> None:
        """Claim no more and give back what was not started; close when the last message is settled."""
        self.retired = True
        for message in unstarted:
            self.settlements.add(Settlement(message.id, message.claim, RELEASE))
        self.flush()
        if self.over:
            self.close()

    def close(self) -> None:
        """Write the waiting settlements, give back everything else, delete the row. Never raises a StoreError."""
        with self._closing:
            heartbeat, self.heartbeat = self.heartbeat, None
        if heartbeat is not None:
            heartbeat.stop()
        # Only now: settlements that the heartbeat was writing need the session's id.
        with self._writer.stopped(), self._closing:
            session_id, self.id = self.id, None
        _live.discard(self)
        if outages.ongoing:
            outages.database(self.alias).leave(self._writer)
        if session_id is None:
            self.store.close()
        else:
            self._close_row(session_id)
        if heartbeat is not None:
            # Last: without its connection, other workers shorten the deadline of the session.
            heartbeat.close()

    def _close_row(self, session_id: int) -> None:
        self.store.close()  # it may be broken, and a new connection may not be
        try:
            while batch := self.settlements.take():
                self.written(batch, self.store.settle(session_id, batch), self.store)
            self.written([], frozenset(), self.store)
            released = self.store.close_session(session_id)
            if released or self._constrained:
                self._tell_others(News(messages=max(1, released), back=True))
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
os.register_at_fork(after_in_child=_forget_parents)
