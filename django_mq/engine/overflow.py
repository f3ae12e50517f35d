"""What a queue does when it holds more than it should.

Everything in the queue counts, whatever its state. A queue may stay over its limit for a while:
what a consumer holds fast is not evicted.

A ring that counts ready messages only is Artemis' ring: whatever comes to stand in it drives at
most one other out, so that a smaller limit trims nothing by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import merge
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.consumer import tell
from django_mq.engine.names import check_bounds
from django_mq.engine.states import READY, Cause
from django_mq.errors import ProducerBlocked, QueueFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.contents import Contents
    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message


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


_arrival: Final = attrgetter("arrival")
_least: Final = attrgetter("level", "place", "arrival")


class Capacity:
    """The limits of one queue, and its policy when they are exceeded."""

    __slots__ = (
        "_contents",
        "_evicting",
        "flow",
        "limits",
        "policy",
        "ready_only",
        "reserved",
        "reserved_bytes",
        "resume_at",
    )

    def __init__(self, contents: "Contents") -> None:
        self._contents = contents
        self._evicting = False
        self.flow = ProducerFlow()
        #: Admitted to open units of work, and not here yet.
        self.reserved = 0
        self.reserved_bytes = 0

    def set(self, policy: Overflow, limits: "Limits", resume_percent: float, *, ready_only: bool) -> None:
        """Follow these rules from now on."""
        self.policy = policy
        self.limits = limits
        self.resume_at = limits.share(resume_percent)
        self.ready_only = ready_only
        if not ready_only:
            self.look_again(None)
        if policy is not Overflow.FLOW and self.flow.stopped:
            self.flow.resume()

    def admit(self, message: "Message", producer: Producer | None = None) -> bool:
        """Whether a message may come in; False: it is to be dropped.

        Raises QueueFull if it is refused, ProducerBlocked if its producer has to wait.
        """
        if producer is not None and producer.blocked:
            raise ProducerBlocked
        if not self._turns_away or not self.would_exceed(message):
            return True
        if self.policy is not Overflow.DROP:
            raise QueueFull
        return False

    @property
    def _turns_away(self) -> bool:
        """Whether a message too many does not come in."""
        if self.policy is Overflow.FLOW:
            return self._contents.policy.refuses_while_full
        return self.policy is Overflow.REJECT or self.policy is Overflow.DROP

    def admit_all(self, queue: str, sizes: "Sequence[int]") -> list[bool]:
        """Which of several messages that come together may come in; the others are to be dropped.

        Raises QueueFull if they are refused.
        """
        if not self._turns_away:
            return [True] * len(sizes)
        statistics = self._contents.statistics
        held = statistics.depth + self.reserved, statistics.depth_bytes + self.reserved_bytes
        return self.limits.admit(queue, sizes, *held, drops=self.policy is Overflow.DROP)

    def would_exceed(self, message: "Message") -> bool:
        """Whether one more message is too much, for limits that are more than watched."""
        return self.is_exceeded_by(1, message.size)

    def is_exceeded_by(self, messages: int, size_bytes: int) -> bool:
        """Whether so many more are too much, for limits that are more than watched."""
        return self.policy is not Overflow.NONE and self._exceeded(
            messages + self.reserved, size_bytes + self.reserved_bytes
        )

    def reserve(self, message: "Message") -> None:
        """A message was admitted and will come, or be given up, later."""
        self.reserved += 1
        self.reserved_bytes += message.size

    def unreserve(self, message: "Message") -> None:
        """It has come, or was given up."""
        self.reserved -= 1
        self.reserved_bytes -= message.size

    def look_again(self, newcomer: "Entry | None") -> None:
        """Something that was here came to stand in line again, or the limits have changed."""
        if not self._contents.policy.trims_for_arrivals:
            self.check(newcomer)

    def check(self, newcomer: "Entry | None", producer: Producer | None = None) -> None:
        """Something came to stand here: act if it is too much. The newcomer is not evicted."""
        if self.policy is Overflow.RING:
            if self.ready_only:
                self._drive_out(newcomer)
            else:
                self._evict(newcomer)
        elif self.policy is Overflow.FLOW:
            if self._exceeded():
                self.flow.stop(producer)
            else:
                self.freed()

    def freed(self) -> None:
        """Something is gone: let producers go on if it is enough."""
        if not self.flow.stopped:
            return
        statistics = self._contents.statistics
        if not self.resume_at.exceeded_by(statistics.depth, statistics.depth_bytes):
            self.flow.resume()

    def _exceeded(self, more: int = 0, more_bytes: int = 0) -> bool:
        statistics = self._contents.statistics
        messages, size_bytes = statistics.depth, statistics.depth_bytes
        if self.ready_only:
            messages = len(self._contents.dispatch.ready)
        return self.limits.exceeded_by(messages + more, size_bytes + more_bytes)

    def _drive_out(self, newcomer: "Entry | None") -> None:
        """Remove the oldest of those that stand first in their levels, if one has come too many."""
        ready = self._contents.dispatch.ready
        if not self._exceeded() or (newcomer is not None and newcomer.state is not READY):
            return
        firsts = [ready.next(head) if head is newcomer else head for head in ready.heads()]
        oldest = min((each for each in firsts if each is not None), key=_arrival, default=None)
        if oldest is not None:
            self._contents.take_out(oldest, Cause.REPLACED)

    def _evict(self, newcomer: "Entry | None") -> None:
        if self._evicting:  # an eviction may free a group, wake, and come back here
            return
        self._evicting = True
        try:
            while self._exceeded():
                victim = next((each for each in self._evictable() if each is not newcomer), None)
                if victim is None:
                    break
                self._contents.take_back(victim, Cause.REPLACED)
        finally:
            self._evicting = False

    def _evictable(self) -> "Iterator[Entry]":
        ready = self._contents.dispatch.ready.least_significant()
        lent = self._contents.stealable()
        if not lent:
            return ready
        # Of all that can be taken, the oldest of the lowest level; those who wait are in this order already.
        return merge(sorted(lent, key=_least), ready, key=_least)
