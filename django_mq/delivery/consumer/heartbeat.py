"""The heartbeat renews a session in a thread of its own, even while the worker's loop is blocked.

As long as a session is certain of its lease, messages begin without a question to the database. Three answers
can be missing: to a renewal, after a pause; to a claim, when the connection breaks; to a revival, which opens
the row of a reaped session again while its process lives.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from django_mq import conf, outages
from django_mq.delivery.consumer.duties import ANSWERS
from django_mq.delivery.consumer.maintenance import PacedMaintenance
from django_mq.delivery.consumer.sidecar import Sidecar
from django_mq.engine.decisions.claim import LoopState, is_certain
from django_mq.errors import SessionLost, StoreError, StoreUnavailable
from django_mq.notifications.base import LOOK
from django_mq.stores.records import Heartbeat
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from django_mq.delivery.consumer.loop import Loop
    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.records import SessionInfo

logger = logging.getLogger("django_mq.delivery")

#: The heartbeat writes settlements that have waited for so long, in seconds.
STALE_SECONDS = 0.2
#: Time between two rounds of the heartbeat, in seconds; while the database is away it grows.
ROUND_SECONDS = 0.1
#: A session is renewed so often before its deadline.
RENEWALS = 2.25
#: So many waits for a lock fit into a deadline.
LOCK_WAITS = 5
#: Time between two tries to take the liveness lock, in seconds.
LIVENESS_LOCK_SECONDS = 0.3


class HeartbeatThread:
    """Renews a session before its deadline, at once if its connection has ended. Does maintenance in between."""

    def __init__(self, session: Session) -> None:
        settings = conf.load()
        self._session = session
        self._deadline_seconds = settings.SESSION_SECONDS
        self.store = private_store(session.alias)
        # A settlement that waits for a lock must not keep the session from being renewed.
        self.store.bound_lock_waits(settings.SESSION_SECONDS / LOCK_WAITS)
        self._maintenance = PacedMaintenance(
            self.store, settings.MAINTENANCE_SECONDS, grace_seconds=settings.SESSION_SECONDS
        )
        self._renew_at = 0.0
        #: When a renewal last looked for messages in vain, on the monotonic clock.
        self.looked_at = float("-inf")
        shared = self.store.features.durable
        self._sidecar = Sidecar(session.alias) if settings.SIDECAR_SECONDS and shared else None
        # Whether the log says that the loop stands still, or that it has ended.
        self._named: LoopState | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="django_mq-heartbeat", daemon=True)

    def open(self, info: SessionInfo) -> int:
        """Open the session's row, take its liveness lock, and return its id. Raises StoreError."""
        try:
            with self.store.transaction():
                session_id = self.store.open_session(info, deadline_seconds=self._deadline_seconds)
                self.store.hold_liveness_lock(session_id, deadline_seconds=self._deadline_seconds)
        except BaseException:
            self.store.close()
            raise
        return session_id

    def start(self) -> None:
        """Start the thread."""
        consumers = self._session.driver.describe().consumers
        # The first renewal lets the database notice the end of the connection, and other sessions know priorities.
        if not (self.store.features.notices_ends or any(consumer.priority for consumer in consumers)):
            self._expect_renewal()
        if self._sidecar is not None and self._session.id is not None:
            self._sidecar.start(self._session.id)
        self._thread.start()

    def renew_soon(self) -> None:
        """Renew in the next round."""
        self._renew_at = 0.0

    def stop(self) -> None:
        """End the thread; any thread may call this. The connection stays until ``close``."""
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def close(self) -> None:
        """Close the connection, and end the other processes."""
        if outages.ongoing:
            outages.database(self._session.alias).leave(self)
        self._maintenance.close()
        if self._sidecar is not None:
            self._sidecar.close()
        self.store.close()

    def abandon(self) -> None:
        """Leave everything to the parent, in a forked child."""
        self._maintenance.abandon()
        if self._sidecar is not None:
            self._sidecar.abandon()

    def _expect_renewal(self) -> None:
        self._renew_at = time.monotonic() + self._deadline_seconds / RENEWALS

    def _run(self) -> None:
        pause, failures, alias = ROUND_SECONDS, 0, self._session.alias
        while not self._sleep(pause):
            try:
                self._look_at_loop()
                if self._stopping.is_set():
                    return  # the session is closed: a round would open the connection again
                if self._sidecar is not None:
                    self._sidecar.beat()
                self._round()
                pause, failures = ROUND_SECONDS, 0
                if outages.ongoing:
                    outages.database(alias).succeeded(self)
            except StoreError as error:
                outages.database(alias).failed(self, error)
                self.store.close()
                failures += 1
                pause = outages.PAUSES.delay(failures + 1)
                if isinstance(error, StoreUnavailable):
                    self._maintenance.pause_after_outage()
            except Exception:
                # Without a heartbeat the session expires, and its work is done twice.
                logger.exception("The heartbeat failed, and goes on")

    def _sleep(self, seconds: float) -> bool:
        """Wait for the next round; return whether to stop."""
        wake_at = time.monotonic() + seconds
        stopping = self._stopping.wait(seconds)
        self._reap_later_if_late(wake_at)
        return stopping

    def _reap_later_if_late(self, expected_at: float) -> None:
        """Reap no session for a while after a long pause: the other sessions of a suspended machine look dead."""
        late = time.monotonic() - expected_at
        if late > self._deadline_seconds / 2:
            logger.warning(
                "The heartbeat was late by %.1f s: the database waited, the machine stood still, or work kept the"
                " thread from running. After %s s others may claim what this worker holds",
                late,
                self._deadline_seconds,
            )
            self._maintenance.pause_after_outage()

    def _look_at_loop(self) -> None:
        """Stop speaking for a loop that has ended, and name one that stands still.

        If an error has ended the loop, the worker may still settle what runs, until the deadline of the session.
        """
        session, loop = self._session, self._session.driver.loop()
        if loop is None:
            return
        state = loop.state
        if state is LoopState.STANDS and session.driver.leaves():
            state = LoopState.TURNS  # it waits for what runs
        if state is not self._named:
            self._named = state
            self._name(state, loop)
        if state is LoopState.ENDED and not loop.has_driver:
            session.close()

    def _name(self, state: LoopState, loop: Loop) -> None:
        name = self._session.name
        if state is LoopState.STANDS:
            logger.warning(
                "The loop of %r has made no turn for %.0f s: work runs in it, or it hangs. It claims and settles"
                " nothing meanwhile, and keeps its messages",
                name,
                loop.still_seconds,
            )
            self._session.renew_soon()  # the admin and the doctor name it, too
        elif state is LoopState.ENDED:
            logger.error(
                "The loop of %r has ended: %s. Its session is not renewed any more: after %s s at most, others may"
                " claim what it holds",
                name,
                "its thread has ended" if loop.error is None else repr(loop.error),
                self._deadline_seconds,
            )
            if self._sidecar is not None:
                self._sidecar.close()
                self._sidecar = None

    @property
    def _has_ended(self) -> bool:
        return self._named is LoopState.ENDED

    def _round(self) -> None:
        session, begun_at = self._session, time.monotonic()
        session.driver.on_round()
        with self.store.answering_within(self._deadline_seconds / ANSWERS):
            if session.settlements.stale(STALE_SECONDS):
                session.flush()
            if time.monotonic() >= self._renew_at or self.store.has_hung_up():
                self.renew()
            if session.retired and not session.lost:
                session.resync(self.store)
        if session.over:
            session.close()
            return
        self._reap_later_if_late(begun_at)
        self._maintenance.run_if_due(spare=0 if self._has_ended else session.id or 0)

    def renew(self) -> None:
        """Renew now; any thread may call this. Raises StoreError."""
        session = self._session
        if session.id is None or session.over or session.is_stuck or self._has_ended:
            return
        revivals, begun_at = session.certainty.revivals, now()
        load = session.driver.describe()
        heartbeat = Heartbeat(
            deadline_seconds=self._deadline_seconds,
            held=session.held,
            queues=session.queues,
            credit=load.credit,
            consumers=load.consumers,
            busy=load.busy,
            slots=load.slots,
            memory_bytes=resident_bytes(),
            look=session.held < max(1, load.credit),
        )
        renewal = self.store.renew(session.id, heartbeat)
        self._expect_renewal()
        if renewal is None or session.certainty.revival_unanswered:
            if session.revive(revivals):
                session.certainty.confirm(begun_at)
            return
        session.certainty.confirm(begun_at)
        session.take_command(renewal.command)
        self._maintenance.set_leader(renewal.leader)
        if self.store.features.looks_when_renewed:
            if renewal.ready:
                session.wake.set(LOOK)
            else:
                self.looked_at = time.monotonic()
        if not self.store.hold_liveness_lock(session.id, deadline_seconds=self._deadline_seconds):
            self._renew_at = time.monotonic() + LIVENESS_LOCK_SECONDS


