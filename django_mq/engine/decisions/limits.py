"""The most that a queue should hold, and what to do when it is full."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Final

from django_mq.engine.bounds import check_bounds
from django_mq.errors import QueueFull

#: A full queue lets its producers go on when it holds no more than this share of its limits.
DEFAULT_RESUME_PERCENT: Final = 80


class Overflow(Enum):
    """What to do when a queue exceeds its limits."""

    #: The limits have no effect.
    NONE = "none"
    #: The oldest messages are removed for the new one.
    RING = "ring"
    #: The new message is refused: ``QueueFull``.
    REJECT = "reject"
    #: The new message is dropped without an error (Artemis).
    DROP = "drop"
    #: The message is kept, and its producer waits until the queue holds less.
    FLOW = "flow"

    @classmethod
    def _missing_(cls, value: object) -> "Overflow | None":
        """Read an unknown policy, of a later version, as ``REJECT``, which loses nothing."""
        return cls.REJECT if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Limits:
    """The most messages and bytes a queue should hold; None is no limit. Exactly the limit is allowed."""

    messages: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        check_bounds(0, messages=self.messages, size_bytes=self.size_bytes)

    def exceeded_by(self, messages: int, size_bytes: int) -> bool:
        return (self.messages is not None and messages > self.messages) or (
            self.size_bytes is not None and size_bytes > self.size_bytes
        )

    def admit(
        self, queue: str, sizes: Sequence[int], messages: int, size_bytes: int, *, drops: bool
    ) -> list[bool]:
        """Return for each of several new messages whether a queue that holds this much takes it.

        A message that does not fit uses no space. Raises QueueFull for one, unless the queue ``drops`` it.
        """
        fitting, count, total = [], messages, size_bytes
        for size in sizes:
            fits = not self.exceeded_by(count + 1, total + size)
            fitting.append(fits)
            if fits:
                count, total = count + 1, total + size
        if not drops and not all(fitting):
            wanted, unit, held, limit = len(sizes), "messages", messages, self.messages
            if limit is None or messages + wanted <= limit:
                wanted, unit, held, limit = sum(sizes), "bytes", size_bytes, self.size_bytes
            sentence = f"Queue {queue!r} holds {held} of at most {limit} {unit}; {wanted} more do not fit."
            raise QueueFull(sentence, queue=queue)
        return fitting

    def share(self, percent: float) -> "Limits":
        """Return this percentage of the limits, rounded up."""
        return Limits(*(None if n is None else ceil(n * percent / 100) for n in (self.messages, self.size_bytes)))
