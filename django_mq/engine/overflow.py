"""What a queue does when it holds more than it should."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Final

from django_mq.engine.bounds import check_bounds
from django_mq.engine.telling import tell
from django_mq.errors import QueueFull

if TYPE_CHECKING:
    from collections.abc import Callable

#: A full queue lets its producers go on when it has been emptied to this share of its limits.
DEFAULT_RESUME_PERCENT: Final = 80


class Overflow(Enum):
    """The policy of a queue whose limits are exceeded."""

    #: Limits are only watched.
    NONE = "none"
    #: The oldest messages make room for the new one.
    RING = "ring"
    #: The new message is refused: ``QueueFull``.
    REJECT = "reject"
    #: The new message is dropped in silence (Artemis).
    DROP = "drop"
    #: The message is kept, and its producer is stopped until the queue has been emptied a little.
    FLOW = "flow"

    @classmethod
    def _missing_(cls, value: object) -> "Overflow | None":
        """Take the word of a later version for the policy that loses nothing."""
        return cls.REJECT if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a queue should hold at most; None is no limit, and exactly the limit is allowed."""

    messages: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        check_bounds(0, messages=self.messages, size_bytes=self.size_bytes)

    def exceeded_by(self, messages: int, size_bytes: int) -> bool:
        """Whether so much is too much."""
        return (self.messages is not None and messages > self.messages) or (
            self.size_bytes is not None and size_bytes > self.size_bytes
        )

    def fitting(self, sizes: Sequence[int], messages: int, size_bytes: int) -> list[bool]:
        """Which of several messages that come together fit beside what is here; what is too much is left out."""
        fitting = []
        for size in sizes:
            fits = not self.exceeded_by(messages + 1, size_bytes + size)
            fitting.append(fits)
            if fits:
                messages, size_bytes = messages + 1, size_bytes + size
        return fitting

    def refusal(self, queue: str, sizes: Sequence[int], messages: int, size_bytes: int) -> QueueFull:
        """Why a queue that holds so much does not take all of these messages."""
        wanted, unit, held, limit = len(sizes), "messages", messages, self.messages
        if limit is None or messages + wanted <= limit:
            wanted, unit, held, limit = sum(sizes), "bytes", size_bytes, self.size_bytes
        sentence = f"Queue {queue!r} holds {held} of at most {limit} {unit}; {wanted} more do not fit."
        return QueueFull(sentence, queue=queue)

    def admit(
        self, queue: str, sizes: Sequence[int], messages: int, size_bytes: int, *, drops: bool
    ) -> list[bool]:
        """Which of several messages come into a queue that holds so much and makes no room for them.

        Raises QueueFull unless all fit, or the queue drops what is too much.
        """
        fitting = self.fitting(sizes, messages, size_bytes)
        if not drops and not all(fitting):
            raise self.refusal(queue, sizes, messages, size_bytes)
        return fitting

    def share(self, percent: float) -> "Limits":
        """The limits at which so many percent are reached, rounded up."""
        return Limits(*(None if n is None else ceil(n * percent / 100) for n in (self.messages, self.size_bytes)))


class Producer:
    """Who publishes, and may be told to wait. ``resumed`` is called under the queue's lock."""

    __slots__ = ("_resumed", "name", "waits_for")

    def __init__(self, name: str, resumed: "Callable[[Producer], None] | None" = None) -> None:
        self.name = name
        self._resumed = resumed
        #: The full queues it has to wait for.
        self.waits_for: set[ProducerFlow] = set()

    @property
    def blocked(self) -> bool:
        """Whether it may publish nothing for now."""
        return bool(self.waits_for)

    def resume(self, flow: "ProducerFlow") -> None:
        """One queue has room again."""
        self.waits_for.discard(flow)
        if not self.waits_for and self._resumed is not None:
            tell(self._resumed, self)


class ProducerFlow:
    """The producers that wait for one queue (Qpid's producer flow control)."""

    __slots__ = ("_waiting", "stopped")

    def __init__(self) -> None:
        self.stopped = False
        self._waiting: dict[Producer, None] = {}

    def stop(self, producer: Producer | None) -> None:
        """The queue is full: whoever filled it waits."""
        self.stopped = True
        if producer is not None:
            self._waiting[producer] = None
            producer.waits_for.add(self)

    def resume(self) -> None:
        """There is room again: everybody may go on."""
        self.stopped = False
        waiting, self._waiting = self._waiting, {}
        for producer in waiting:
            producer.resume(self)
