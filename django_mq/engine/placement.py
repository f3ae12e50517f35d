"""How a queue turns a message into an entry with a place in it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.entry import Entry
from django_mq.engine.levels import MOST_LEVELS, check_levels, level_of
from django_mq.engine.places import place_of
from django_mq.engine.states import READY, SCHEDULED

if TYPE_CHECKING:
    from django_mq.engine.message import Message


@dataclass(frozen=True, slots=True)
class Placement:
    """The two settings of a queue that decide where a message stands.

    ``due_first`` puts due messages at the head of their level; otherwise they stand where
    they arrived. Raises OutOfRange unless ``levels`` lies in 1..10.
    """

    levels: int = MOST_LEVELS
    due_first: bool = True

    def __post_init__(self) -> None:
        check_levels(self.levels)

    def entry(self, message: "Message", arrival: int, now: float) -> Entry:
        """The message's entry: scheduled if its time is still to come, else ready."""
        due_at = message.deliver_at
        held = due_at is not None and due_at > now
        return Entry(
            message,
            level=level_of(message.priority, self.levels),
            place=place_of(due_at, due_first=self.due_first),
            arrival=arrival,
            state=SCHEDULED if held else READY,
            due_at=due_at if held else None,
        )
