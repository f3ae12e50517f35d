"""When messages expire.

A message is expired from ``expires_at`` on, that instant included, as in Artemis; Qpid still
delivers at the exact instant. "Until nine" is read as "not at nine".
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from django_mq.engine.bounds import check_bounds

if TYPE_CHECKING:
    from django_mq.engine.options import QueueOptions


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How a queue changes a message's time to live; None is no change. All times have one unit, normally seconds.

    ``least`` prolongs a shorter life, but gives no expiry to a message without one. ``most``
    cuts a longer one, also of a message without an expiry (Qpid). ``default`` is for messages without an
    expiry only, and then the only rule (Artemis' expiry delay). ``endless`` removes
    every expiry.
    """

    least: float | None = None
    most: float | None = None
    default: float | None = None
    endless: bool = False

    def __post_init__(self) -> None:
        check_bounds(0, least=self.least, most=self.most, default=self.default)

    @classmethod
    def of(cls, queue: "QueueOptions") -> "Lifetime":
        """Return the lifetime for a queue's options."""
        return cls(queue.min_ttl_seconds, queue.max_ttl_seconds, queue.ttl_seconds, queue.no_expiry)

    def end(self, expires_at: float | None, arrived_at: float) -> float | None:
        """Return when a message that arrives at ``arrived_at`` expires in this queue; None: never."""
        if self.endless:
            return None
        if self.default is not None:
            return arrived_at + self.default if expires_at is None else expires_at
        if expires_at is not None and self.least is not None:
            expires_at = max(expires_at, arrived_at + self.least)
        if self.most is not None:
            latest = arrived_at + self.most
            expires_at = latest if expires_at is None else min(expires_at, latest)
        return expires_at


#: The message's own time, and nothing else.
UNBOUNDED = Lifetime()


class Expiring(Protocol):
    """A message, with its own time, or a message in a queue, with a time within the queue's bounds."""

    @property
    def expires_at(self) -> float | None: ...


def is_expired(what: Expiring, now: float) -> bool:
    """Whether this may no longer be delivered at ``now``."""
    return what.expires_at is not None and now >= what.expires_at
