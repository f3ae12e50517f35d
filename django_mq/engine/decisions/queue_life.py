"""When an unused queue is deleted.

A worker that receives from the queue uses it; publishing does not count, as in RabbitMQ.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

#: While workers receive, their use is noted once in such a part of the time after which the queue expires.
PART_NOTED: Final = 0.1


class QueueLife(NamedTuple):
    """A queue that may be deleted without an operator, and when it was used."""

    name: str
    auto_delete: bool
    expires_seconds: float | None
    created_at: datetime
    #: When a worker was last known to receive from it; None: no worker ever did.
    used_at: datetime | None

    def is_over(self, consumed: "AbstractSet[str]", now: datetime, is_empty: "Callable[[], bool]") -> bool:
        """Whether the queue is to be deleted, if ``consumed`` are the queues from which workers receive.

        A queue with ``auto_delete`` stays until it is empty: its worker may only have been restarted.
        """
        if self.is_expired(consumed, now):
            return True
        has_been_left = self.used_at is not None and self.name not in consumed
        return self.auto_delete and has_been_left and is_empty()

    def is_expired(self, consumed: "AbstractSet[str]", now: datetime) -> bool:
        """Whether the queue is to be deleted, empty or not."""
        if self.expires_seconds is None or self.name in consumed:
            return False
        # A span of a hundred years is compared as a number, because it could lead beyond the last date.
        return (now - (self.used_at or self.created_at)).total_seconds() >= self.expires_seconds

    def is_to_be_noted(self, consumed: "AbstractSet[str]", now: datetime) -> bool:
        """Whether to write that the queue is used now."""
        if self.name not in consumed:
            return False
        if self.used_at is None:
            return True
        often = self.expires_seconds is not None
        return often and now - self.used_at >= timedelta(seconds=PART_NOTED * (self.expires_seconds or 0.0))
