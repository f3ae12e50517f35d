"""The workers of mq_worker. Each is a consumer runtime, a prefetch and a pool, driven by one thread.

Each turn of its loop settles and claims, offers what was claimed to the pool, and waits. To stop, it claims no
more, gives back what was not started, waits for running handlers, writes the last settlements and closes the
session. A process has one worker for each way of running that its handlers need.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from django.db import connections

from django_mq import conf, outages
from django_mq.delivery.consumer.ahead import Ahead
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import carries_task, check_transactions, pause_seconds
from django_mq.delivery.consumer.lease import Driver, Loop, Workload
from django_mq.delivery.consumer.pool import MakePool, Pool
from django_mq.delivery.consumer.prefetch import Dispatcher, Recall, prefetch_of
from django_mq.delivery.consumer.runtime import CREDIT, ConsumerRuntime
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.bulk import BulkLine
from django_mq.engine.decisions.interruption import Interruption
from django_mq.engine.decisions.session import LoopState
from django_mq.engine.decisions.verdict import DECLINE, RELEASE
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import (
    AccessRefused,
    HandlersHang,
    SessionLost,
    StoreError,
    StoreUnavailable,
    WorkerInTransaction,
)
from django_mq.stores import queue_records
from django_mq.stores.clock import clock
from django_mq.stores.records import Running
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.pool import HandlerPool
    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.records import Claimed, Receipt, Settlement, WorkerCommand

logger = logging.getLogger("django_mq.delivery")

#: Time between two looks at running time limits, in seconds.
WATCH_SECONDS = 0.25
#: A handler whose message was cancelled has so many seconds to end, before it is given up.
HEED_SECONDS = 10.0


class Shift:
    """One session of a worker, and what it has prefetched."""

    def __init__(
        self, runtime: ConsumerRuntime, handlers: list[Handler], of_process: tuple[Handler, ...] = ()
    ) -> None:
        self.runtime = runtime
        self.session = runtime.session
        self.dispatcher = Dispatcher(prefetch_of(handlers, self._begin), of_process)
        self.admission = ExclusiveQueues(runtime.session)
        self.recall = Recall(runtime.session, self.dispatcher)

    @cached_property
    def ahead(self) -> Ahead:
        """What is claimed ahead of queues with limits."""
        return Ahead(self.session.queues)

    @property
    def has_limits(self) -> bool:
        """Whether one of the queues has limits that a message uses up which waits in memory."""
        return bool(conf.extensions().limits and self.ahead.limited)

    def refills(self) -> dict[str, int]:
        """Return how much credit of each queue should gather; where there are limits, it has if there is some."""
        refills = self.dispatcher.refills()
        return refills | dict.fromkeys(self.ahead.limited, 1) if self.has_limits else refills

    def is_ahead(self, unfinished: int) -> bool:
        """Return whether enough of a queue with limits is claimed ahead."""
        return self.has_limits and unfinished > self.ahead.enough

    def give_back_stale(self) -> None:
        """Give back what was claimed ahead, and has not begun: what was quick has become slow."""
        if self.has_limits and self.ahead.stale_seconds <= 0:
            self.recall.give_back(self.ahead.limited)

    def _begin(self, message: Claimed, handler: Handler, receipt: Any) -> Delivery:
        policy = queue_records.last_read(self.session.alias, message.queue_name)
        return Delivery(message, handler, policy, self.session.lease, origin=self, receipt=receipt)

    def give_back_behind(self, message: Claimed) -> None:
        """Give back, uncounted, what is behind a message of its group that goes back to the queue."""
        for behind in self.dispatcher.close_group(message):
            self.session.release(behind)


def refuse_transactions(alias: str) -> None:
    """Raise WorkerInTransaction if this thread is in one on the queues' database."""
    if alias != MEMORY and connections[alias].in_atomic_block:
        raise WorkerInTransaction(
            f"The worker is called in a transaction on the database {alias!r}. It has connections of its"
            " own, which see no row of that transaction, and wait for its locks. Call it outside of atomic();"
            " in a TestCase, drain the queues with django_mq.testing."
        )


