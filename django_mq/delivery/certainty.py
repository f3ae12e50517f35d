"""Whether a session's messages are surely still its own: after a pause its lease must be confirmed."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.engine.lease import is_certain
from django_mq.errors import SessionLost

if TYPE_CHECKING:
    from django_mq.delivery.session import Session

logger = logging.getLogger("django_mq.delivery")

# The monotonic clock of Linux stands still while the machine sleeps; the databases' clocks do not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return seconds since some moment in the past; they go on while the process or the machine stands still."""
    return time.clock_gettime(_CLOCK)


class Certainty:
    """What one session knows of its lease without asking."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deadline_seconds = conf.load().SESSION_SECONDS
        #: When the last renewal that succeeded began.
        self.confirmed_at = float("-inf")

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
        """Take note of a renewal that began then; tell the session's owner if messages may begin again."""
        before, self.confirmed_at = self.confirmed_at, begun_at
        # Asked only now: a thread that has just found the lease uncertain must be told. Where the session is lost,
        # nothing begins again.
        if not (self._session.lost or is_certain(before, now(), self._deadline_seconds)):
            logger.warning("The lease of %r was not renewed in time, and is confirmed again", self._session.name)
            self._session.on_instructions(self._session.instructions)
