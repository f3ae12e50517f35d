"""A connection that stands for a session, and whether it is still there, as far as the socket tells.

The server lets an advisory lock go when the connection ends that took it. Whoever reaps sees
that at once and leaves the worker only the time to come back. So a worker must see it, too,
without asking the server all the time: whatever ends a connection makes its socket readable.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

from django_mq.stores.connections import lock_of
from django_mq.stores.postgresql.settings import impatient
from django_mq.stores.records import Renewal
from django_mq.stores.sql import SQLStore

if TYPE_CHECKING:
    from django_mq.stores.records import Heartbeat

#: How long a session whose connection has ended may take to come back.
RECONNECT_SECONDS = 2.5


def is_readable(driver: Any) -> bool:
    """Whether an idle connection has something to say: that it ends, or a notice that a statement clears."""
    try:
        descriptor = driver.fileno()
    except Exception:  # noqa: BLE001 - a closed driver has no socket
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


class Guarding(SQLStore):
    """Takes the lock for a session, and looks for sessions whose lock is free."""

    reconnect_seconds: float = RECONNECT_SECONDS

    #: The driver's connection that stands for a session, and one that cannot because it is a pooler's.
    _guarding: Any = None
    _pooled: Any = None

    def _answer(self, _session_id: int, _heartbeat: Heartbeat, *renewed: Any) -> Renewal:
        _, eldest, ready, conduct, credit = renewed
        told = self._instructions(conduct, credit)
        return Renewal(eldest=bool(eldest), ready=bool(ready), instructions=told)

    def revive(self, session_id: int, *given: Any, **more: Any) -> frozenset[int] | None:
        self._guarding = None  # the row says no more that the connection stands for it
        return super().revive(session_id, *given, **more)

    def guard(self, session_id: int, *, deadline_seconds: float) -> bool:
        self.connection.ensure_connection()
        driver = self.connection.connection
        if not self.private or driver in (self._guarding, self._pooled):
            return True
        backend = driver.info.backend_pid
        rows = self._rows("guard", session=session_id, backend=backend, deadline_seconds=deadline_seconds)
        own, guarded = rows[0] if rows else (True, False)
        self._pooled = None if own else driver
        self._guarding = driver if guarded else None
        return guarded or not own or not rows

    def bound_lock_waits(self, seconds: float) -> None:
        self.connection.settings_dict = impatient(self.connection.settings_dict, seconds)

    def has_hung_up(self) -> bool:
        if self._guarding is None:
            return False
        lock = lock_of(self.connection)
        if not lock.acquire(blocking=False):
            return False  # somebody is in the middle of a statement, and will hear of it
        try:
            driver = self.connection.connection
            return driver is not self._guarding or is_readable(driver)
        finally:
            lock.release()

    def hasten(self) -> int:
        with self._transaction():
            ids = [row[0] for row in self._rows("lock_guarded", **self._grace())]
            return len(self._rows("hasten", ids=ids, reconnect_seconds=self.reconnect_seconds)) if ids else 0

    def _grace(self) -> dict[str, Any]:
        return super()._grace() | {"reconnect_seconds": self.reconnect_seconds}
