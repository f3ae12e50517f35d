"""A worker session: one process's lease on everything it has claimed.

Who decides: the session's row. As long as its deadline is renewed, its messages are its
own, however long they run; when the deadline passes, any other worker gives them back.
Which time: the database's clock for the deadline, this machine's only for sleeping.

Two threads write, each on a connection of its own. The driver (the worker's loop) claims and settles. The
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

from django_mq import __version__
from django_mq.delivery.consumer import settlements
from django_mq.delivery.consumer.heartbeat import Certainty, HeartbeatThread, now, revive
from django_mq.delivery.consumer.settlements import Settlements, SettlementWriter
from django_mq.engine.verdict import ACCEPT, RELEASE, Verdict
from django_mq.engine.worker_mode import WorkerMode
from django_mq.errors import SessionLost, StoreError
from django_mq.notifications.base import News
from django_mq.notifications.registry import notifier
from django_mq.stores.records import ClaimResult, Lease, SessionInfo, Settlement, WorkerCommand
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.notifications.base import Wake
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ClaimRequest, ConsumerInfo, Receipt

logger = logging.getLogger("django_mq.delivery")

_live: weakref.WeakSet[Session] = weakref.WeakSet()
#: Alias and id of each session that ended while the database refused to close it. No other session opens on
#: that alias before: a worker that connects again and again must not leave a row behind each time.
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
    """What a session asks and tells the loop that drives it. Called by the thread of the heartbeat."""

    #: The session's name; nothing for one made of host and process.
    name: Callable[[], str] = str
    #: All its queues, those included that it does not claim from at the moment.
    queues: Callable[[], tuple[str, ...]] = tuple
    describe: Callable[[], Workload] = Workload
    #: Called when the session is told something else.
    on_command: Callable[[WorkerCommand], object] = lambda told: told
    #: Called when messages were given back to their places, the first of them for so many seconds.
    came_back: Callable[[float], object] = lambda seconds: seconds
    #: Called in each round of the heartbeat, for what the driver may be too busy to see to.
    mind: Callable[[], object] = lambda: None


class Session:
    """Claims and settles in the name of one session row. Opens at the first claim."""

    def __init__(self, alias: str, *, kind: str, wake: Wake, driver: Driver = Driver()) -> None:
        self.alias = alias
        self.kind = kind
        self.wake = wake
        self.store = private_store(alias)
        self.id: int | None = None
        self.settlements = Settlements()
        self.driver = driver
        self.command = WorkerCommand()
        self.certainty = Certainty(self)
        self.lost = False
        self.retired = False
        # Whether what was claimed last may keep messages of its queue from others until it is settled.
        self._constrained = False
        # Claimed and not yet settled in the database.
        self._held: set[Receipt] = set()
        self._heartbeat: HeartbeatThread | None = None
        self._writer = SettlementWriter(self)
        self._closing = threading.Lock()
        self._reviving = threading.Lock()

    @property
    def name(self) -> str:
        """By which operators know it."""
        return self.driver.name() or f"{self.kind}@{socket.gethostname()}:{os.getpid()}"

    @property
    def queues(self) -> tuple[str, ...]:
        """All its queues, those included that it does not claim from at the moment."""
        return self.driver.queues()

    # Claiming and settling, by the driver.

    def settle_and_claim(self, request: ClaimRequest | None) -> ClaimResult:
        """Write what is waiting and claim, in one transaction.

        Raises SessionLost, or StoreUnavailable, after which it may simply be called again:
        nothing that was settled is forgotten, nothing that was claimed is lost.
        """
        self._ensure_open()
        if request is not None:
            self.certainty.ensure()
        revivals = self.certainty.revivals
        batch = self.settlements.take()
        try:
            self.resync(self.store)
            result = self.store.settle_and_claim(self._id(), batch, request)
        except SessionLost:
            self.settlements.put_back(batch)
            if not self.revive(revivals):
                raise
            return self.settle_and_claim(request)
        except BaseException:
            # A signal's handler may end the worker in the middle of this, too.
            self.settlements.put_back(batch)
            self.certainty.miss_claim()
            self.store.close()
            raise
        self.written(batch, result.void)
        if result.claimed and not self._hold(result.claimed, revivals):
            self.certainty.miss_claim()
            return self.settle_and_claim(request)
        if result.claimed:
            self._constrained = result.constrained
        return result

    def _hold(self, claimed: Iterable[Claimed], revivals: int) -> bool:
        """Hold what was claimed; False if the session was revived meanwhile, without these messages.

        Others may have them: the session was reaped before or after it claimed them. A lost session holds them
        until its owner gives them back.
        """
        with self._reviving:
            if self.certainty.revivals != revivals and not self.lost:
                return False
            self._held.update((message.id, message.claim) for message in claimed)
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
        """Give back what a round trip of unknown outcome may have claimed. Raises StoreError."""
        due = self.certainty.resync_due()
        if due is None:
            return
        released = store.resync(self._id(), sorted(id_ for id_, _ in list(self._held)))
        self.certainty.resynced(due)
        if released:
            logger.warning("Gave back %s messages whose claim never arrived", released)

    def settle(self, settlement: Settlement) -> None:
        """Take a verdict; it is written soon. From any thread, never raising."""
        self.settlements.add(settlement)
        if self.retired:
            self.flush()

    def accept(self, message: Claimed) -> None:
        """Settle a message as done."""
        self.settle(Settlement(message.id, message.claim, ACCEPT))

    def release(self, message: Claimed, *, delay_seconds: float = 0.0) -> None:
        """Give a message back to its place, uncounted."""
        self.settle(Settlement(message.id, message.claim, RELEASE, delay_seconds=delay_seconds))

    def expire(self, message: Claimed) -> None:
        """Settle a message whose time to live is over."""
        self.settle(Settlement(message.id, message.claim, Verdict.EXPIRE))

    def let_go(self, message: Claimed) -> None:
        """A message was settled elsewhere, behind the same fence: hold it no more."""
        self._held.discard((message.id, message.claim))

    def gave_back(self, batch: Iterable[Settlement]) -> None:
        """Hold messages no more whose settlements could not be written."""
        self.settlements.stop_failing()
        self._held.difference_update((item.id, item.claim) for item in batch)

    def flush(self) -> bool:
        """Write what is waiting, without claiming; False if that must wait. Never raises a StoreError."""
        return self._writer.flush()

    def written(self, batch: list[Settlement], void: frozenset[int]) -> None:
        """Take note that these settlements are in the database, all but the void ones."""
        if batch:
            self.settlements.stop_failing()
        self._held.difference_update((item.id, item.claim) for item in batch)
        given_back = [item.delay_seconds for item in batch if item.verdict is RELEASE and item.id not in void]
        if given_back:
            self.driver.came_back(min(given_back))
        if given_back or (batch and self._constrained):
            later = [seconds for seconds in given_back if seconds > 0]
            # Where a queue has rules, each settlement may let others go on.
            ready = len(batch) if self._constrained else len(given_back) - len(later)
            self._tell_others(News(ready, min(later, default=None), back=True))
        if void:
            logger.warning(
                "%s settlements were void: their messages were claimed, moved or cancelled meanwhile", len(void)
            )

    def _tell_others(self, news: News) -> None:
        """Announce in this session's queues what came back, or is due at another time, without a publisher."""
        notifier().announce(dict.fromkeys(self.queues, news))

    @property
    def held(self) -> int:
        """How many messages this session holds."""
        return len(self._held)

    @property
    def looked_at(self) -> float:
        """When the heartbeat last looked for messages in vain, on the monotonic clock: the driver need not yet."""
        heartbeat = self._heartbeat
        return float("-inf") if heartbeat is None else heartbeat.looked_at

    @property
    def heartbeat(self) -> HeartbeatThread | None:
        """The heartbeat, None before the session opens and after it closes."""
        return self._heartbeat

    @property
    def hopeless(self) -> bool:
        """Whether nothing is left but finished messages that can neither be settled nor given back from here.

        Then only another worker can give them back, after the deadline.
        """
        waiting = len(self.settlements)
        return 0 < self.held <= waiting and self.settlements.failing_seconds() >= settlements.GIVE_UP_SECONDS

    # The session's life.

    @property
    def quiet(self) -> bool:
        """Whether it is told to claim no more."""
        return self.command.mode is not WorkerMode.WORK

    def take_command(self, command: WorkerCommand) -> None:
        """Take what a renewal says, and tell the driver if it is news."""
        if command != self.command:
            logger.info("%r is told: %s, credit %s", self.name, command.mode, command.credit or "its own")
            self.command = command
            self.driver.on_command(command)
            self.renew_soon()  # the operator sees that it follows

    def renew_soon(self) -> None:
        """Renew at once instead of in time: somebody has told us something."""
        heartbeat = self._heartbeat
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
        self.id, self._heartbeat = heartbeat.open(self._info()), heartbeat
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
        """Go on after the session was reaped; False if a message, or its place, is gone: the driver begins anew.

        ``revivals`` is from before the session was missed: another thread may have revived it. Raises StoreError.
        """
        with self._reviving:
            if self.certainty.revivals == revivals and not self.lost:
                self._revive()
        return not self.lost

    def _revive(self) -> None:
        session_id, heartbeat, held = self._id(), self._heartbeat, set(self._held)
        certainty = self.certainty
        info = replace(self._info(), told=self.command)
        was_unanswered, certainty.revival_unanswered = certainty.revival_unanswered, True
        gone = revive(self.store if heartbeat is None else heartbeat.store, session_id, info, held)
        certainty.revival_unanswered = False
        certainty.revivals += 1
        if gone is None and was_unanswered:
            gone, self.lost = set(), True  # revived, with messages that are not known here
        elif gone is None:
            gone, self.id = held, None  # it names another session now
        self._held -= gone
        # Where a queue has rules, a consumer slot or a group may be another session's by now: what runs may be
        # settled, and nothing begins any more.
        self.lost = self.lost or bool(gone) or self.id is None or (self._constrained and bool(held))
        self.wake.set()
        self.renew_soon()

    def _close_former(self) -> None:
        """Close sessions of this process that the database has refused to close. Raises StoreError."""
        for alias, session_id in [former for former in _unclosed if former[0] == self.alias]:
            released = self.store.close_session(session_id)
            _unclosed.discard((alias, session_id))
            if released:
                self._tell_others(News(messages=released, back=True))

    @property
    def lease(self) -> Lease | None:
        """In whose name messages are claimed now; None before the first claim and after the last."""
        return None if self.id is None else Lease(self.alias, self.id)

    def _id(self) -> int:
        if self.id is None:
            raise SessionLost
        return self.id

    def forget(self) -> None:
        """Be nobody: in a forked child the session, its row and its thread are the parent's."""
        self.lost = True
        if self._heartbeat is not None:
            self._heartbeat.abandon()
        self.id = self._heartbeat = None
        # A thread of the parent that held their locks does not exist here.
        self._writer, self._closing, self._reviving = SettlementWriter(self), threading.Lock(), threading.Lock()

    @property
    def over(self) -> bool:
        """Whether a retired session has nothing left to wait for."""
        return self.retired and not self._held

    def retire(self, unstarted: Iterable[Claimed] = ()) -> None:
        """Claim no more and give back what was not started; what is running may still settle.

        The session is closed when its last message is settled.
        """
        self.retired = True
        for message in unstarted:
            self.settlements.add(Settlement(message.id, message.claim, RELEASE))
        self.flush()
        if self.over:
            self.close()

    def close(self) -> None:
        """Write what is waiting, give back everything else, forget the row. Never raises a StoreError."""
        with self._closing:
            heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.stop()
        # Only now: settlements that the heartbeat was writing need the session's id.
        with self._writer.stopped(), self._closing:
            session_id, self.id = self.id, None
        _live.discard(self)
        if session_id is None:
            self.store.close()
        else:
            self._close_row(session_id)
        if heartbeat is not None:
            # Last: a session whose connection has ended is not given long.
            heartbeat.close()

    def _close_row(self, session_id: int) -> None:
        self.store.close()  # it may be broken, and a new connection may not be
        try:
            while batch := self.settlements.take():
                self.written(batch, self.store.settle(session_id, batch))
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


def _forget_parents() -> None:
    # A forked child holds no lease: closing the parent's sessions would release their messages.
    for session in list(_live):
        session.forget()
    _live.clear()
    _unclosed.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget_parents)
