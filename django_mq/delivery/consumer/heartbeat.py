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
from pathlib import Path
from typing import TYPE_CHECKING

from django_mq import conf, outages
from django_mq.delivery.consumer.duties import ANSWERS
from django_mq.delivery.consumer.maintenance import PacedMaintenance
from django_mq.delivery.consumer.sidecar import Sidecar
from django_mq.engine.decisions.session import LoopState
from django_mq.errors import StoreError, StoreUnavailable
from django_mq.notifications.base import LOOK
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.consumer.lease import Loop, SessionRow
    from django_mq.delivery.consumer.settlements import SettlementWriter
    from django_mq.stores.records import SessionInfo

logger = logging.getLogger("django_mq.delivery")

#: The heartbeat writes settlements that have waited for so long, in seconds.
STALE_SECONDS = 0.2
#: Time between two rounds of the heartbeat, in seconds; while the database is away it grows.
ROUND_SECONDS = 0.1
#: So many waits for a lock fit into a deadline.
LOCK_WAITS = 5
#: Time between two tries to take the liveness lock, in seconds.
LIVENESS_LOCK_SECONDS = 0.3
#: A session that closes waits so long for the thread, in seconds: a statement may hang.
STOP_SECONDS = 5.0


class HeartbeatThread:
    """Renews a session before its deadline, at once if its connection has ended. Does maintenance in between."""

    def __init__(self, row: SessionRow, settlements: SettlementWriter, close: Callable[[], object]) -> None:
        """Prepare the heartbeat of a session. ``close`` ends the session, in the heartbeat's thread."""
        settings = conf.load()
        self._row = row
        self._state = row.state
        self._settlements = settlements
        self._close_session = close
        self._deadline_seconds = settings.SESSION_SECONDS
        self.store = private_store(row.alias)
        # A settlement that waits for a lock must not keep the session from being renewed.
        self.store.database.bound_lock_waits(settings.SESSION_SECONDS / LOCK_WAITS)
        self._maintenance = PacedMaintenance(
            self.store, settings.MAINTENANCE_SECONDS, grace_seconds=settings.SESSION_SECONDS
        )
        shared = self.store.features.durable
        self._sidecar = Sidecar(row.alias) if settings.SIDECAR_SECONDS and shared else None
        # Whether the log says that the loop stands still, or that it has ended.
        self._named: LoopState | None = None
        self._stopping = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="django_mq-heartbeat", daemon=True)

    def open(self, info: SessionInfo) -> int:
        """Open the session's row, take its liveness lock, and return its id. Raises StoreError."""
        try:
            with self.store.database.transaction():
                session_id = self.store.sessions.open(info, deadline_seconds=self._deadline_seconds)
                self.store.sessions.hold_liveness_lock(session_id, deadline_seconds=self._deadline_seconds)
        except BaseException:
            self.store.close()
            raise
        return session_id

    def start(self) -> None:
        """Start the thread."""
        consumers = self._row.driver.describe().consumers
        # The first renewal lets the database notice the end of the connection, and other sessions know priorities.
        if not (self.store.features.notices_ends or any(consumer.priority for consumer in consumers)):
            self._state.expect_renewal()
        session_id = self._state.record.id
        if self._sidecar is not None and session_id is not None:
            self._sidecar.start(session_id)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; any thread may call this. The connection stays until ``close``."""
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=STOP_SECONDS)

    def close(self) -> None:
        """Close the connection, and end the other processes."""
        if outages.ongoing:
            outages.database(self._row.alias).leave(self)
        self._maintenance.close()
        if self._sidecar is not None:
            self._sidecar.close()
        self._is_closed = True
        self.store.close()

    def abandon(self) -> None:
        """Leave everything to the parent, in a forked child."""
        self._maintenance.abandon()
        if self._sidecar is not None:
            self._sidecar.abandon()

    def _run(self) -> None:
        self._beat()
        if self._is_closed:
            self.store.close()  # it was closed while the last round ran, which opened it again

    def _beat(self) -> None:
        pause, failures, alias = ROUND_SECONDS, 0, self._row.alias
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
        driver = self._row.driver
        loop = driver.loop()
        if loop is None:
            return
        state = loop.state
        if state is LoopState.STANDS and driver.leaves():
            state = LoopState.TURNS  # it waits for what runs
        if state is not self._named:
            self._named = state
            self._name(state, loop)
        if state is LoopState.ENDED and not loop.has_driver:
            self._close_session()

    def _name(self, state: LoopState, loop: Loop) -> None:
        name = self._row.name
        if state is LoopState.STANDS:
            logger.warning(
                "The loop of %r has made no turn for %.0f s: work runs in it, or it hangs. It claims and settles"
                " nothing meanwhile, and keeps its messages",
                name,
                loop.still_seconds,
            )
            self._state.renew_soon()  # the admin and the doctor name it, too
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
        state, begun_at = self._state, time.monotonic()
        self._row.driver.on_round()
        with self.store.database.answering_within(self._deadline_seconds / ANSWERS):
            if self._settlements.pending.stale(STALE_SECONDS):
                self._settlements.flush()
            if time.monotonic() >= state.renew_at or self.store.sessions.has_hung_up():
                self.renew()
            if state.record.retired and not state.record.is_lost:
                self._row.resync(self.store)
        if state.is_over:
            self._close_session()
            return
        self._reap_later_if_late(begun_at)
        self._maintenance.run_if_due(spare=0 if self._has_ended else state.record.id or 0)

    def renew(self) -> None:
        """Renew now; any thread may call this. Raises StoreError."""
        state = self._state
        session_id = state.record.id
        if session_id is None or state.is_over or self._settlements.is_stuck or self._has_ended:
            return
        renewal = self._row.renew(memory_bytes=resident_bytes())
        if renewal is None:
            return
        self._row.take_command(renewal.command)
        self._row.take_stops(renewal.stops)
        self._maintenance.set_leader(renewal.leader)
        if self.store.features.looks_when_renewed:
            if renewal.ready:
                self._row.wake.set(LOOK)
            else:
                state.looked_at = time.monotonic()
        if not self.store.sessions.hold_liveness_lock(session_id, deadline_seconds=self._deadline_seconds):
            state.renew_at = time.monotonic() + LIVENESS_LOCK_SECONDS


def resident_bytes() -> int | None:
    """Return how much memory this process uses now; None where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
