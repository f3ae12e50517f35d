"""When something happens in a queue by itself."""

from typing import TYPE_CHECKING

from django_mq.engine.expiry import Expiring
from django_mq.engine.schedule import Schedule
from django_mq.engine.timeline import NEVER

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry


class Calendar:
    """The scheduled entries, and those in line that will expire."""

    __slots__ = ("expiring", "quiet_until", "schedule")

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.expiring = Expiring()
        #: Nothing becomes due before this time. It may be too early, after an entry has gone
        #: otherwise, but never too late: one comparison spares a delivery a look.
        self.quiet_until = NEVER

    def hold(self, entry: "Entry") -> None:
        """Keep a scheduled entry until it is due."""
        self.schedule.add(entry)
        self.quiet_until = min(self.quiet_until, self.schedule.next_time())

    def watch(self, entry: "Entry") -> None:
        """Note when an entry expires that can be delivered until then."""
        self.expiring.add(entry)

    def look_again(self) -> None:
        """After what had come due was taken out: find out when the next thing happens."""
        self.quiet_until = self.schedule.next_time()

    def next_time(self) -> float:
        """When anything becomes due or expires next; NEVER if nothing will."""
        return min(self.schedule.next_time(), self.expiring.next_time())
