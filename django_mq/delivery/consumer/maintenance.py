"""Maintenance at the pace of a worker: when each duty runs.

Every worker can do it, and ``mq_maintenance`` where no worker runs. The worker whose session is the leader does it
for all; the others do a round once in a while, in case the leader cannot.
"""

from __future__ import annotations

import logging
import random
import subprocess
import time
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from django.apps import apps
from django.conf import settings

from django_mq import conf, outages
from django_mq.delivery.consumer import duties, sidecar
from django_mq.delivery.consumer.background import Background
from django_mq.delivery.consumer.duties import (
    LEFT_OUT_AFTER_OUTAGE,
    REAP,
    TAKE_OVER,
    added_duties,
    announce_after,
    ask,
    reap_dead,
    run_duties,
    run_duty,
    total_of,
    unfinished,
)
from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.errors import StoreError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from django_mq.seams.extension import Duty
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.delivery")

#: An interval begins so many seconds after the clock's: a minute is summed up when its transactions have ended.
MINUTE_SETTLES_SECONDS = 10
#: ``mq_maintenance`` asks so often whether something is due.
MOMENT_SECONDS = 0.1
#: A worker that is not the leader does one round in so many.
LOOK_EVERY = 12
#: Seconds until a session whose deadline was shortened has expired, if its worker does not renew it.
HASTENED_SECONDS = 2.6


class PacedMaintenance:
    """Maintenance of one worker, at its own pace."""

    def __init__(self, store: Store, every_seconds: float, *, grace_seconds: float) -> None:
        self._store = store
        self._every_seconds = every_seconds
        self._grace_seconds = grace_seconds
        self._rounds = 0
        #: The interval of the clock in which each duty has run last.
        self._intervals: dict[Duty, float] = {}
        self._unfinished: list[Duty] = []
        #: Duties that say themselves when they are due, and that a round has found to have something to do.
        self._found: set[Duty] = set()
        self._next_at = time.monotonic()
        self._reap_from = 0.0
        self._take_over = TakeOver(store.alias)
        self.background = Background(store.alias)
        #: For duties that say themselves when they are due.
        self.timed = Background(store.alias)
        #: Whether to do every round. Until the first renewal answers, this session may be the leader.
        self.leader = True

    @cached_property
    def _added(self) -> tuple[Duty, ...]:
        return added_duties()

    def set_leader(self, leader: bool) -> None:
        """Become the leader, or stop being it. A new leader begins at once: the last one may be dead."""
        if leader and not self.leader:
            self._next_at = time.monotonic()
        self.leader = leader

    def run_if_due(self, *, spare: int = 0) -> None:
        """Run a round if its time has come; it never reaps the session ``spare``. Raises StoreError."""
        now = time.monotonic()
        if self._unfinished:
            # One batch for each call: a heartbeat cannot wait.
            done = {duty: run_duty(self._store, duty) for duty in self._unfinished}
            self._unfinished = unfinished(done)
            announce_after(self._store, done)
        wanted = [duty for duty in self._added if duty.is_due and self._is_wanted(duty)]
        self.timed.begin(wanted)
        self._found.difference_update(wanted)
        if now < self._next_at:
            return
        # Jitter spreads workers that were started together.
        self._next_at = now + self._every_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
        number, self._rounds = self._rounds, self._rounds + 1
        if self.leader or number % LOOK_EVERY == 0:
            self._run_round(now, spare)

    def _run_round(self, now: float, spare: int) -> None:
        self._take_over.look_after()
        clock = time.time() - MINUTE_SETTLES_SECONDS
        due = [duty for duty in duties.DUTIES if self._is_due(duty, now, clock)]
        own = {
            REAP: replace(REAP, run=partial(reap_dead, spare=spare)),
            TAKE_OVER: replace(TAKE_OVER, run=self._take_over.run),
        }
        asked = ask(self._store)
        done = run_duties(self._store, [own.get(duty, duty) for duty in due], asked)
        self._found = {duty for duty in self._added if duty.is_due and asked.get(duty.name, False)}
        self._intervals |= {duty: _interval(duty, clock) for duty in due}
        self._unfinished = unfinished(done)
        if total_of(done)["shortened"]:
            # From the end of the round: the deadline was set in the middle of it.
            self._next_at = min(self._next_at, time.monotonic() + HASTENED_SECONDS)
        added = [duty for duty in self._added if not duty.is_due and self._is_due(duty, now, clock)]
        if self.background.begin(added):
            self._intervals |= {duty: _interval(duty, clock) for duty in added}

    def _is_wanted(self, duty: Duty) -> bool:
        if self.timed.is_busy or (duty.leader_only and not self.leader):
            return False
        return duty in self._found or (duty.is_due is not None and duty.is_due(self._store))

    def _is_due(self, duty: Duty, now: float, clock: float) -> bool:
        if duty.leader_only and not self.leader:
            return False
        if duty in LEFT_OUT_AFTER_OUTAGE and now < self._reap_from:
            return False
        return not duty.interval_seconds or self._intervals.get(duty) != _interval(duty, clock)

    def pause_after_outage(self) -> None:
        """Reap no session for one deadline: while the database was away, none could be renewed."""
        self._reap_from = time.monotonic() + self._grace_seconds

    def close(self) -> None:
        """End the process that continues an operation, after its batch, and the duties of extensions."""
        self._take_over.close()
        self.background.close()
        self.timed.close()

    def abandon(self) -> None:
        """Leave them to the parent, in a forked child."""
        self._take_over.abandon()
        self.background.abandon()
        self.timed.abandon()


