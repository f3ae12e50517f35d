"""What has to be done from time to time. Nothing here is needed for what is due to be delivered."""

from typing import TYPE_CHECKING

from django_mq.engine.doors.steering import Steering
from django_mq.engine.timeline import NEVER

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry


class Timekeeping(Steering):
    """Does what time brings, and says when to come again."""

    def promote(self, now: float, most: int | None = None) -> "list[Entry]":
        """Make every due entry ready, or the earliest so many; answer them in the order they became due."""
        with self.lock:
            self._now = now
            return self._promote(now, most)

    def expire(self, now: float, most: int | None = None) -> "list[Entry]":
        """Remove every expired entry in line, or so many; answer all that were removed since the last call.

        ``deliver`` removes those it meets, too, and leaves them for this to answer, unless
        they went to an expiry queue.
        """
        with self.lock:
            self._now = now
            self._contents.expire(now, most)
            expired, self._expired_unasked = self._expired_unasked, []
            return expired

    def overdue(self, now: float, most: int) -> "list[Entry]":
        """The entries in line that have expired, so many at most, which stay until they are sent on or removed."""
        with self.lock:
            self._now = now
            return self._calendar.expiring.until(now, most)

    def unhold(self, now: float) -> "list[Entry]":
        """Let every held entry whose time has passed stand ready; answer them."""
        with self.lock:
            overdue = self._contents.holding.overdue(now)
            self._contents.unhold(overdue)
            return overdue

    def keep_house(self, now: float) -> None:
        """Do all of the above."""
        with self.lock:
            self._tell_time(now)
            self.promote(now)
            self.unhold(now)
            self.expire(now)  # its answer, too, or what nobody asks for would be kept for ever

    def next_due(self) -> float | None:
        """When the next scheduled entry becomes due; None if none is scheduled."""
        with self.lock:
            due_at = self._calendar.schedule.next_time()
            return None if due_at == NEVER else due_at

    def next_time(self) -> float | None:
        """When to call ``keep_house`` next; None if nothing will become due or expire."""
        with self.lock:
            opens_at = NEVER if self._gate.opens_at is None else self._gate.opens_at
            times = (self._calendar.next_time(), self._contents.holding.next_time(), opens_at)
            return None if min(times) == NEVER else min(times)
