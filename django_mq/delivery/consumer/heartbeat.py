"""The heartbeat: one thread per session, which renews it even while the loop is blocked. And what a session knows.

A session goes on without asking as long as it is certain of its lease. Three answers can be missing: to a renewal,
after a pause; to a claim, when the connection breaks; to a revival, which opens the row of a reaped session again
whose process lives.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.consumer.maintenance import Maintenance
from django_mq.delivery.consumer.sidecar import Sidecar
from django_mq.engine.claim import is_certain
from django_mq.errors import SessionLost, StoreError, StoreUnavailable
from django_mq.notifications.base import LOOK
from django_mq.stores.records import Heartbeat
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.base import Store
    from django_mq.stores.records import Receipt, SessionInfo

logger = logging.getLogger("django_mq.delivery")

#: Settlements that the driver has left lying for so long, in seconds, are written by the heartbeat.
STALE_SECONDS = 0.2
#: Time between two rounds of the heartbeat, in seconds; while the database is away it grows.
ROUND_SECONDS = 0.1
OUTAGE_CAP_SECONDS = 1.0
#: A session is renewed so often before its deadline.
RENEWALS = 2.25
#: So many waits for a lock fit into a deadline.
LOCK_WAITS = 5
#: Time between two tries to have the connection stand for the session, in seconds.
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
        self._maintenance = Maintenance(
            self.store, settings.MAINTENANCE_SECONDS, grace_seconds=settings.SESSION_SECONDS
        )
        self._renew_at = 0.0
        #: When it has looked for messages in the driver's place, on the monotonic clock, and there were none.
        self.looked_at = float("-inf")
        shared = self.store.features.durable
        self._sidecar = Sidecar(session.alias) if settings.SIDECAR_SECONDS and shared else None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="django_mq-heartbeat", daemon=True)

    def open(self, info: SessionInfo) -> int:
        """Open the session's row and return its id; a connection stands for it from the first instant.

        Raises StoreError.
        """
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
        # At once where the database is to notice its end, or where other sessions must soon know its priorities.
        soon = self.store.features.notices_ends or any(
            one.priority for one in self._session.driver.describe().consumers
        )
        if not soon:
            self._expect_renewal()
        if self._sidecar is not None and self._session.id is not None:
            self._sidecar.start(self._session.id)
        self._thread.start()

    def renew_soon(self) -> None:
        """Renew in the next round."""
        self._renew_at = 0.0

    def stop(self) -> None:
        """End the thread; from any thread, the heartbeat's own included. Its connection stays until ``close``."""
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def close(self) -> None:
        """Close the connection: from now on the session is on its own."""
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
        pause = ROUND_SECONDS
        while not self._sleep(pause):
            try:
                if self._sidecar is not None:
                    self._sidecar.beat()
                self._round()
                pause = ROUND_SECONDS
            except StoreError as error:
                logger.warning("The session cannot be kept, trying again: %s", error)
                self.store.close()
                pause = min(pause * 2, OUTAGE_CAP_SECONDS)
                if isinstance(error, StoreUnavailable):
                    self._maintenance.pause_after_outage()
            except Exception:
                # The heartbeat must outlive any defect: without it the session expires and its work is done twice.
                logger.exception("The heartbeat failed, and goes on")

    def _sleep(self, seconds: float) -> bool:
        """Wait for the next round; return whether there is none.

        A thread that wakes late by half a deadline may have been on a suspended machine. The first session
        to wake would take the others for dead.
        """
        wake_at = time.monotonic() + seconds
        stopping = self._stopping.wait(seconds)
        self._reap_later_if_late(wake_at)
        return stopping

    def _reap_later_if_late(self, expected_at: float) -> None:
        late = time.monotonic() - expected_at
        if late > self._deadline_seconds / 2:
            logger.warning(
                "The heartbeat was late by %.1f s: the database waited, the machine stood still, or work kept the"
                " thread from running. After %s s others may claim what this worker holds",
                late,
                self._deadline_seconds,
            )
            self._maintenance.pause_after_outage()

    def _round(self) -> None:
        session, begun_at = self._session, time.monotonic()
        session.driver.mind()
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
        self._maintenance.run_if_due(spare=session.id or 0)

    def _look(self, *, ready: bool) -> None:
        """Wake the driver if something waits; otherwise it has been looked for."""
        if ready:
            self._session.wake.set(LOOK)
        else:
            self.looked_at = time.monotonic()

    def renew(self) -> None:
        """Renew now, from any thread. Raises StoreError."""
        session = self._session
        if session.id is None or session.over or session.hopeless:
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
        self._maintenance.stand(leader=renewal.leader)
        if self.store.features.looks_when_renewed:
            self._look(ready=renewal.ready)
        if not self.store.hold_liveness_lock(session.id, deadline_seconds=self._deadline_seconds):
            self._renew_at = time.monotonic() + LIVENESS_LOCK_SECONDS