def _interval(duty: Duty, clock: float) -> float:
    """Return the number of the duty's interval at this time."""
    return clock // duty.interval_seconds if duty.interval_seconds else 0


def maintain(store: Store, stopping: threading.Event) -> None:
    """Do maintenance at a worker's pace until ``stopping`` is set, also after an outage of the database."""
    settings = conf.load()
    maintenance = PacedMaintenance(store, settings.MAINTENANCE_SECONDS, grace_seconds=settings.SESSION_SECONDS)
    outage = outages.database(store.alias)
    while not stopping.is_set():
        try:
            maintenance.run_if_due()
            outage.succeeded(maintenance)
        except StoreError as error:
            outage.failed(maintenance, error)
            store.close()
            maintenance.pause_after_outage()
        stopping.wait(min(MOMENT_SECONDS, settings.MAINTENANCE_SECONDS / 2))
    maintenance.close()


# Another process, ``mq_operations --take-over``, continues a stalled operation: it shares neither slots nor
# connections with the handlers, and nothing waits if it hangs. The operation's row says what to do, and with
# the permissions of which user.

#: The time until the next process, after the last one succeeded or some have failed.
PAUSES: Final = Backoff(base_seconds=STALLED_SECONDS, multiplier=2.0, cap_seconds=600.0)


class TakeOver:
    """Starts one process at a time to continue stalled operations of a database."""

    def __init__(self, alias: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._alias = alias
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._next_at = 0.0

    def begin(self) -> None:
        """Start the process, unless one runs, was started within STALLED_SECONDS, or has failed lately."""
        self.look_after()
        if self._process is not None or self._clock() < self._next_at:
            return
        self._next_at = self._clock() + STALLED_SECONDS
        module = settings.SETTINGS_MODULE
        if not module or not apps.is_installed("django.contrib.admin"):
            self._postpone(
                "the settings of this process have no module, or no admin: run manage.py mq_operations --take-over"
                " with the settings of the site"
            )
            return
        try:
            self._process = sidecar.start(
                *("django", "mq_operations", "--take-over", "--skip-checks", "--database", self._alias),
                environment={"DJANGO_SETTINGS_MODULE": module},
                stdin=subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            self._postpone(f"no process can be started: {error}")
            return
        logger.warning("An operation of the admin has stalled: process %s goes on with it", self._process.pid)

    def run(self, _store: Store, _limit: int) -> int:
        """Begin, as the duty of maintenance."""
        self.begin()
        return 0

    def look_after(self) -> None:
        """Notice that the process has ended."""
        status = None if self._process is None else self._process.poll()
        if self._process is None or status is None:
            return
        pid, self._process = self._process.pid, None
        if status == 0:
            self._failures = 0
        else:
            self._postpone(f"process {pid} has ended with exit code {status}; its standard error says why")

    def _postpone(self, reason: str) -> None:
        """Wait twice as long before the next process."""
        self._failures += 1
        self._next_at = self._clock() + PAUSES.delay(self._failures + 1)
        logger.error("An operation of the admin has stalled, and %s", reason)

    def close(self) -> None:
        """End the process after its batch."""
        self.look_after()
        if self._process is not None:
            self._process.terminate()

    def abandon(self) -> None:
        """Leave the process to the parent, in a forked child."""
        sidecar.disown(self._process)
        self._process = None