class Worker:
    """Consumes queues with their handlers until told to stop.

    It handles as many messages at a time as it has ``threads``, or slots of the ``pool`` that it is given. The
    handlers ``of_process`` are those of all workers of this process, in the order of declaration. If the process
    ``is_replaced`` when it ends, the worker ends at once where a cancelled handler does not end.
    """

    def __init__(
        self,
        handlers: Iterable[Handler],
        *,
        threads: int,
        pool: MakePool = Pool,
        of_process: Iterable[Handler] = (),
        using: str | None = None,
        name: str = "",
        credit_bytes: int | None = None,
        is_replaced: bool = False,
    ) -> None:
        self._alias = using or conf.load().DATABASE
        self._name = name
        self._handlers = [
            replace(handler, credit=handler.credit_with(threads), credit_bytes=handler.bytes_with(credit_bytes))
            for handler in handlers
        ]
        self._of_process = tuple(of_process)
        check_transactions(self._handlers, self._alias)
        conf.middleware()  # each message would fail in it
        self._queues = tuple(dict.fromkeys(handler.queue for handler in self._handlers))
        self._waiting = False
        # Queues in which a Celery task was found: each is logged once.
        self._queues_with_tasks: set[str] = set()
        # Lost sessions with running handlers.
        self._late: list[Session] = []
        self._loop = WorkerLoop(self, self._alias)
        self._open_shift()
        self._pool = pool(threads, next_attempt=Attempts(self), on_done=self._on_done, on_idle=self._on_idle)
        self._overruns = Overruns(self._handlers, self._pool, is_replaced=is_replaced)

    def _open_shift(self) -> None:
        """Begin a new session with nothing prefetched."""
        runtime = ConsumerRuntime(
            self._alias,
            kind="native",
            queues=tuple(dict.fromkeys(handler.queue for handler in self._handlers)),
            in_order=frozenset(handler.queue for handler in self._handlers),
            driver=Driver(
                name=lambda: self._name,
                describe=self._describe,
                on_command=self._on_command,
                running=lambda: self._overruns.running(),  # noqa: PLW0108 - made below
                on_stops=self._on_stops,
                loop=lambda: self._loop.turns,
                leaves=lambda: self._loop.is_stopping,
            ),
        )
        self._shift = Shift(runtime, self._handlers, self._of_process)
        self.runtime, self.session, self.wake = runtime, runtime.session, runtime.wake

    def _describe(self) -> Workload:
        """Return what the operator sees of the handlers."""
        dispatcher = self._shift.dispatcher
        return Workload(
            consumers=dispatcher.describe(),
            credit=dispatcher.credit(),
            busy=self._pool.slots - self._pool.free,
            slots=self._pool.slots,
        )

    def _on_stops(self) -> None:
        """Ask handlers to end whose messages were cancelled; the heartbeat's thread calls this."""
        self._overruns.interrupt()
        self.wake.set()

    def _on_command(self, told: WorkerCommand) -> None:
        """Follow an operator's command, in the heartbeat's thread; being quiet is up to the runtime."""
        self._shift.dispatcher.resize(told.credit)
        if told.mode is WorkerMode.STOP:
            self.stop()
        self._pool.wake()

    @property
    def prefetched(self) -> Dispatcher | None:
        """What is prefetched; None while nothing may begin."""
        shift = self._shift  # replaced together with its prefetch when a session is lost
        # If not, it is lost, or the heartbeat confirms the lease, and then wakes the pool.
        return shift.dispatcher if shift.session.may_begin else None

    def _on_done(self, attempt: Delivery, settlement: Settlement) -> None:
        shift: Shift = attempt.origin
        if settlement.verdict is DECLINE and shift.dispatcher.hand_on(attempt):
            self._pool.wake(1)
            return
        if attempt.first is not None:
            settlement.first = attempt.first
        shift.session.settle(settlement, is_written=attempt.settled)
        if settlement.verdict in (RELEASE, DECLINE):
            shift.give_back_behind(attempt.claimed)
        shift.dispatcher.finish(attempt)
        # Waking costs a system call: only a waiting loop needs it, and only for enough credit.
        # In a queue with rules, the next message may wait for this settlement.
        if self._waiting and (
            (
                self.runtime.fetcher.last.constrained
                and (not self._shift.is_ahead(self._unfinished) or self._slots())
            )
            or self._shift.dispatcher.is_worth_a_claim(attempt.claimed.queue_name, self.session.settlements.ended)
        ):
            self.wake.set(CREDIT)

    def accept(self, attempts: Sequence[Delivery], settlements: Sequence[Settlement]) -> None:
        """Settle attempts of one call of the only handler that were all accepted. Any thread may call this."""
        shift: Shift = attempts[0].origin
        shift.session.accept_all(settlements, is_written=attempts[0].settled)
        shift.dispatcher.finish_all(attempts)
        if self._waiting:
            self.wake.set(CREDIT)

    def _on_idle(self) -> None:
        runtime = self.runtime
        if self._waiting and (runtime.fetcher.backlog or runtime.session.settlements.ended or runtime.at_work):
            runtime.wake.set(CREDIT)

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the worker to stop; a signal's handler or any thread may call this.

        It waits for running handlers, unless ``at_once``: then it gives their messages back, too.
        """
        self._loop.stop(at_once=at_once)

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._loop.is_stopping

    @property
    def is_live(self) -> bool:
        """Whether its loop turns, or waits for what runs before it ends."""
        return self._loop.is_live

    @property
    def is_ready(self) -> bool:
        """Whether it claims: it has a session, and no other worker can have its messages."""
        return self._loop.is_ready

    @property
    def running(self) -> int:
        """How many handlers run."""
        return self._pool.running

    @property
    def unfinished(self) -> int:
        """How many messages are handled, or about to be, or have an outcome that is not written."""
        sessions = [*self._late, self.session]
        return sum(session.held - len(session.settlements) for session in sessions)

    # The loop.

    def run(self, *, until_empty: bool = False) -> None:
        """Work until ``stop`` is called, or, with ``until_empty``, until nothing is ready and nothing runs.

        Raises a StoreError other than StoreUnavailable if the database answers so at first: the site is not set
        up. Later the worker logs such an error, and tries again. Raises HandlersHang if too many abandoned
        handlers run, and WorkerInTransaction inside of a transaction.
        """
        self.run_until(Emptiness(1) if until_empty else None)

    def run_until(self, emptiness: Emptiness | None) -> None:
        """Work until ``stop`` is called, or until all workers that share the ``emptiness`` find nothing."""
        self._loop.run_until(emptiness)
        if self._overruns.hang is not None:
            raise self._overruns.hang

    def has_work(self) -> bool:
        """Return whether it handles messages, or is about to."""
        return bool(self._pool.running or self._buffered())

    def has_asked_all(self) -> bool:
        """Return whether its last claim asked all queues of which it wants messages."""
        return set(self._wanted()).issubset(self.runtime.fetcher.queues)

    def turn(self) -> bool:
        """Watch time limits, then settle and claim; return whether anything was claimed. Raises StoreError."""
        self._loop.turns.turn()
        if self.session.lost:
            raise SessionLost
        buffered = self._buffered()
        if self.runtime.fetcher.has_reason or buffered:
            queue_records.know(self.session.store, self._queues, declare)
        self.runtime.recall(self._shift.recall.give_back)
        if buffered:
            self._shift.recall.drop_stopped()
            self._shift.recall.give_to_others()
            if not self._pool.gathers:
                self._shift.give_back_stale()
        self._shift.admission.ask_if_due()
        if self._overruns.may_come:
            self._give_up()
        return self._claim() > 0

    def _give_up(self) -> None:
        """Settle attempts that do not end in time; stop the worker if it cannot go on beside them."""
        for attempt, settlement in self._overruns.give_up():
            self._on_done(attempt, settlement)
        at_once = self._overruns.ends_at_once and not self._loop.is_leaving
        if self._overruns.hang is not None and (at_once or not self._loop.is_stopping):
            self.stop(at_once=at_once)

    def _claim(self) -> int:
        dispatcher, ahead = self._shift.dispatcher, self._ahead()
        wanted = self._wanted()
        if dispatcher.has_closed_groups:
            self.session.flush()
            dispatcher.open_groups(self.session.receipts)
        claimed = self.runtime.claim(
            wanted,
            credit=sum(wanted.values()),
            # A suspect is claimed only if it begins at once: else another message, which waits, could be at fault.
            slots=0 if self._pool.gathers and self._buffered() else self._slots(),
            refill=self._shift.refills(),
            byte_credit=dispatcher.byte_credit(),
            wanted=dispatcher.selections(),
            ahead=ahead,
        )
        if claimed and self._shift.has_limits:
            self._shift.ahead.claimed(len(claimed), self._unfinished)
        mine = (message for message in claimed if self._is_for_a_handler(message))
        for message in dispatcher.offer(mine, self.runtime.fetcher.last.grouped):
            self.session.release(message)
        if claimed:
            # With more to claim, this thread does not wait for another.
            self._pool.wake(len(claimed), patient=not self.runtime.fetcher.backlog)
        elif self._pool.gathers and self.runtime.fetcher.short:
            self._pool.wake()
        return len(claimed)

    def _is_for_a_handler(self, message: Claimed) -> bool:
        """Return whether a handler gets the message; settle it if not."""
        if carries_task(message):
            self._leave_to_celery(message)
        elif message.expired:
            self.session.expire(message)
        else:
            return True
        return False

    def _leave_to_celery(self, message: Claimed) -> None:
        """Give a Celery task back, uncounted and delayed, so that a Celery worker can claim it."""
        self.session.release(message, delay_seconds=pause_seconds(message, clock.now()))
        self._shift.give_back_behind(message)
        if message.queue_name not in self._queues_with_tasks:
            self._queues_with_tasks.add(message.queue_name)
            logger.warning(
                "Queue %r holds Celery tasks, first %r: this worker leaves them to a Celery worker"
                " that names the queue in -Q, or until an operator moves them",
                message.queue_name,
                message.type,
            )

    def _wanted(self) -> dict[str, int]:
        """Return how much to claim of each queue: no more than can begin, while other workers have free slots."""
        wanted, yields = self._shift.dispatcher.wanted(), self._shift.recall.yields
        if not (yields or self._shift.has_limits):
            return wanted
        slots, limited = self._slots(), self._shift.ahead.limited
        ahead = self._ahead()
        most = dict.fromkeys(wanted if yields else limited, slots + (0 if yields else ahead))
        given = {name: min(amount, most.get(name, amount)) for name, amount in wanted.items()}
        return {name: amount for name, amount in given.items() if amount}

    def _ahead(self) -> int:
        """Return how many messages of queues with limits to claim that do not begin at once, but soon."""
        if not self._shift.has_limits or self._pool.gathers:
            return 0
        return self._shift.ahead.amount(self._unfinished, self._slots())

    def _slots(self) -> int:
        """How many more messages could begin at once."""
        return max(0, self._pool.free - self._buffered() + self._shift.dispatcher.behind)

    def _buffered(self) -> int:
        return max(0, self._unfinished - self._pool.running)

    @property
    def _unfinished(self) -> int:
        """How many messages of this session have no outcome yet."""
        return self.session.held - len(self.session.settlements)

    # Waiting.

    def wait(self, *, is_timed: bool = False) -> None:
        """Wait for a reason to claim or to settle, or for a moment if it ``is_timed``."""
        self._waiting = True
        # After the assignment: a thread that finished before did not wake this loop.
        if not self._may_claim() and self.runtime.settle_down(self._wanted(), able=self._slots() > 0):
            seconds = self.runtime.wait_seconds()
            if self._shift.has_limits and self._buffered():
                seconds = min(seconds, max(0.0, self._shift.ahead.stale_seconds))
            # What begins while this thread waits is held already.
            watches = is_timed or (self._overruns.may_come and self.session.held)
            self.runtime.wait(min(seconds, WATCH_SECONDS) if watches else seconds)
        self._waiting = False
        self.runtime.hear()
        self.runtime.poll()

    def _may_claim(self) -> bool:
        """Whether there is a backlog, and credit for it."""
        fetcher, dispatcher = self.runtime.fetcher, self._shift.dispatcher
        if not fetcher.backlog or self.session.quiet:
            return False
        wanted = self._wanted()
        fetcher.restrict(tuple(wanted), wanted, dispatcher.byte_credit())
        if fetcher.has_gathered(sum(wanted.values()), self._shift.refills()):
            return True
        return not (self._pool.running or self._buffered())

    # Ends.

    def begin_anew(self) -> None:
        """Open a new session; the lost one gives back what was not begun, and settles what still runs."""
        lost = self._shift
        unstarted = lost.dispatcher.empty()
        self._open_shift()
        self.runtime.subscribe(self.session.queues)
        lost.runtime.retire(unstarted)
        self._late = [session for session in [*self._late, lost.session] if not session.over]

    def shut_down(self) -> None:
        """Give back what was not begun, wait for running handlers, and close the session."""
        self.runtime.leave()
        self._pool.stop()
        for claimed in self._shift.dispatcher.empty():
            self.session.release(claimed)
        self.session.flush()
        while self.unfinished and not self._loop.is_leaving:
            for attempt, _ in self._pool.attempts():  # again: one may have begun just now
                self._pool.interrupt(attempt, Interruption.STOPPING)
            self.wake.wait(WATCH_SECONDS)
            self._give_up()
            self.session.flush()
        self._pool.disown()
        for session in self._late:
            session.close()
        self.runtime.close()


class Overruns:
    """The attempts of a pool, and those that are given up: overdue, or cancelled without an end."""

    def __init__(self, handlers: Iterable[Handler], pool: HandlerPool, *, is_replaced: bool) -> None:
        self._pool = pool
        self._is_replaced = is_replaced
        self._timed = any(
            handler.time_limit_seconds is not None or handler.for_message is not None for handler in handlers
        )
        # The claims of running handlers that are to be stopped, and when these are given up.
        self._give_up_at: dict[Receipt, float] = {}
        #: The error that ends the worker: handlers do not end.
        self.hang: HandlersHang | None = None
        #: Whether the worker then gives back what runs, too.
        self.ends_at_once = False

    @property
    def may_come(self) -> bool:
        """Whether an attempt may have to be given up."""
        return self._timed or bool(self._give_up_at)

    def running(self) -> list[Running]:
        """Return what runs, and since when, the longest first."""
        now = time.monotonic()
        return [
            Running(*attempt.claimed.receipt, attempt.handler.name, round(now - begun_at, 3))
            for attempt, begun_at in sorted(self._pool.attempts(), key=itemgetter(1))
        ]

    def interrupt(self) -> list[Delivery]:
        """Ask handlers to end whose messages were cancelled; return those that do not end in time."""
        overdue, now = [], time.monotonic()
        for attempt in self._stopped():
            if now >= self._give_up_at.setdefault(attempt.claimed.receipt, now + HEED_SECONDS):
                overdue.append(attempt)
            self._pool.interrupt(attempt, Interruption.CANCELLED)
        return overdue

    def _stopped(self) -> list[Delivery]:
        """Return the attempts whose messages were cancelled while they run."""
        attempts = (attempt for attempt, _ in self._pool.attempts())
        return [attempt for attempt in attempts if attempt.claimed.receipt in attempt.origin.session.stops]

    def give_up(self) -> list[tuple[Delivery, Settlement]]:
        """Give up and return the attempts that do not end in time; note it if the worker cannot go on."""
        given_up = self._pool.abandon_overdue()
        if self._give_up_at:
            given_up += self._give_up_stopped()
        if self._pool.exhausted:
            self._note(
                f"{self._pool.abandoned} handlers still run after they were given up, and Python cannot end their"
                " threads; the worker ends in order to be restarted."
            )
        return given_up

    def _give_up_stopped(self) -> list[tuple[Delivery, Settlement]]:
        given_up = [attempt for attempt in self.interrupt() if self._pool.abandon(attempt)]
        if given_up and self._is_replaced and self.hang is None:
            self.ends_at_once = True
            self._note(
                f"{given_up[0].handler.name} has not ended after its message was cancelled; its process gives"
                " everything else back, and ends in order to be replaced."
            )
        left = {attempt.claimed.receipt for attempt in self._stopped()}
        self._give_up_at = {claim: at for claim, at in self._give_up_at.items() if claim in left}
        return [(attempt, attempt.give_up(HEED_SECONDS)) for attempt in given_up]

    def _note(self, reason: str) -> None:
        if self.hang is None:
            self.hang = HandlersHang(reason)
            logger.error("%s", self.hang)


class Attempts:
    """How the pool of a worker takes what the worker has prefetched. Any thread may call it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __call__(self) -> Delivery | None:
        """Return the most urgent attempt; None if none may begin."""
        prefetched = self._worker.prefetched
        return None if prefetched is None else prefetched.next_attempt()

    def line(self) -> BulkLine:
        """Return what waits for the only handler."""
        prefetched = self._worker.prefetched
        line = BulkLine() if prefetched is None else prefetched.line()
        # The next message may be larger than what is left of the byte credit.
        return line._replace(may_grow=False) if self._worker.runtime.fetcher.short else line

    def together(self, most: int) -> list[Delivery]:
        """Return the first attempts of the only handler, which are one call; none if they may not begin."""
        prefetched = self._worker.prefetched
        return [] if prefetched is None else prefetched.next_attempts(most)

    def accept(self, attempts: Sequence[Delivery], settlements: Sequence[Settlement]) -> None:
        """Settle attempts of one call that were all accepted."""
        self._worker.accept(attempts, settlements)


