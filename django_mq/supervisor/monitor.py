"""Watch the workers of this process in a thread: end them at a limit, with their supervisor, and within a bound.

The workers' own loops do nothing for it. A message costs no more unless messages are counted.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from django_mq.delivery.consumer.heartbeat import resident_bytes
from django_mq.errors import ConfigurationError
from django_mq.supervisor.budget import MessageBudget
from django_mq.supervisor.child import Report
from django_mq.supervisor.probes import ProbeState

if TYPE_CHECKING:
    from django_mq.delivery.consumer.pool import MakePool
    from django_mq.delivery.consumer.worker import ProcessWorker, Workers
    from django_mq.engine.decisions.processes import ProcessLimits
    from django_mq.supervisor.child import SupervisorLine
    from django_mq.supervisor.probes import Probes

logger = logging.getLogger("django_mq.supervisor")

#: Time between two rounds, in seconds.
ROUND_SECONDS: Final = 0.5
#: A process that still runs so long after it was to end at once is killed.
KILL_SECONDS: Final = 10.0
#: The exit code of a process that has ended at once.
LEFT_EARLY: Final = 3
#: The exit code of a process that has ended although messages may wait for a broker that is away.
BROKER_AWAY: Final = 4


class Monitor:
    """Watches the workers of one process."""

    def __init__(
        self, limits: ProcessLimits, *, stop_seconds: float | None, line: SupervisorLine | None = None
    ) -> None:
        """Watch for these limits. Workers that end give everything back after ``stop_seconds``, if any."""
        self.line = line
        self._limits = limits
        self._stop_seconds = stop_seconds
        self._began_at = time.monotonic()
        self._wake = threading.Event()
        self._budget = None if limits.messages is None else MessageBudget(limits.messages, self._wake.set)
        self._thread: threading.Thread | None = None
        # Whether it has told all workers to end. By worker, when it began to end; and those that end at once.
        self._ends = False
        self._ending: dict[ProcessWorker, float] = {}
        self._hurried: set[ProcessWorker] = set()
        self._cut_at: float | None = None
        self._closed = False

    def limit(self, make: MakePool) -> MakePool:
        """Return what makes the same pool for a worker of this process, which keeps to the limits."""
        return make if self._budget is None else self._budget.limiting(make)

    @property
    def has_hurried(self) -> bool:
        """Whether workers had to end at once."""
        return bool(self._hurried)

    def check(self) -> None:
        """Raise ConfigurationError if the limit of memory is too low to begin."""
        if reached := self._limits.reached(begun=0, age_seconds=0.0, memory_bytes=memory_bytes()):
            raise ConfigurationError(
                f"The limit of {self._limits.megabytes} MB is too low: {reached} before its first message. Give a"
                " higher --max-megabytes."
            )

    def start(self, workers: Workers, probes: Probes | None = None) -> None:
        """Watch the workers, and keep the probes up to date."""
        self._thread = threading.Thread(
            target=self._run, args=(workers, probes), name="django_mq-monitor", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Watch no more. With a supervisor, the monitor goes on until the process ends."""
        if self._thread is not None and self.line is None:
            self._closed = True
            self._wake.set()
            self._thread.join()

    def _run(self, workers: Workers, probes: Probes | None) -> None:
        while not self._closed:
            self._watch_line(workers)
            self._watch_limits(workers)
            self._watch_bound(workers)
            if probes is not None:
                probes.show()
            self._wake.wait(ROUND_SECONDS)
            self._wake.clear()

    def _watch_line(self, workers: Workers) -> None:
        if self.line is None:
            return
        health = health_of(workers)
        self.line.report(Report.READY if health.ready else Report.LIVE if health.live else Report.STANDS)
        if self._cut_at is None and self.line.is_cut:
            self._cut_at = time.monotonic()
            logger.warning("The supervisor of process %s has ended: it ends in order", os.getpid())
            self._end(workers)
        # No supervisor is left to kill it.
        bound = (self._stop_seconds or 0.0) + KILL_SECONDS
        if self._cut_at is not None and time.monotonic() - self._cut_at >= bound:
            os._exit(LEFT_EARLY)

    def _watch_limits(self, workers: Workers) -> None:
        if self._ends:
            return
        reached = self._limits.reached(
            begun=0 if self._budget is None else self._budget.begun,
            age_seconds=time.monotonic() - self._began_at,
            memory_bytes=memory_bytes(),
        )
        if reached:
            logger.info("Process %s ends in order: %s", os.getpid(), reached)
            if self.line is not None:
                self.line.report(Report.LIMIT)
            self._end(workers)

    def _end(self, workers: Workers) -> None:
        self._ends = True
        workers.stop()

    def _watch_bound(self, workers: Workers) -> None:
        if self._stop_seconds is None:
            return
        now = time.monotonic()
        for worker in workers:
            if not worker.is_stopping or worker in self._hurried:
                continue
            if now - self._ending.setdefault(worker, now) >= self._stop_seconds:
                self._hurried.add(worker)
                logger.warning(
                    "%s has not ended within %g s: it gives back what its %s running handlers have",
                    worker.session.name,
                    self._stop_seconds,
                    worker.running,
                )
                worker.stop(at_once=True)


def health_of(workers: Workers) -> ProbeState:
    """Return the health of workers of this process."""
    return ProbeState(
        live=all(worker.is_live for worker in workers), ready=all(worker.is_ready for worker in workers)
    )


def memory_bytes() -> int:
    """Return how much memory this process uses now; the most that it has used where there is no /proc."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident_bytes() or most * (1 if sys.platform == "darwin" else 1024)
