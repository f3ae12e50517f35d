"""How a queue turns a message into an entry with a place in it."""

from dataclasses import dataclass, field
from math import isinf, isnan
from typing import TYPE_CHECKING

from django_mq.engine.entry import Entry
from django_mq.engine.expiry import UNBOUNDED, Lifetime
from django_mq.engine.levels import MOST_LEVELS, level_of
from django_mq.engine.places import ORDINARY_PLACE, place_of
from django_mq.engine.states import HELD, READY, SCHEDULED
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from django_mq.engine.message import Message


@dataclass(frozen=True, slots=True)
class Placement:
    """The settings of a queue that decide where and for how long a message stands.

    ``due_first`` puts due messages at the head of their level; otherwise they stand where
    they arrived. With ``hold`` they stand there from the start, held.
    """

    levels: int = MOST_LEVELS
    due_first: bool = True
    hold: bool = False
    lifetime: Lifetime = UNBOUNDED
    #: The level of each priority on the scale.
    _levels: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_priority = tuple(level_of(priority, self.levels) for priority in range(10))
        object.__setattr__(self, "_levels", by_priority)

    def entry(self, message: "Message", arrival: int, now: float) -> Entry:
        """The message's entry: scheduled or held if its time is still to come, else ready."""
        priority, due_at = message.priority, message.deliver_at
        if due_at is not None or message.expires_at is not None:
            self.check(message)
        level = self._levels[priority] if 0 <= priority <= 9 else level_of(priority, self.levels)
        entry = Entry(message, level, 0 if due_at is None else self.place_at(due_at), arrival)
        if due_at is not None and due_at > now:
            entry.state = HELD if self.hold else SCHEDULED
            entry.due_at = due_at
        if self.lifetime is not UNBOUNDED:
            entry.expires_at = self.lifetime.end(message.expires_at, now)
        return entry

    def entry_again(self, entry: Entry, message: "Message") -> Entry:
        """The entry of a message that stands at the tail of its level again, as ready or scheduled as it was.

        The entry keeps its end; a scheduled one keeps its time. ``offer_again`` numbers its arrival.
        """
        scheduled = entry.state is SCHEDULED
        due_at = entry.due_at if scheduled else None
        place = ORDINARY_PLACE if due_at is None else self.place_at(due_at)
        level, state = level_of(message.priority, self.levels), SCHEDULED if scheduled else READY
        again = Entry(message, level, place, state=state, due_at=due_at, redelivered=entry.redelivered)
        again.expires_at = entry.expires_at
        return again

    def check(self, message: "Message") -> None:
        """Raise OutOfRange for a message with a time that is none: it would stand in everybody's way."""
        for time in (message.deliver_at, message.expires_at):
            if time is not None and isnan(time):
                raise OutOfRange("A message's times are seconds on the clock, not NaN.")
        if message.deliver_at is not None and isinf(message.deliver_at):
            raise OutOfRange("A message cannot be delivered at an infinite time; give none to deliver it now.")

    def place_at(self, deliver_at: float) -> int:
        """The place of a message that is due at this time."""
        return place_of(deliver_at, due_first=self.due_first and not self.hold)
