"""The keeper: one thread per session that renews it, whatever the worker's loop is doing."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.certainty import now
from django_mq.delivery.feeding import RENEWALS
from django_mq.delivery.sidecar import Sidecar
from django_mq.delivery.upkeep import Upkeep
from django_mq.errors import StoreError, StoreUnavailable
from django_mq.notifications.base import LOOK
from django_mq.stores.records import Heartbeat
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from django_mq.delivery.session import Session
    from django_mq.stores.records import SessionInfo

logger = logging.getLogger("django_mq.delivery")

#: Settlements that the driver has left lying for so long, in seconds, are written by the keeper.
STALE_SECONDS = 0.2
#: Time between two rounds of the keeper, in seconds; while the database is away it grows.
ROUND_SECONDS = 0.1
OUTAGE_CAP_SECONDS = 1.0
#: So many waits for a lock fit into a deadline.
LOCK_WAITS = 5
#: Time between two tries to have the connection stand for the session, in seconds.
GUARD_SECONDS = 0.3


class Keeper:
    """Renews a session before its deadline, at once if its connection has ended, and does upkeep in between."""

    def __init__(self, session: Session) -> None:
        settings = conf.load()
        self._session = session
        self._deadline_seconds = settings.SESSION_SECONDS
        self.store = private_store(session.alias)
        # A settlement that waits for a lock must not keep the session from being renewed.
        self.store.bound_lock_waits(settings.SESSION_SECONDS / LOCK_WAITS)
        self._upkeep = Upkeep(self.store, settings.UPKEEP_SECONDS, grace_seconds=settings.SESSION_SECONDS)
        self._renew_at = 0.0
        #: When it has looked for messages in the driver's place, on the monotonic clock, and there were none.
        self.looked_at = float("-inf")
        shared = self.store.features.durable
        self._sidecar = Sidecar(session.alias) if settings.SIDECAR_SECONDS and shared else None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="django_mq-keeper", daemon=True)

    def open(self, info: SessionInfo) -> int:
        """Open the session's row and return its id; a connection stands for it from the first instant.

        Raises StoreError.
        """
        try:
            with self.store.transaction():
                session_id = self.store.open_session(info, deadline_seconds=self._deadline_seconds)
                self.store.guard(session_id, deadline_seconds=self._deadline_seconds)
        except BaseException:
            self.store.close()
            raise
        return session_id

    def start(self) -> None:
        """Start the thread."""
        # At once where the database is to notice its end, or where the others must know soon who goes first.
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
        """End the thread; from any thread, the keeper's own included. Its connection stays until ``close``."""
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def close(self) -> None:
        """Close the connection: from now on the session is on its own."""
        self._upkeep.close()
        if self._sidecar is not None:
            self._sidecar.close()
        self.store.close()

    def abandon(self) -> None:
        """Leave everything to the parent, in a forked child."""
        self._upkeep.abandon()
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
                    self._upkeep.pause_after_outage()
            except Exception:
                # The keeper must outlive any defect: without it the session lapses and its work is done twice.
                logger.exception("The keeper stumbled")

    def _sleep(self, seconds: float) -> bool:
        """Wait for the next round; return whether there is none.

        Who has overslept half a deadline was not alone in it, perhaps: a whole machine may have stood still.
        Whoever wakes first would take the others for dead.
        """
        wake_at = time.monotonic() + seconds
        stopping = self._stopping.wait(seconds)
        self._judge_nobody_if_late(wake_at)
        return stopping

    def _judge_nobody_if_late(self, expected_at: float) -> None:
        late = time.monotonic() - expected_at
        if late > self._deadline_seconds / 2:
            logger.warning(
                "The heartbeat was late by %.1f s: the database waited, the machine stood still, or work kept the"
                " thread from running. After %s s others may claim what this worker holds",
                late,
                self._deadline_seconds,
            )
            self._upkeep.pause_after_outage()

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
        self._judge_nobody_if_late(begun_at)
        self._upkeep.run_if_due(spare=session.id or 0)

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
        session.instruct(renewal.instructions)
        self._upkeep.stand(eldest=renewal.eldest)
        if self.store.features.looks_when_renewed:
            self._look(ready=renewal.ready)
        if not self.store.guard(session.id, deadline_seconds=self._deadline_seconds):
            self._renew_at = time.monotonic() + GUARD_SECONDS


# How much memory this process takes, where the system says so.

STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Return what the process has in memory now; None where there is no /proc."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