# How much memory this process takes, where the system says so.

STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Return what the process has in memory now; None where there is no /proc."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


# The monotonic clock of Linux stands still while the machine sleeps; the databases' clocks do not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return seconds since some moment in the past; they go on while the process or the machine stands still."""
    return time.clock_gettime(_CLOCK)


class Certainty:
    """What one session knows of its lease. Times are those of ``now``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deadline_seconds = conf.load().SESSION_SECONDS
        #: When the last renewal that succeeded began.
        self.confirmed_at = float("-inf")
        #: When to give back what a claim without an answer may have taken.
        self._resync_at: list[float] = []
        #: How often the session was revived: what was claimed before may be another session's.
        self.revivals = 0
        #: Whether a revival has had no answer: the row may exist again, with fewer messages than are held here.
        self.revival_unanswered = False

    @property
    def holds(self) -> bool:
        """Whether messages may begin."""
        if self._session.lost or self._session.id is None:
            return not self._session.lost
        return is_certain(self.confirmed_at, now(), self._deadline_seconds)

    def ensure(self) -> None:
        """Renew the session now, if it is not certain. Raises SessionLost and other StoreErrors."""
        heartbeat = self._session.heartbeat
        if heartbeat is not None and not self.holds:
            heartbeat.renew()
        if self._session.lost:
            raise SessionLost

    def confirm(self, begun_at: float) -> None:
        """Take note of a renewal that began then; tell the session's driver if messages may begin again."""
        before, self.confirmed_at = self.confirmed_at, begun_at
        # Asked only now: a thread that has just found the lease uncertain must be told. Where the session is lost,
        # nothing begins again.
        if not (self._session.lost or is_certain(before, now(), self._deadline_seconds)):
            logger.warning("The lease of %r was not renewed in time, and is confirmed again", self._session.name)
            self._session.driver.on_command(self._session.command)

    def miss_claim(self) -> None:
        """Take note that a claim has had no answer, or one that counts no more."""
        # Again when no statement of the lost connection can run any more: it may claim after the first look.
        self._resync_at = [now(), now() + 2 * conf.load().STATEMENT_TIMEOUT_SECONDS]

    def resync_due(self) -> float | None:
        """Return since when to give back what such a claim may have taken, None if that is not due."""
        due = self._resync_at[:1]
        return due[0] if due and now() >= due[0] else None

    def resynced(self, due: float) -> None:
        """Take note that it was given back. Two threads may have done it at once."""
        with suppress(ValueError):
            self._resync_at.remove(due)


def revive(store: Store, session_id: int, info: SessionInfo, held: set[Receipt]) -> set[Receipt] | None:
    """Open a reaped session again; return what it holds no more, None if its id names another session.

    Raises StoreError.
    """
    kept = store.revive(session_id, info, sorted(held), deadline_seconds=conf.load().SESSION_SECONDS)
    gone = {receipt for receipt in held if kept is None or receipt[0] not in kept}
    logger.warning(
        "Session %s was reaped: its process could not renew it in time. It keeps %s of its messages; %s were"
        " given to others, or finished",
        session_id,
        len(held) - len(gone),
        len(gone),
    )
    return None if kept is None else gone
