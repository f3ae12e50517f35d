"""How a queue turns a message into an entry with a place in it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.entry import Entry
from django_mq.engine.expiry import UNBOUNDED, Lifetime
from django_mq.engine.levels import MOST_LEVELS, check_levels, level_of
from django_mq.engine.places import place_of
from django_mq.engine.states import HELD, SCHEDULED

if TYPE_CHECKING:
    from django_mq.engine.message import Message


@dataclass(frozen=True, slots=True)
class Placement:
    """The settings of a queue that decide where and for how long a message stands.

    ``due_first`` puts due messages at the head of their level; otherwise they stand where
    they arrived. With ``hold`` they stand there from the start, held. Raises OutOfRange unless
    ``levels`` lies in 1..10.
    """

    levels: int = MOST_LEVELS
    due_first: bool = True
    hold: bool = False
    lifetime: Lifetime = UNBOUNDED

    def __post_init__(self) -> None:
        check_levels(self.levels)

    def entry(self, message: "Message", arrival: int, now: float) -> Entry:
        """The message's entry: scheduled or held if its time is still to come, else ready."""
        entry = Entry(
            message,
            level=level_of(message.priority, self.levels),
            place=0 if message.deliver_at is None else self._place(message.deliver_at),
            arrival=arrival,
        )
        if message.deliver_at is not None and message.deliver_at > now:
            entry.state = HELD if self.hold else SCHEDULED
            entry.due_at = message.deliver_at
        if self.lifetime is not UNBOUNDED:
            entry.expires_at = self.lifetime.end(message.expires_at, now)
        return entry

    def _place(self, deliver_at: float) -> int:
        return place_of(deliver_at, due_first=self.due_first and not self.hold)
