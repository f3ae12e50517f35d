"""Emptying something bit by bit: at most one run is scheduled or under way.

Whoever has work for it calls ``notify``, from any thread. The first notification schedules a
run; the others only count. A run pulls until nothing comes, or until its slice is over, so
that one busy queue cannot starve the others that share the threads.

Two things keep work from being left behind. Before every pull the run notes the count of
notifications; if it has changed by the time the run ends, another run is scheduled, since the
newcomer may stand where the run had looked already. And after something was delivered, "nothing
comes" must be answered twice: one consumer's progress can unblock another whose turn was before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import Final

from django_mq.errors import OutOfRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """How much one run may do. Raises OutOfRange unless both bounds are above 0."""

    deliveries: int = 1000
    seconds: float = 1.0
    #: Answers the time in seconds; without a clock only deliveries are bounded.
    clock: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        if not (self.deliveries > 0 and self.seconds > 0):
            raise OutOfRange(f"A slice has at least one delivery and some time, not {self}.")

    def begin(self) -> float:
        """The time at which a run begins."""
        return 0.0 if self.clock is None else self.clock()

    def is_over(self, deliveries: int, began_at: float) -> bool:
        """Whether a run must end that began then and has delivered so many."""
        return deliveries >= self.deliveries or self.begin() - began_at >= self.seconds


#: What a drain does if nothing is said: a thousand deliveries per run, however long they take.
DEFAULT_SLICE: Final = Slice()

#: Pulls in vain, one after the other, that end a run which has delivered something.
LAST_LOOKS: Final = 2


class Slot(Enum):
    """Where the one run is."""

    FREE = "free"
    SCHEDULED = "scheduled"
    RUNNING = "running"


class Drain:
    """Calls ``pull`` until it answers False, never twice at the same time.

    ``pull`` delivers one thing, or answers False. ``schedule`` has a function called soon, in
    any thread; not at once, or a run that schedules the next would nest them. If either raises,
    the slot is free again: the error goes to who called ``run`` or ``notify``, and the next
    notification starts anew.
    """

    __slots__ = ("_lock", "_notifications", "_pull", "_schedule", "_seen", "_slot", "slice")

    def __init__(
        self,
        pull: Callable[[], bool],
        schedule: Callable[[Callable[[], None]], None],
        slice: Slice = DEFAULT_SLICE,  # noqa: A002 (the builtin has no place here)
    ) -> None:
        self._pull = pull
        self._schedule = schedule
        #: May be replaced; the next run goes by it.
        self.slice = slice
        self._lock = Lock()
        self._slot = Slot.FREE
        self._notifications = 0
        #: How many there were before the last pull.
        self._seen = 0

    def notify(self) -> bool:
        """There may be something to pull; answers whether a run was scheduled for it.

        If none was, one is scheduled or under way that will see to it.
        """
        with self._lock:
            self._notifications += 1
            if self._slot is not Slot.FREE:
                return False
            self._slot = Slot.SCHEDULED
        self._submit()
        return True

    def _swap(self, old: Slot, new: Slot) -> bool:
        with self._lock:
            if self._slot is not old:
                return False
            self._slot = new
            return True

    def _submit(self) -> None:
        try:
            self._schedule(self.run)
        except BaseException:
            # Only if it was never begun: a run begun since has freed the slot itself.
            self._swap(Slot.SCHEDULED, Slot.FREE)
            raise

    def run(self) -> None:
        """To be called by the schedule. Does nothing if no run is due."""
        if not self._swap(Slot.SCHEDULED, Slot.RUNNING):
            return
        unfinished = False
        try:
            unfinished = self._pull_for_a_slice()
        finally:
            if self._end(unfinished) is Slot.SCHEDULED:
                self._submit()

    def _pull_for_a_slice(self) -> bool:
        time_slice = self.slice
        began_at, deliveries, looks = time_slice.begin(), 0, 1
        while looks:
            self._seen = self._notifications
            if not self._pull():
                looks -= 1
                continue
            deliveries, looks = deliveries + 1, LAST_LOOKS
            if time_slice.is_over(deliveries, began_at):
                return True
        return False

    def _end(self, unfinished: bool) -> Slot:
        with self._lock:
            missed = self._notifications != self._seen
            self._slot = Slot.SCHEDULED if unfinished or missed else Slot.FREE
            return self._slot
