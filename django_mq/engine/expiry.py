"""Messages that lose their worth at a time.

A message is expired from ``expires_at`` on, that instant included, as in Artemis; Qpid still
delivers at the exact instant. "Until nine" is read as "not at nine".
"""

from typing import TYPE_CHECKING

from django_mq.engine.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message


def is_expired(message: "Message", now: float) -> bool:
    """Whether the message may no longer be delivered at ``now``."""
    return message.expires_at is not None and now >= message.expires_at


def expiry_order(entry: "Entry") -> tuple[float, int]:
    """Earliest expiry first."""
    expires_at = entry.message.expires_at
    return NEVER if expires_at is None else expires_at, entry.arrival


class Expiring(Timeline):
    """Ready entries that have an expiry, in the order they expire.

    Only ready ones: a scheduled message becomes due first, and a claimed one expires when
    it is given back, because work that has begun cannot be undone.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=expiry_order)
