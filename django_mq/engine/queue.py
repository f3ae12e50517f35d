"""One queue: its entries, their times and their consumers, composed."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from django_mq.engine.contents import Contents
from django_mq.engine.entry import Entry
from django_mq.engine.levels import MOST_LEVELS
from django_mq.engine.lists.fifo import FifoList
from django_mq.engine.lists.priority import PriorityList
from django_mq.engine.placement import Placement
from django_mq.engine.states import CLAIMED, GONE, READY, SCHEDULED, State
from django_mq.engine.timeline import NEVER
from django_mq.engine.view import View
from django_mq.errors import IllegalMove

if TYPE_CHECKING:
    from django_mq.engine.consumer import Consumer
    from django_mq.engine.lists.base import EntryList
    from django_mq.engine.message import Message

#: What a purge takes: everything that has yet to be delivered.
UNDELIVERED: Final = (READY, SCHEDULED)


class Queue:
    """A queue of up to ten levels; the package's docstring says what it promises.

    ``now`` is always seconds on the one clock that the messages' times are given in.
    ``entries`` replaces the order the queue stands in.
    """

    def __init__(
        self,
        name: str = "",
        *,
        levels: int = MOST_LEVELS,
        due_first: bool = True,
        entries: "EntryList | None" = None,
    ) -> None:
        self.name = name
        self.placement = Placement(levels, due_first)
        if entries is None:
            entries = PriorityList() if levels > 1 else FifoList()
        self._contents = Contents(entries)
        self._dispatch = self._contents.dispatch
        self._calendar = self._contents.calendar
        self._arrivals = 0
        self._lock = Lock()

    def publish(self, message: "Message", now: float) -> Entry:
        """Add a message, and answer its entry: scheduled if its time is to come, else ready."""
        with self._lock:
            self._arrivals += 1
            entry = self.placement.entry(message, self._arrivals, now)
            self._contents.place(entry)
            return entry

    def offer(self, entry: Entry) -> None:
        """Add an entry made elsewhere: one that a store has claimed, or has kept over a restart.

        Its arrival number must be its own in this queue. Raises IllegalMove for one that is
        claimed or gone.
        """
        with self._lock:
            if entry.state is CLAIMED or entry.state is GONE:
                raise IllegalMove(f"An entry that is {entry.state.name.lower()} cannot be offered.")
            self._arrivals = max(self._arrivals, entry.arrival)
            self._contents.place(entry)

    def promote(self, now: float, most: int | None = None) -> list[Entry]:
        """Make every due entry ready, or the earliest so many; answer them in the order they became due."""
        with self._lock:
            return self._contents.promote(now, most)

    def expire(self, now: float) -> list[Entry]:
        """Remove every expired ready entry; answer all that were removed since the last call.

        ``deliver`` removes those it meets, too, and leaves them for this to answer.
        """
        with self._lock:
            self._contents.expire(now)
            expired, self._contents.expired = self._contents.expired, []
            return expired

    def next_due(self) -> float | None:
        """When the next scheduled entry becomes due; None if none is scheduled."""
        with self._lock:
            due_at = self._calendar.schedule.next_time()
            return None if due_at == NEVER else due_at

    def add_consumer(self, consumer: "Consumer") -> bool:
        """Subscribe a consumer; False if it is subscribed already."""
        with self._lock:
            added = self._dispatch.consumers.add(consumer)
            self._dispatch.refresh(consumer)
            return added

    def remove_consumer(self, consumer: "Consumer") -> list[Entry]:
        """Unsubscribe a consumer; release what it holds, and answer that in order of delivery."""
        with self._lock:
            # Out of every set first, so that nothing it gives back is meant for it again.
            self._dispatch.consumers.remove(consumer)
            unsettled = list(consumer.unsettled)
            released = [entry for entry in unsettled if self._settle(entry, consumer, None, Entry.release)]
            self._dispatch.hand_over()
            return released

    def refresh(self, consumer: "Consumer") -> None:
        """To be called after its credit was resized or stopped, or its ``paused`` was changed."""
        with self._lock:
            self._dispatch.refresh(consumer)

    def wanted(self, most: int) -> int:
        """How many more entries a store should claim for these consumers, at most ``most``.

        It is their free credit less what is ready here already. Unlimited credit wants
        ``most`` entries to be ready.
        """
        with self._lock:
            return self._dispatch.wanted(most)

    def deliver(self, consumer: "Consumer", now: float) -> Entry | None:
        """Claim the first entry for a consumer; None if there is none that it may have now.

        To a browser the entry is only shown.
        """
        with self._lock:
            if now >= self._calendar.quiet_until:
                self._contents.catch_up(now)
            return self._contents.claim_for(consumer)

    def deliver_next(self, now: float) -> "tuple[Consumer, Entry] | None":
        """Claim the first entry for the consumer whose turn it is; None if none may have one."""
        with self._lock:
            if now >= self._calendar.quiet_until:
                self._contents.catch_up(now)
            consumer = self._dispatch.next_in_turn()
            entry = None if consumer is None else self._contents.claim_for(consumer)
            return None if consumer is None or entry is None else (consumer, entry)

    # Settlements. Each answers whether it took effect. It is void, and changes nothing but the
    # consumer's credit, if the entry is no longer the consumer's; settled twice, it does not
    # even do that. ``claim_number``, as read at delivery, tells two deliveries to one consumer apart.

    def accept(self, entry: Entry, consumer: "Consumer", claim_number: int | None = None) -> bool:
        """Done: the entry is gone."""
        with self._lock:
            return self._settle(entry, consumer, claim_number, Entry.accept)

    def release(
        self, entry: Entry, consumer: "Consumer", claim_number: int | None = None, *, retry_at: float | None = None
    ) -> bool:
        """Back to its place, at once or at ``retry_at``; the attempt does not count."""
        with self._lock:
            return self._settle(entry, consumer, claim_number, partial(Entry.release, due_at=retry_at))

    def decline(self, entry: Entry, consumer: "Consumer", claim_number: int | None = None) -> bool:
        """Back to its place for the others; this consumer is not offered it again."""
        with self._lock:
            return self._settle(entry, consumer, claim_number, Entry.decline)

    def fail(
        self, entry: Entry, consumer: "Consumer", claim_number: int | None = None, *, retry_at: float | None = None
    ) -> bool:
        """Back to its place, at once or at ``retry_at``; the attempt counts."""
        with self._lock:
            return self._settle(entry, consumer, claim_number, partial(Entry.fail, due_at=retry_at))

    def reject(self, entry: Entry, consumer: "Consumer", claim_number: int | None = None) -> bool:
        """Dead: kept aside until it is redriven or removed."""
        with self._lock:
            return self._settle(entry, consumer, claim_number, Entry.reject)

    def _settle(
        self,
        entry: Entry,
        consumer: "Consumer",
        claim_number: int | None,
        move: "Callable[[Entry, Consumer], bool]",
    ) -> bool:
        if not consumer.settle(entry, claim_number):
            return False
        return self._contents.settled(entry, consumer, move(entry, consumer))

    def deliver_now(self, entry: Entry) -> bool:
        """Make a scheduled entry ready before its time, in its place; False if it is not scheduled here."""
        with self._lock:
            return self._contents.deliver_now(entry)

    def redrive(self, entry: Entry) -> bool:
        """Make a dead entry ready again, in its place, its attempts forgotten."""
        with self._lock:
            return self._contents.redrive(entry)

    def remove(self, entry: Entry) -> bool:
        """Take an entry away in whatever state; False if it was not here.

        A consumer that holds it has its credit again, and its settlement will be void.
        """
        with self._lock:
            return self._contents.take_out(entry)

    def purge(self, states: Collection[State] = UNDELIVERED) -> list[Entry]:
        """Remove and answer all entries in these states; claimed ones stay with their consumers."""
        with self._lock:
            return self._contents.take_all(states)

    def pause(self) -> None:
        """Deliver nothing; everything else goes on."""
        with self._lock:
            self._dispatch.paused = True

    def resume(self) -> None:
        """Deliver again."""
        with self._lock:
            self._dispatch.resume()

    @property
    def paused(self) -> bool:
        """Whether delivery is paused."""
        return self._dispatch.paused

    def browse(self) -> Iterator[Entry]:
        """The ready entries in order; takes nothing, and bears changes while it goes on."""
        view = View()
        while True:
            with self._lock:
                entry = view.next_in(self._dispatch.ready)
            if entry is None:
                return
            view.saw(entry)
            yield entry

    def heads(self) -> list[Entry]:
        """The first ready entry of each level that has one, the highest level first."""
        with self._lock:
            return list(self._dispatch.heads())

    def counts(self) -> dict[State, int]:
        """How many entries are scheduled, ready, claimed and dead."""
        with self._lock:
            return self._contents.counts()
