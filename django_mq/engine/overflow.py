"""What to do when a queue is full.

Entries in every state count. A queue may stay over its limit for a while, because
claimed entries are not evicted unless they are stealable.

With ``ready_only``, a ring counts ready messages only (Artemis): each message that becomes ready evicts
at most one other, so a smaller limit alone evicts nothing.
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

    def fitting(self, sizes: Sequence[int], messages: int, size_bytes: int) -> list[bool]:
        """Return for each of several new messages whether it fits into a queue that holds this much.

        A message that does not fit uses no space.
        """
        fitting = []
        for size in sizes:
            fits = not self.exceeded_by(messages + 1, size_bytes + size)
            fitting.append(fits)
            if fits:
                messages, size_bytes = messages + 1, size_bytes + size
        return fitting

    def refusal(self, queue: str, sizes: Sequence[int], messages: int, size_bytes: int) -> QueueFull:
        """Return the error for messages that do not all fit into a queue that holds this much."""
        wanted, unit, held, limit = len(sizes), "messages", messages, self.messages
        if limit is None or messages + wanted <= limit:
            wanted, unit, held, limit = sum(sizes), "bytes", size_bytes, self.size_bytes
        sentence = f"Queue {queue!r} holds {held} of at most {limit} {unit}; {wanted} more do not fit."
        return QueueFull(sentence, queue=queue)

    def admit(
        self, queue: str, sizes: Sequence[int], messages: int, size_bytes: int, *, drops: bool
    ) -> list[bool]:
        """Return for each of several new messages whether a queue that holds this much takes it.

        Raises QueueFull unless all fit, or the queue ``drops`` those that do not.
        """
        fitting = self.fitting(sizes, messages, size_bytes)
        if not drops and not all(fitting):
            raise self.refusal(queue, sizes, messages, size_bytes)
        return fitting

    def share(self, percent: float) -> "Limits":
        """Return this percentage of the limits, rounded up."""
        return Limits(*(None if n is None else ceil(n * percent / 100) for n in (self.messages, self.size_bytes)))


class Producer:
    """A publisher that a full queue may stop. ``resumed`` is called under the queue's lock."""

    __slots__ = ("_resumed", "name", "waits_for")

    def __init__(self, name: str, resumed: "Callable[[Producer], None] | None" = None) -> None:
        self.name = name
        self._resumed = resumed
        #: The full queues it has to wait for.
        self.waits_for: set[ProducerFlow] = set()

    @property
    def blocked(self) -> bool:
        return bool(self.waits_for)

    def resume(self, flow: "ProducerFlow") -> None:
        """Note that one queue has room again."""
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
        """Note that the queue is full, and block the producer that filled it."""
        self.stopped = True
        if producer is not None:
            self._waiting[producer] = None
            producer.waits_for.add(self)

    def resume(self) -> None:
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
        #: Messages admitted in open units of work, and not here yet.
        self.reserved = 0
        self.reserved_bytes = 0

    def set(self, policy: Overflow, limits: "Limits", resume_percent: float, *, ready_only: bool) -> None:
        """Use these limits and this policy from now on."""
        self.policy = policy
        self.limits = limits
        self.resume_at = limits.share(resume_percent)
        self.ready_only = ready_only
        if not ready_only:
            self.look_again(None)
        if policy is not Overflow.FLOW and self.flow.stopped:
            self.flow.resume()

    def admit(self, message: "Message", producer: Producer | None = None) -> bool:
        """Whether the queue takes a message; False: it is to be dropped.

        Raises QueueFull if the queue refuses it, ProducerBlocked if the producer has to wait.
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
        """Whether a full queue takes no message."""
        if self.policy is Overflow.FLOW:
            return self._contents.policy.refuses_while_full
        return self.policy is Overflow.REJECT or self.policy is Overflow.DROP

    def admit_all(self, queue: str, sizes: "Sequence[int]") -> list[bool]:
        """Return for each of several new messages whether the queue takes it; the others are to be dropped.

        Raises QueueFull if the queue refuses one of them.
        """
        if not self._turns_away:
            return [True] * len(sizes)
        statistics = self._contents.statistics
        held = statistics.depth + self.reserved, statistics.depth_bytes + self.reserved_bytes
        return self.limits.admit(queue, sizes, *held, drops=self.policy is Overflow.DROP)

    def would_exceed(self, message: "Message") -> bool:
        """Whether one more message exceeds the limits; False with the policy ``NONE``."""
        return self.is_exceeded_by(1, message.size)

    def is_exceeded_by(self, messages: int, size_bytes: int) -> bool:
        """Whether this many more exceed the limits; False with the policy ``NONE``."""
        return self.policy is not Overflow.NONE and self._exceeded(
            messages + self.reserved, size_bytes + self.reserved_bytes
        )

    def reserve(self, message: "Message") -> None:
        """Count a message that was admitted and arrives, or is given up, later."""
        self.reserved += 1
        self.reserved_bytes += message.size

    def unreserve(self, message: "Message") -> None:
        """Count a reserved message no more: it has arrived, or was given up."""
        self.reserved -= 1
        self.reserved_bytes -= message.size

    def look_again(self, newcomer: "Entry | None") -> None:
        """Apply the policy after an entry became ready again, or the limits changed."""
        if not self._contents.policy.trims_for_arrivals:
            self.check(newcomer)

    def check(self, newcomer: "Entry | None", producer: Producer | None = None) -> None:
        """Apply the policy after an arrival. The newcomer is not evicted."""
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
        """Let the producers go on if enough messages have left the queue."""
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
        """Remove the oldest of the entries that are first in their levels, if the ring is too full."""
        ready = self._contents.dispatch.ready
        if not self._exceeded() or (newcomer is not None and newcomer.state is not READY):
            return
        firsts = [ready.next(head) if head is newcomer else head for head in ready.heads()]
        oldest = min((each for each in firsts if each is not None), key=_arrival, default=None)
        if oldest is not None:
            self._contents.take_out(oldest, Cause.REPLACED)

    def _evict(self, newcomer: "Entry | None") -> None:
        if self._evicting:  # an eviction may free a group, wake a consumer, and lead back here
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
        # The oldest of the lowest level first; ``ready`` is in this order already.
        return merge(sorted(lent, key=_least), ready, key=_least)