class ProcessWorker(Protocol):
    """What a process knows of each of its workers."""

    #: Its present session.
    session: Session

    @property
    def running(self) -> int:
        """How many messages are being handled."""

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""

    @property
    def is_live(self) -> bool:
        """Whether its loop turns."""

    @property
    def is_ready(self) -> bool:
        """Whether it claims."""

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to stop."""

    def run_until(self, emptiness: Emptiness | None) -> None:
        """Work until told to stop, or until all workers that share the ``emptiness`` find nothing."""


class LoopedWorker(ProcessWorker, Protocol):
    """What a loop asks of its worker."""

    runtime: ConsumerRuntime

    def turn(self) -> bool:
        """Do all that can be done now; return whether anything was done. Raises StoreError, and SessionLost."""

    def wait(self, *, is_timed: bool = False) -> None:
        """Wait for a reason to turn, or for a moment if it ``is_timed``."""

    def has_work(self) -> bool:
        """Return whether it holds messages, or cannot claim for now."""

    def has_asked_all(self) -> bool:
        """Return whether its last claim asked all queues of which it wants messages."""

    def begin_anew(self) -> None:
        """Open a new session, in place of one that was lost."""

    def shut_down(self) -> None:
        """Give back what was not begun, wait for the rest, and close the session."""


class WorkerLoop:
    """The loop of a worker of any kind: turns until it is told to stop, outages, lost sessions, and the end.

    A worker has a loop, which asks it for each turn, in the thread that calls ``run_until``.
    """

    def __init__(self, worker: LoopedWorker, alias: str) -> None:
        self._worker, self._alias = worker, alias
        #: What the heartbeat knows of it.
        self.turns = Loop()
        #: Whether the worker was told to stop, and whether it waits for nothing then.
        self.is_stopping = self.is_leaving = False

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the worker to stop; a signal's handler or any thread may call this."""
        self.is_leaving = self.is_leaving or at_once
        self.is_stopping = True
        self._worker.session.renew_soon()  # shows operators that it stops
        self._worker.runtime.wake.set()

    @property
    def is_live(self) -> bool:
        """Whether it turns, or waits for what runs before it ends."""
        return self.is_stopping or self.turns.state is LoopState.TURNS

    @property
    def is_ready(self) -> bool:
        """Whether the worker claims: it has a session, and no other worker can have its messages."""
        return not self.is_stopping and self._worker.session.may_begin

    def run_until(self, emptiness: Emptiness | None) -> None:
        """Work until ``stop`` is called, or until all workers that share the ``emptiness`` find nothing.

        Raises a StoreError other than StoreUnavailable if the database answers so at first: the site is not set
        up. Later, such an error is logged, and the worker tries again.
        """
        failures, has_worked = 0, False
        try:
            refuse_transactions(self._alias)
            self._worker.runtime.subscribe(self._worker.session.queues)
            while not self.is_stopping:
                try:
                    if self._step(emptiness):
                        break
                    failures, has_worked = 0, True
                    if outages.ongoing:
                        outages.database(self._alias).succeeded(self)
                except SessionLost:
                    logger.warning("The session was lost; beginning anew")
                    self._worker.begin_anew()
                except StoreError as error:
                    if not has_worked and not isinstance(error, StoreUnavailable):
                        raise
                    self._recover(error, outages.pause_seconds(failures))
                    failures += 1
        finally:
            self._worker.shut_down()

    def _step(self, emptiness: Emptiness | None) -> bool:
        """Let the worker turn, or wait for a reason to; return whether all is empty. Raises StoreError."""
        if self._worker.turn():
            if emptiness is not None:
                emptiness.has_worked(self._worker)
        elif emptiness is None:
            self._worker.wait()
        else:
            return self._is_over(emptiness)
        return False

    def _is_over(self, emptiness: Emptiness) -> bool:
        """Whether a worker that runs until its queues are empty may end; if not, wait or look again."""
        worker, fetcher = self._worker, self._worker.runtime.fetcher
        if worker.session.settlements.ended or worker.session.quiet or worker.has_work():
            worker.wait()
            return False
        # The last claim has found nothing and asked all queues; one may have got credit meanwhile.
        if fetcher.last.sure and not fetcher.is_due and worker.has_asked_all():
            if emptiness.is_over(worker):
                return True
            if emptiness.waits(worker):
                worker.wait(is_timed=True)
        fetcher.look(full_scan=True)
        return False

    def _recover(self, error: StoreError, seconds: float) -> None:
        """Log the error, and wait for the whole pause, whether something wakes the worker or not."""
        session = self._worker.session
        outages.database(self._alias).failed(self, error)
        if not isinstance(error, StoreUnavailable):
            session.flush()  # finds the refused settlement, if the error is about one
        session.store.close()  # the next statement opens a new connection
        end = time.monotonic() + seconds
        while not self.is_stopping and (left := end - time.monotonic()) > 0:
            self._worker.runtime.wake.wait(left)