def resident_bytes() -> int | None:
    """Return how much memory this process uses now; None where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


# The monotonic clock of Linux stands still while the machine sleeps; the databases' clocks do not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return the seconds since some moment in the past, including those for which the machine was suspended."""
    return time.clock_gettime(_CLOCK)


class Certainty:
    """What one session knows about its lease. Times are those of ``now``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deadline_seconds = conf.load().SESSION_SECONDS
        #: When the last successful renewal began.
        self.confirmed_at = float("-inf")
        #: When to give back what a claim without an answer may have taken.
        self._resync_at: list[float] = []
        #: How often the session was revived. Messages claimed before may be another session's.
        self.revivals = 0
        #: Whether a revival got no answer: the row may exist again, with fewer messages than are held here.
        self.revival_unanswered = False

    @property
    def holds(self) -> bool:
        """Whether messages may begin."""
        if self._session.lost or self._session.id is None:
            return not self._session.lost
        return is_certain(self.confirmed_at, now(), self._deadline_seconds)

    def ensure(self) -> None:
        """Renew the session now, unless the lease is certain. Raises SessionLost and other StoreErrors."""
        heartbeat = self._session.heartbeat
        if heartbeat is not None and not self.holds:
            heartbeat.renew()
        if self._session.lost:
            raise SessionLost

    def confirm(self, begun_at: float) -> None:
        """Note a successful renewal; tell the driver if messages may begin again."""
        before, self.confirmed_at = self.confirmed_at, begun_at
        # After the assignment: a thread that has just found the lease uncertain must be told.
        if not (self._session.lost or is_certain(before, now(), self._deadline_seconds)):
            logger.warning("The lease of %r was not renewed in time, and is confirmed again", self._session.name)
            self._session.driver.on_command(self._session.command)

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
