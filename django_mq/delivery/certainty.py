"""What a session knows of its lease and its messages without asking, and what it has to ask before it goes on.

Three answers can be missing: to a renewal, after a pause; to a claim, when the connection breaks; to a revival,
which opens the row of a reaped session again whose process lives.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.engine.lease import is_certain
from django_mq.errors import SessionLost

if TYPE_CHECKING:
    from django_mq.delivery.session import Session
    from django_mq.stores.base import Store
    from django_mq.stores.records import Receipt, SessionInfo

logger = logging.getLogger("django_mq.delivery")

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
        keeper = self._session.keeper
        if keeper is not None and not self.holds:
            keeper.renew()
        if self._session.lost:
            raise SessionLost

    def confirm(self, begun_at: float) -> None:
        """Take note of a renewal that began then; tell the session's driver if messages may begin again."""
        before, self.confirmed_at = self.confirmed_at, begun_at
        # Asked only now: a thread that has just found the lease uncertain must be told. Where the session is lost,
        # nothing begins again.
        if not (self._session.lost or is_certain(before, now(), self._deadline_seconds)):
            logger.warning("The lease of %r was not renewed in time, and is confirmed again", self._session.name)
            self._session.driver.obey(self._session.instructions)

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
