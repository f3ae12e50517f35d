"""How far a consumer has looked into a queue (Qpid's "last seen" and "released" positions).

A consumer that always takes the first entry needs no position. One that skips entries
(because of a selector, a group, or ``decline``) would look at the same ones again and again;
and a browser takes nothing, so only its position tells what it has been shown.

Qpid moves the position back to an entry that comes to stand before it, and then looks at every entry
in between once more. Here the position stays, and the entries behind it are remembered: each
entry is looked at once, however often others come and go.
"""

from typing import TYPE_CHECKING

from django_mq.engine.states import READY
from django_mq.inprocess.entries.lists import FifoList, OrderedList

if TYPE_CHECKING:
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.entries.lists import EntryList


class View:
    """A position in the ready entries of one list.

    ``again`` says whether returned entries are looked at again. A browser does not look
    again: it has seen them, or passed them while a consumer held them. ``from_tail``
    begins behind all entries that are ready now.

    The places of ready entries alone do not tell what a browser has passed: a claimed entry has no
    place in the list. So the queue calls ``looked`` with the number of entries that had
    arrived when the browser looked.
    """

    __slots__ = ("_behind", "_last_seen", "_line", "_looked_until", "_passed", "_passed_until", "_resume", "again")

    def __init__(self, line: "EntryList | None" = None, *, again: bool = False, from_tail: bool = False) -> None:
        self._line = FifoList() if line is None else line
        self.again = again
        self._last_seen: Entry | None = None
        #: Where to look again, before the position.
        self._resume: Entry | None = None
        #: Entries that became ready before the last one seen.
        self._behind = OrderedList(self._line.position)
        #: Entries after it that were passed while a consumer held them.
        self._passed: dict[Entry, None] = {}
        #: The number of the last arrival when it looked, and when it last saw the end.
        self._looked_until = self._passed_until = 0
        if from_tail:
            for entry in self._line:
                self._last_seen = entry

    @property
    def looks_back(self) -> bool:
        """Whether ``left`` must be called for entries that leave the list."""
        return len(self._behind) > 0 or len(self._passed) > 0

    def arrived(self, entry: "Entry") -> bool:
        """Note that an entry became ready; return whether it is still to be looked at."""
        position, last = self._line.position, self._last_seen
        ahead = last is None or position(entry) > position(last)
        if self._was_passed(entry, self._passed_until if ahead else self._looked_until):
            if ahead:
                self._passed[entry] = None
            return False
        if not ahead:
            self._behind.add(entry)
        return True

    def _was_passed(self, entry: "Entry", until: int) -> bool:
        """Whether a consumer held the entry when the browser passed, at arrival ``until``."""
        return entry.redelivered and not self.again and entry.arrival <= until

    def left(self, entry: "Entry") -> None:
        """Note that an entry left the list."""
        self._behind.remove(entry)
        self._passed.pop(entry, None)

    def looked(self, arrivals: int, *, to_the_end: bool) -> None:
        """Note that a browser has looked when ``arrivals`` was the number of the last arrival."""
        self._looked_until = arrivals
        if to_the_end:
            self._passed_until = arrivals

    def move_back(self, entry: "Entry") -> None:
        """Look again from this entry on, if the position is behind it."""
        position = self._line.position
        if self._last_seen is None or position(entry) > position(self._last_seen):
            return
        if self._resume is None or position(entry) < position(self._resume):
            self._resume = entry

    def next_in(self, ready: "EntryList") -> "Entry | None":
        """Return the first entry not yet seen; it counts as unseen until ``saw`` is called."""
        ahead, behind = self._next_ahead(ready), self._behind.head()
        if ahead is None or behind is None:
            return ahead or behind
        # An entry behind the position is first, unless the position was moved back.
        return min(ahead, behind, key=self._line.position)

    def _next_ahead(self, ready: "EntryList") -> "Entry | None":
        entry = self._next_place(ready)
        while self._passed and entry is not None and entry in self._passed:
            entry = ready.next(entry)
        return entry

    def _next_place(self, ready: "EntryList") -> "Entry | None":
        if self._resume is not None:
            return self._resume if self._resume.state is READY else ready.next(self._resume)
        return ready.head() if self._last_seen is None else ready.next(self._last_seen)

    def saw(self, entry: "Entry") -> None:
        """Note that the entry returned by ``next_in`` was shown or skipped."""
        if not self._behind.remove(entry):
            self._resume = None
            self._last_seen = entry