class Emptiness:
    """Whether all workers of a process find their queues empty, each after all have ended their work.

    A handler may publish to a queue of any of them. So each worker looks again after one that has worked.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        # Goes up when a worker that has worked finds nothing more.
        self._round = 0
        # By worker, the round in which its look began.
        self._looks: dict[ProcessWorker, int] = {}
        self._found_nothing: set[ProcessWorker] = set()
        self._is_over = False

    def has_worked(self, worker: ProcessWorker) -> None:
        """Note that a worker has claimed messages."""
        with self._lock:
            self._looks.pop(worker, None)
            self._found_nothing.discard(worker)

    def is_over(self, worker: ProcessWorker) -> bool:
        """Note that a worker has found nothing since its last call; return whether the same is true for all."""
        with self._lock:
            if worker not in self._looks:
                self._round += 1
                self._found_nothing.clear()
            elif self._looks[worker] == self._round:
                self._found_nothing.add(worker)
            self._looks[worker] = self._round
            self._is_over = self._is_over or len(self._found_nothing) == self._workers
            return self._is_over

    def leave(self, worker: ProcessWorker) -> None:
        """Do not wait for a worker that has ended."""
        with self._lock:
            self._workers -= 1
            self._found_nothing.discard(worker)

    def waits(self, worker: ProcessWorker) -> bool:
        """Whether a worker has found nothing, and waits for the others."""
        return worker in self._found_nothing


class Workers:
    """The workers of one process, which begin and end together.

    Each has a thread. The first one has that of the caller.
    """

    def __init__(self, workers: Iterable[ProcessWorker]) -> None:
        self._workers = tuple(workers)
        self._errors: list[BaseException] = []

    def __iter__(self) -> Iterator[ProcessWorker]:
        return iter(self._workers)

    def stop(self, *, at_once: bool = False) -> None:
        """Ask all workers to stop; a signal's handler or any thread may call this."""
        for worker in self._workers:
            worker.stop(at_once=at_once)

    @property
    def running(self) -> int:
        """How many handlers run."""
        return sum(worker.running for worker in self._workers)

    def run(self, *, until_empty: bool = False) -> None:
        """Work until ``stop`` is called, or, with ``until_empty``, until all queues are empty and nothing runs.

        Raises what ``Worker.run`` raises: the first error, when all workers have ended.
        """
        first, *others = self._workers
        emptiness = Emptiness(len(self._workers)) if until_empty else None
        threads = [
            threading.Thread(target=self._run, args=(worker, emptiness), name="django_mq-worker")
            for worker in others
        ]
        for thread in threads:
            thread.start()
        self._run(first, emptiness)
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, worker: ProcessWorker, emptiness: Emptiness | None) -> None:
        try:
            worker.run_until(emptiness)
        except BaseException as error:  # noqa: BLE001 - raised again when all workers have ended
            self._errors.append(error)
            self.stop()
        finally:
            if emptiness is not None:
                emptiness.leave(worker)


#: Time between two requests for an exclusive queue, and between two log entries of its refusal, in seconds.
AGAIN_SECONDS, SAY_SECONDS = 5.0, 60.0


class ExclusiveQueues:
    """One session's requests for its exclusive queues. A claim brings nothing from a refused queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._admitted: set[str] = set()
        self._said: dict[str, float] = {}
        self._ask_at = 0.0

    def ask_if_due(self) -> None:
        """Ask for each exclusive queue until it is given. Raises StoreError."""
        now = time.monotonic()
        if now < self._ask_at:
            return
        self._ask_at = now + AGAIN_SECONDS
        for name in self._session.queues:
            if name not in self._admitted and queue_records.last_read(self._session.alias, name).exclusive:
                self._ask(name, now)

    def _ask(self, name: str, now: float) -> None:
        try:
            self._session.subscribe(name)
        except AccessRefused as refusal:
            if now - self._said.get(name, float("-inf")) >= SAY_SECONDS:
                logger.warning("Standing by: %s", refusal)
                self._said[name] = now
        else:
            self._admitted.add(name)
