"""What time does to the entries of a queue."""

from typing import TYPE_CHECKING

from django_mq.engine.expiry import Expiring
from django_mq.engine.schedule import Schedule
from django_mq.engine.timeline import NEVER

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry


class Calendar:
    """The scheduled entries, and the ready ones that will expire."""

    __slots__ = ("expiring", "quiet_until", "schedule")

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.expiring = Expiring()
        #: Nothing becomes due or expires before this time. It may be too early, after an entry
        #: has gone otherwise, but never too late: one comparison spares a delivery two looks.
        self.quiet_until = NEVER

    def hold(self, entry: "Entry") -> None:
        """Keep a scheduled entry until it is due."""
        self.schedule.add(entry)
        self.quiet_until = min(self.quiet_until, self.schedule.next_time())

    def watch(self, entry: "Entry", expires_at: float) -> None:
        """Note when a ready entry expires."""
        self.expiring.add(entry)
        self.quiet_until = min(self.quiet_until, expires_at)

    def look_again(self) -> None:
        """After what had come due was taken out: find out when the next thing happens."""
        self.quiet_until = min(self.schedule.next_time(), self.expiring.next_time())
