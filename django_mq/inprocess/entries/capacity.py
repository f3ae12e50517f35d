"""How a queue keeps to its limits.

Entries in every state count, but a ring does not count its dead letters, which it cannot replace. A queue may stay
over its limit for a while, because claimed entries are not evicted unless they are stealable.

With ``ready_only``, a ring counts ready messages only (Artemis): each message that becomes ready evicts
at most one other, so a smaller limit alone evicts nothing.
"""

from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import READY, Cause
from django_mq.inprocess.consumers.consumer import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django_mq.engine.message import Message
    from django_mq.inprocess.entries.contents import Contents
    from django_mq.inprocess.entries.entry import Entry


class Producer:
    """A publisher that a full queue may stop. ``resumed`` is called under the queue's lock."""

    __slots__ = ("_resumed", "name", "waits_for")

    def __init__(self, name: str, resumed: "Callable[[Producer], None] | None" = None) -> None:
        self.name = name
        self._resumed = resumed
        #: The full queues it has to wait for.
        self.waits_for: set[Capacity] = set()

    @property
    def blocked(self) -> bool:
        return bool(self.waits_for)

    def resume(self, capacity: "Capacity") -> None:
        """Note that one queue has room again."""
        self.waits_for.discard(capacity)
        if not self.waits_for and self._resumed is not None:
            tell(self._resumed, self)


_least: Final = attrgetter("level", "place", "arrival")


class Capacity:
    """The limits of one queue, and its policy when they are exceeded."""

    def __init__(self, contents: "Contents") -> None:
        self._contents = contents
        self._evicting = False
        #: Whether producers wait until the queue holds less (Qpid's producer flow control), and which.
        self.stopped = False
        self._waiting: dict[Producer, None] = {}
        #: Messages admitted in open units of work, and not here yet.
        self.reserved = self.reserved_bytes = 0

    def set(
        self, policy: Overflow, limits: "Limits", resume_percent: float, *, ready_only: bool, buries: bool
    ) -> None:
        """Use these limits and this policy from now on. ``buries``: whether a ring makes dead letters."""
        self.policy = policy
        self.buries = buries
        self.limits = limits
        self.resume_at = limits.share(resume_percent)
        self.ready_only = ready_only
        if not ready_only:
            self.look_again(None)
        if policy is not Overflow.FLOW and self.stopped:
            self.resume()

    def admit(self, queue: str, sizes: "Sequence[int]") -> list[bool]:
        """Return for each of several new messages whether the queue takes it; the others are to be dropped.

        Raises QueueFull if the queue refuses one of them.
        """
        refuses = self.policy is Overflow.REJECT
        if self.policy is Overflow.FLOW:
            refuses = self._contents.policy.refuses_while_full
        if not refuses and self.policy is not Overflow.DROP:
            return [True] * len(sizes)
        return self.limits.admit(queue, sizes, *self._held(), drops=not refuses)

    def is_exceeded_by(self, messages: int, size_bytes: int) -> bool:
        """Whether this many more exceed the limits; False with the policy ``NONE``."""
        held, held_bytes = self._held()
        return self.policy is not Overflow.NONE and self.limits.exceeded_by(
            held + messages, held_bytes + size_bytes
        )

    def _held(self) -> tuple[int, int]:
        messages, size_bytes = self._counted()
        return messages + self.reserved, size_bytes + self.reserved_bytes

    def _counted(self) -> tuple[int, int]:
        statistics = self._contents.statistics
        messages = len(self._contents.dispatch.ready) if self.ready_only else statistics.depth
        if self.policy is not Overflow.RING or self.ready_only or not self._contents.dead:
            return messages, statistics.depth_bytes
        dead = self._contents.dead
        return messages - len(dead), statistics.depth_bytes - sum(entry.message.size for entry in dead)

    def reserve(self, message: "Message", sign: int = 1) -> None:
        """Count a message that was admitted and arrives, or is given up, later; -1 ends that."""
        self.reserved += sign
        self.reserved_bytes += sign * message.size

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
            if self.limits.exceeded_by(*self._counted()):
                self.stop(producer)
            else:
                self.freed()

    def stop(self, producer: Producer | None) -> None:
        """Note that the queue is full, and block the producer that filled it."""
        self.stopped, self._contents.freed = True, self.freed
        if producer is not None:
            self._waiting[producer] = None
            producer.waits_for.add(self)

    def freed(self) -> None:
        """Let the producers go on if enough messages have left the queue."""
        statistics = self._contents.statistics
        if self.stopped and not self.resume_at.exceeded_by(statistics.depth, statistics.depth_bytes):
            self.resume()

    def resume(self) -> None:
        self.stopped, self._contents.freed = False, None
        waiting, self._waiting = self._waiting, {}
        for producer in waiting:
            producer.resume(self)

    def _drive_out(self, newcomer: "Entry | None") -> None:
        """Remove the oldest of the entries that are first in their levels, if the ring is too full."""
        ready = self._contents.dispatch.ready
        if not self.limits.exceeded_by(*self._counted()) or (newcomer and newcomer.state is not READY):
            return
        firsts = [ready.next(head) if head is newcomer else head for head in ready.heads()]
        oldest = min((each for each in firsts if each is not None), key=attrgetter("arrival"), default=None)
        if oldest is not None:
            self._contents.take_out(oldest, Cause.REPLACED)

    def _evict(self, newcomer: "Entry | None") -> None:
        if self._evicting:  # an eviction may free a group, wake a consumer, and lead back here
            return
        self._evicting = True
        try:
            while self.limits.exceeded_by(*self._counted()):
                victim = next((each for each in self._evictable() if each is not newcomer), None)
                if victim is None:
                    break
                if not (self.buries and self._contents.drop(victim)):
                    self._contents.take_out(victim, Cause.REPLACED, steals=True)
        finally:
            self._evicting = False

    def _evictable(self) -> "Iterator[Entry]":
        ready, lent = self._contents.dispatch.ready.least_significant(), self._contents.stealable()
        # The oldest of the lowest level first; ``ready`` is in this order already.
        return merge(sorted(lent, key=_least), ready, key=_least) if lent else ready
