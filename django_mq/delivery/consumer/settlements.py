"""Gather the outcomes of messages, and write them together: with the next claim, or after a moment."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq import outages
from django_mq.delivery import hints
from django_mq.engine.decisions.verdict import ACCEPT, DECLINE, END, RELEASE, Verdict
from django_mq.engine.states import REJECTED
from django_mq.errors import SessionLost, StoreError, StoreUnavailable
from django_mq.notifications.base import News
from django_mq.notifications.registry import notifier
from django_mq.stores.records import Settlement, write_all
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from django_mq.delivery.consumer.lease import SessionRow
    from django_mq.stores.base import Store
    from django_mq.stores.records import Receipt

logger = logging.getLogger("django_mq.delivery")

#: Settlements written by one statement at most.
BATCH = 1000
#: Settlements waiting for so long, in seconds, are written even if nothing is to be claimed.
LINGER_SECONDS = 0.01
#: So many waiting settlements are written even if nothing is to be claimed.
CROWD = 256
#: Settlements that could not be written for so long, in seconds, are written over a new connection.
RECONNECT_SECONDS = 2.0
#: Messages that could not be settled for so long, in seconds, are given back.
GIVE_UP_SECONDS = 60.0
#: Longest pause between two tries to write settlements, in seconds.
PAUSE_SECONDS = 1.0
#: Delay of a message if the database refuses its settlement, in seconds.
REFUSED_DELAY_SECONDS = 60.0
#: Longest wait of a closing session for settlements that another thread is writing, in seconds.
FLUSH_SECONDS = 10.0
NOTHING: Set[Receipt] = frozenset()
#: Errors that do not blame a settlement: it is written later.
PASSING = SessionLost, StoreUnavailable


def write_first(store: Store, batch: Sequence[Settlement]) -> None:
    """Write what is written before these verdicts. Raises StoreError."""
    if writes := [item.first for item in batch if item.first is not None]:
        write_all(store, writes)


class PendingSettlements:
    """A queue of settlements. Any thread may add one, and so may a signal handler: adding uses no database.

    A settlement that was written elsewhere, in the transaction of a handler, waits here only to be noted: credit
    came back, and other messages may be ready.
    """

    def __init__(self) -> None:
        self._waiting: deque[Settlement] = deque()
        self._written_elsewhere: deque[Settlement] = deque()
        self._since: float | None = None
        # When the first of an unbroken series of failed writes failed.
        self._failing_since: float | None = None

    def __len__(self) -> int:
        """How many wait for the next write."""
        return len(self._waiting)

    @property
    def ended(self) -> int:
        """How many messages have ended, as far as the session has not noted it."""
        return len(self._waiting) + len(self._written_elsewhere)

    def add(self, settlement: Settlement, *, is_written: bool = False) -> None:
        """Let a settlement wait for the next write, or only to be noted if it ``is_written``."""
        (self._written_elsewhere if is_written else self._waiting).append(settlement)
        if self._since is None:
            self._since = time.monotonic()

    def add_all(self, settlements: Sequence[Settlement], *, is_written: bool = False) -> None:
        """Let settlements wait, as ``add`` does."""
        (self._written_elsewhere if is_written else self._waiting).extend(settlements)
        if self._since is None:
            self._since = time.monotonic()

    def age_seconds(self) -> float:
        """Return for how long the oldest has been waiting."""
        since = self._since
        return 0.0 if since is None or not self.ended else time.monotonic() - since

    def late(self) -> bool:
        """Whether the oldest has waited long enough."""
        return self.age_seconds() >= LINGER_SECONDS

    def pressing(self) -> bool:
        """Whether to write them now, without a claim if need be."""
        return len(self._waiting) >= CROWD or self.late()

    def take(self, held: Set[Receipt] = NOTHING) -> list[Settlement]:
        """Take a batch out; the caller writes it or puts it back.

        The end of a run stays while another thread still writes its beginning, and its message counts as ``held``.
        """
        batch: list[Settlement] = []
        early: list[Settlement] = []
        self._since = None
        while self._waiting and len(batch) < BATCH:
            settlement = self._waiting.popleft()
            if settlement.verdict is END and settlement.receipt in held and not _is_begun_in(batch, settlement):
                early.append(settlement)
            else:
                batch.append(settlement)
        self._waiting.extendleft(reversed(early))
        if self.ended:
            self._since = time.monotonic()
        return batch

    def take_written(self) -> list[Settlement]:
        """Take out those that were written elsewhere."""
        return [self._written_elsewhere.popleft() for _ in range(len(self._written_elsewhere))]

    def put_back(self, batch: Sequence[Settlement]) -> None:
        """Put a batch that could not be written back in front of the others."""
        if not batch:
            return
        self._waiting.extendleft(reversed(batch))
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        self._failing_since = now if self._failing_since is None else self._failing_since

    def stop_failing(self) -> None:
        """Forget the failures: settlements were written, or given up."""
        self._failing_since = None

    def failing_seconds(self) -> float:
        """Return for how long no settlement could be written, 0 if the last one could."""
        since = self._failing_since
        return 0.0 if since is None else time.monotonic() - since

    def stale(self, seconds: float) -> bool:
        """Whether the oldest has waited for so long; while writing fails, for a pause that grows."""
        return self.age_seconds() > max(seconds, min(self.failing_seconds() / 4, PAUSE_SECONDS))


def _is_begun_in(batch: Sequence[Settlement], end: Settlement) -> bool:
    return any(item.receipt == end.receipt for item in batch)


class SettlementWriter:
    """Writes what waits in ``pending``: from any thread, one thread at a time."""

    def __init__(self, row: SessionRow, pending: PendingSettlements) -> None:
        self.pending = pending
        self._row = row
        self._state = row.state
        # Ids of messages whose settlement had no answer: it may be in the database already.
        self._unanswered: set[int] = set()
        self._flushing = threading.Lock()
        self._flusher: int | None = None

    def flush(self) -> bool:
        """Write what is waiting, without claiming; False if that must wait. Never raises a StoreError.

        It does not wait for another flush, which this thread may run: a signal's handler may have interrupted it.
        """
        if not self._flushing.acquire(blocking=False):
            return False
        self._flusher = threading.get_ident()
        try:
            while batch := self.pending.take(self._state.held):
                self._write_or_put_back(batch)
            if self.pending.ended:
                self.written([], frozenset(), self._row.store)
        except StoreError as error:
            outages.database(self._row.alias).failed(self, error)
            return False
        finally:
            self._flusher = None
            self._flushing.release()
        if outages.ongoing:
            outages.database(self._row.alias).succeeded(self)
        return True

    def put_back(self, batch: list[Settlement]) -> None:
        """Keep settlements whose writing had no answer, to write them again."""
        self.pending.put_back(batch)
        self._unanswered.update(item.id for item in batch)

    def written(
        self, batch: list[Settlement], void: frozenset[int], store: Store, revivals: int | None = None
    ) -> None:
        """Note these settlements as written, all but the void ones, and those that were written elsewhere.

        ``revivals`` is how often the session was revived before they were written.
        """
        driver, constrained = self._row.driver, self._state.constrained
        if batch:
            self.pending.stop_failing()
        if void and revivals is not None:
            refused = [item for item in batch if item.id in void]
            if not self._state.let_go_unless_revived(refused, revivals):
                # The session was reaped, and revived with these messages: without a verdict they stay claimed.
                batch, void = [item for item in batch if item.id not in void], frozenset()
                self.pending.put_back(refused)
        self._state.let_go(batch)
        ended = [*batch, *self.pending.take_written()]
        others = [item for item in ended if item.verdict is not ACCEPT and item.id not in void]
        given_back = [item.delay_seconds for item in others if item.verdict is RELEASE]
        if given_back:
            driver.came_back(min(given_back))
        declined = sum(item.verdict is DECLINE for item in others)
        if given_back or declined or (ended and constrained):
            later = [seconds for seconds in given_back if seconds > 0]
            # In a queue with rules, each settlement may make another message ready.
            ready = len(ended) if constrained else len(given_back) - len(later) + declined
            self.tell_others(News(ready, min(later, default=None), back=True))
        dead = sum(item.verdict is Verdict.DEAD for item in others)
        expired = sum(item.verdict is Verdict.EXPIRE for item in others)
        if dead or expired:
            hints.announce_ended(driver.queues(), store, dead=dead, expired=expired)
        # A settlement that was written without an answer finds nothing to settle the second time.
        lost = void - self._unanswered
        self._unanswered.difference_update(item.id for item in batch)
        if lost:
            logger.warning(
                "%s settlements were void: their messages were claimed, moved or cancelled meanwhile", len(lost)
            )

    def tell_others(self, news: News) -> None:
        """Announce, in this session's queues, messages that came back."""
        notifier().announce(dict.fromkeys(self._row.driver.queues(), news))

    @property
    def is_stuck(self) -> bool:
        """Whether only another worker, after the deadline, can give back what this session holds.

        All of its messages are finished, and can neither be settled nor given back from here.
        """
        held = len(self._state.held)
        return 0 < held <= len(self.pending) and self.pending.failing_seconds() >= GIVE_UP_SECONDS

    def _write_or_put_back(self, batch: list[Settlement]) -> None:
        left = list(batch)
        try:
            try:
                self._write(batch)
            except PASSING:
                raise
            except StoreError:
                # A settlement that the database refuses for good must not keep the others waiting.
                while left:
                    self._write_or_give_back(left[0])
                    del left[0]
        except BaseException as error:
            if not (isinstance(error, StoreError) and self._gave_back(left, error)):
                self.put_back(left)
                raise

    def _gave_back(self, batch: list[Settlement], error: StoreError) -> bool:
        """Give back messages that could not be settled for too long: another worker may be able to settle them."""
        session_id, seconds = self._state.record.id, self.pending.failing_seconds()
        if session_id is None or seconds < GIVE_UP_SECONDS:
            return False
        try:
            with closing(private_store(self._row.alias)) as store:
                store.settlements.give_back(session_id, batch)
        except StoreError:
            return False
        self.pending.stop_failing()
        self._state.let_go(batch)
        logger.error(
            "Gave back %s finished messages, they run again: no verdict could be written for %.0f s: %s",
            len(batch),
            seconds,
            error,
        )
        return True

    def _write_or_give_back(self, settlement: Settlement) -> None:
        """Write one settlement, if need be without its details; give the message back if that is refused, too.

        Raises a StoreError where nothing can be written at all, or not now.
        """
        without_details = replace(settlement, failure=None, reason=REJECTED if settlement.reason else "")
        back = Settlement(
            settlement.id,
            settlement.claim,
            Verdict.RELEASE,
            counted=True,
            delay_seconds=REFUSED_DELAY_SECONDS,
            told_to=settlement.told_to,
        )
        for form in (settlement, without_details):
            try:
                self._write([form])
            except PASSING:
                raise
            except StoreError as error:
                logger.warning("The database refuses a settlement of message row %s: %s", settlement.id, error)
            else:
                return
        self._write([back])

    def _write(self, batch: list[Settlement]) -> None:
        record, known = self._state.record, self._row.store
        session_id = record.id
        if session_id is None:
            return
        if self.pending.failing_seconds() < RECONNECT_SECONDS:
            write_first(known, batch)
            void = known.claims.settle_and_claim(session_id, batch, None).void
        else:
            # The heartbeat's connection may be at fault here, and still good enough for renewals.
            with closing(private_store(self._row.alias)) as store:
                write_first(store, batch)
                void = store.claims.settle_and_claim(session_id, batch, None).void
            known.close()
        self.written(batch, void, known, record.revivals)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep other threads from writing settlements, for at most FLUSH_SECONDS: these would be void.

        It does not wait for this thread's own flush, which a signal's handler may have interrupted.
        """
        mine = self._flusher == threading.get_ident()
        waited = not mine and self._flushing.acquire(timeout=FLUSH_SECONDS)
        try:
            yield
        finally:
            if waited:
                self._flushing.release()

    def forget(self) -> None:
        """Leave it to the parent, in a forked child: a thread of the parent may have been writing."""
        self._flushing, self._flusher = threading.Lock(), None
