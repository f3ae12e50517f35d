"""How far a consumer has looked into a queue (Qpid's "last seen" and "released" positions).

A consumer that may take whatever stands first needs no position. One that passes entries
over (because of a selector, a group, a refusal) would look at the same ones again and again;
and a browser takes nothing, so only its position tells what it has been shown.

Qpid moves the position back to what came to stand behind it, and then walks over everything
in between once more. Here the position stays, and what came behind it is remembered: each
entry is looked at once, however often others come and go.
"""

from typing import TYPE_CHECKING

from django_mq.engine.lists import FifoList, OrderedList
from django_mq.engine.states import READY

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry
    from django_mq.engine.lists import EntryList


class View:
    """A way through the ready entries of one list.

    ``again`` says whether entries that were given back are looked at again. A browser
    does not: it has seen them, or has passed them while somebody held them. ``from_tail``
    begins behind everything that stands there now.

    What a browser has passed cannot be told from the places of ready entries alone: what
    somebody holds stands nowhere. So the queue tells it, by ``looked``, how many entries had
    arrived when it looked.
    """

    __slots__ = ("_behind", "_last_seen", "_line", "_looked_until", "_passed", "_passed_until", "_resume", "again")

    def __init__(self, line: "EntryList | None" = None, *, again: bool = False, from_tail: bool = False) -> None:
        self._line = FifoList() if line is None else line
        self.again = again
        self._last_seen: Entry | None = None
        #: Where to look again; it comes before the position.
        self._resume: Entry | None = None
        #: Entries that came to stand before the last one seen.
        self._behind = OrderedList(self._line.position)
        #: Entries that stand ahead of it, and were passed while somebody held them.
        self._passed: dict[Entry, None] = {}
        #: The last arrival when it looked, and when it last saw the end.
        self._looked_until = self._passed_until = 0
        if from_tail:
            for entry in self._line:
                self._last_seen = entry

    @property
    def looks_back(self) -> bool:
        """Whether it must be told what leaves the line."""
        return len(self._behind) > 0 or len(self._passed) > 0

    def arrived(self, entry: "Entry") -> bool:
        """A ready entry came to stand in the line; whether it is still to be looked at."""
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
        """Whether somebody held it when the browser came by, at arrival ``until``."""
        return entry.redelivered and not self.again and entry.arrival <= until

    def left(self, entry: "Entry") -> None:
        """An entry left the line."""
        self._behind.remove(entry)
        self._passed.pop(entry, None)

    def looked(self, arrivals: int, *, to_the_end: bool) -> None:
        """A browser has looked when ``arrivals`` was the number of the last one."""
        self._looked_until = arrivals
        if to_the_end:
            self._passed_until = arrivals

    def move_back(self, entry: "Entry") -> None:
        """Look again from this entry on, if it was passed."""
        position = self._line.position
        if self._last_seen is None or position(entry) > position(self._last_seen):
            return
        if self._resume is None or position(entry) < position(self._resume):
            self._resume = entry

    def next_in(self, ready: "EntryList") -> "Entry | None":
        """The first entry not yet seen; it counts as unseen until ``saw`` is called."""
        ahead, behind = self._next_ahead(ready), self._behind.head()
        if ahead is None or behind is None:
            return ahead or behind
        # What stands behind is first, unless the position was moved back.
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
        """The entry that ``next_in`` answered was shown, or passed over."""
        if not self._behind.remove(entry):
            self._resume = None
            self._last_seen = entry
