"""A message's place and state in one queue.

Every change of state is a compare-and-swap: it happens if the entry is in the expected
state; otherwise nothing happens and the method returns False. Python has no atomic
swap, so the queue calls these methods under its lock.
"""

from dataclasses import KW_ONLY, dataclass, field
from math import isinf, isnan
from typing import TYPE_CHECKING

from django_mq.engine.decisions.claim import Order, order_of
from django_mq.engine.decisions.expiry import UNBOUNDED, Lifetime
from django_mq.engine.decisions.places import MOST_LEVELS, ORDINARY_PLACE, level_of, place_of
from django_mq.engine.states import (
    CLAIMED,
    DEAD,
    GONE,
    HELD,
    MOVES,
    PARKED,
    READY,
    SCHEDULED,
    STEALABLE,
    State,
    is_delivered_before,
)
from django_mq.errors import IllegalMove, OutOfRange

if TYPE_CHECKING:
    from django_mq.engine.decisions.sorting import Sorting
    from django_mq.engine.message import Message


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """One message in one queue.

    Entries are compared by identity. They stand in line by ``order``, least first, which does not
    change while they are in the queue: a returned entry stands in its old place.
    """

    message: "Message"
    level: int = 0
    place: int = 0
    arrival: int = 0
    _: KW_ONLY
    state: State = READY
    #: When it becomes ready, in seconds, while it is scheduled or held.
    due_at: float | None = None
    #: Deliveries that count, including the current one while it is claimed.
    attempts: int = 0
    #: Whether it may have been delivered before.
    redelivered: bool = False
    #: What a store needs to find its row again.
    receipt: object = None

    # Computed once: a list compares entries much more often than they change their place.
    order: Order = field(init=False)
    #: When it expires here: the message's own time, within the queue's bounds.
    expires_at: float | None = field(init=False)
    #: The key that frees it while it is parked, and the time that does so, if there is one.
    park_key: str = field(init=False, default="")
    parked_until: float | None = field(init=False, default=None)
    #: The consumer that holds it while it is claimed; see ``consumers.consumer.holder_of``.
    owner: "object | None" = field(init=False, default=None)
    #: Grows with every claim and identifies one delivery, so that a late settlement is void.
    claim_number: int = field(init=False, default=0)
    #: Consumers that have declined it; None if there are none.
    declined_by: "set[object] | None" = field(init=False, default=None)
    #: Removed while a consumer held it: a returned entry is then discarded.
    doomed: bool = field(init=False, default=False)
    #: Whether a later value has replaced it for good while a consumer held it.
    replaced: bool = field(init=False, default=False)
    #: Whether a session that held it has died: the message may be the cause.
    suspect: bool = field(init=False, default=False)
    #: Why it is dead, here or in the queue that it comes from, and since when it is dead here.
    cause: str = field(init=False, default="")
    died_at: float | None = field(init=False, default=None)
    #: Whether the latest delivery made its consumer the owner of its group.
    opens_group: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.expires_at = self.message.expires_at
        self.order = order_of(self.level, self.place, self.arrival)

    def stand_at(self, place: int, arrival: int) -> None:
        """Set the place. ``arrival`` is unique in the queue. Only for an entry that is in no list."""
        self.place, self.arrival = place, arrival
        self.order = order_of(self.level, place, arrival)

    @property
    def is_claimed(self) -> bool:
        """Whether a consumer holds it."""
        return self.state is CLAIMED or self.state is STEALABLE

    @property
    def keeps_group(self) -> bool:
        """Whether its group waits for it: it is claimed, or has failed and waits for its next attempt."""
        return self.is_claimed or (self.state is SCHEDULED and self.redelivered)

    def swap(self, old: State, new: State) -> bool:
        """Move from ``old`` to ``new`` if it is in ``old``; raises IllegalMove if no entry may."""
        if new not in MOVES[old]:
            raise IllegalMove(f"An entry cannot move from {old.name.lower()} to {new.name.lower()}.")
        if self.state is not old:
            return False
        self.state = new
        return True

    def claim(self, owner: object) -> bool:
        """Move from ready to claimed by ``owner``; the attempt counts from here."""
        # Without ``swap``, for speed.
        if self.state is not READY:
            return False
        self.state = CLAIMED
        self.owner = owner
        self.attempts += 1
        self.claim_number += 1
        return True

    def lend(self) -> bool:
        """Move from claimed to stealable: the queue may take the delivered entry back."""
        return self.swap(CLAIMED, STEALABLE)

    def lock(self, owner: object) -> bool:
        """Move from stealable to claimed: ``owner`` begins to settle. True, too, if it was never stealable."""
        return self.owner is owner and (self.state is CLAIMED or self.swap(STEALABLE, CLAIMED))

    def accept(self, owner: object) -> bool:
        """Move from claimed by ``owner`` to gone."""
        if self.owner is not owner or self.state is not CLAIMED:
            return False
        self.state, self.owner = GONE, None
        return True

    def release(self, owner: object, due_at: float | None = None, *, delivered: bool = True) -> bool:
        """As ``fail``, but uncounted. ``delivered``: whether the message may have reached the owner."""
        redelivered = self.redelivered or delivered
        if not self.fail(owner, due_at):
            return False
        self.attempts -= 1
        self.redelivered = redelivered
        return True

    def decline(self, owner: object) -> bool:
        """As ``release``, and the entry is not offered to ``owner`` again."""
        if not self.release(owner):
            return False
        self.declined_by = (self.declined_by or set()) | {owner}
        return True

    def fail(self, owner: object, due_at: float | None = None) -> bool:
        """Move from claimed by ``owner`` to ready, or to scheduled until ``due_at``; the attempt counts."""
        if not self._leave(owner, READY if due_at is None else SCHEDULED):
            return False
        self.due_at = due_at
        self.redelivered = True
        return True

    def park(self, owner: object, key: str, until: float | None) -> bool:
        """Move from claimed by ``owner`` to parked, uncounted; None is no time."""
        if not self._leave(owner, PARKED):
            return False
        self.attempts -= 1
        self.redelivered = True
        self.park_key, self.parked_until = key, until
        return True

    def reject(self, owner: object) -> bool:
        """Move from claimed by ``owner`` to dead."""
        return self._leave(owner, DEAD)

    def steal(self) -> bool:
        """Move from stealable to dead, uncounted: the queue takes the entry back."""
        if not self.swap(STEALABLE, DEAD):
            return False
        self.owner, self.redelivered = None, True
        self.attempts -= 1
        return True

    def discard(self) -> bool:
        """Move from any state to gone; False if it is gone already."""
        if self.state is GONE:
            return False
        self.owner = None
        return self.swap(self.state, GONE)

    def _leave(self, owner: object, new: State) -> bool:
        if self.owner is not owner or not self.swap(CLAIMED, new):
            return False
        self.owner = None
        return True


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
    sorting: "Sorting | None" = None
    #: The level of each priority on the scale.
    _levels: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_priority = tuple(level_of(priority, self.levels) for priority in range(10))
        object.__setattr__(self, "_levels", by_priority)

    def entry(self, message: "Message", arrival: int, now: float) -> Entry:
        """Return a new entry for the message: scheduled or held if its time is still to come, else ready."""
        priority, due_at = message.priority, message.deliver_at
        if due_at is not None or message.expires_at is not None:
            self.check(message)
        level = self._levels[priority] if 0 <= priority <= 9 else level_of(priority, self.levels)
        entry = Entry(message, level, self._place_of(message, due_at), arrival)
        if due_at is not None and due_at > now:
            entry.state = HELD if self.hold else SCHEDULED
            entry.due_at = due_at
        if self.lifetime is not UNBOUNDED:
            entry.expires_at = self.lifetime.end(message.expires_at, now)
        return entry

    def entry_again(self, entry: Entry, message: "Message") -> Entry:
        """Return an entry for a message that is moved to the tail of its level, ready or scheduled as before.

        The entry keeps its expiry, and a scheduled one its time.
        ``offer_again`` numbers its arrival.
        """
        scheduled = entry.state is SCHEDULED
        due_at = entry.due_at if scheduled else None
        place = self._place_of(message, due_at)
        level, state = level_of(message.priority, self.levels), SCHEDULED if scheduled else READY
        again = Entry(message, level, place, state=state, due_at=due_at)
        again.redelivered = is_delivered_before(entry.state, redelivered=entry.redelivered)
        again.expires_at = entry.expires_at
        return again

    def _place_of(self, message: "Message", due_at: float | None) -> int:
        if self.sorting is not None:
            return self.sorting.place_or_first(message.headers)
        return ORDINARY_PLACE if due_at is None else self.place_at(due_at)

    def check(self, message: "Message") -> None:
        """Raise OutOfRange for a time that is NaN or infinite, which would break the order of the queue."""
        for time in (message.deliver_at, message.expires_at):
            if time is not None and isnan(time):
                raise OutOfRange("A message's times are seconds on the clock, not NaN.")
        if message.deliver_at is not None and isinf(message.deliver_at):
            raise OutOfRange("A message cannot be delivered at an infinite time; give none to deliver it now.")

    def place_at(self, deliver_at: float) -> int:
        """Return the place of a message that is due at this time."""
        return place_of(deliver_at, due_first=self.due_first and not self.hold)
