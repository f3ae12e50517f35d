"""The loop of a worker of any kind: turns until it is told to stop, or until all is empty; outages; the end.

A worker has a loop, and the loop asks the worker for each turn. So a worker of handlers and the worker of a bridge
stop, recover and begin anew in the same way.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from django.db import connections

from django_mq import outages
from django_mq.delivery.consumer.lease import Loop
from django_mq.engine.decisions.session import LoopState
from django_mq.errors import SessionLost, StoreError, StoreUnavailable, WorkerInTransaction
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from django_mq.delivery.consumer.runtime import ConsumerRuntime
    from django_mq.delivery.consumer.session import Session

logger = logging.getLogger("django_mq.delivery")


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
    """The loop that drives one worker, in the thread that calls ``run_until``."""

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


def refuse_transactions(alias: str) -> None:
    """Raise WorkerInTransaction if this thread is in one on the queues' database."""
    if alias != MEMORY and connections[alias].in_atomic_block:
        raise WorkerInTransaction(
            f"The worker is called in a transaction on the database {alias!r}. It has connections of its"
            " own, which see no row of that transaction, and wait for its locks. Call it outside of atomic();"
            " in a TestCase, drain the queues with django_mq.testing."
        )


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
