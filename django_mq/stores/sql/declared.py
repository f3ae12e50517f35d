"""Declared selectors: write in an index which of them matches a message.

A new message of such a queue is asked in the transaction that publishes it. Maintenance asks the messages that are
there when selectors are declared, and those that come another way.

    declared ──> every process knows ──> older transactions have finished ──> all are asked: covered

Only then does a claim trust the index. Until then it asks all messages, as by any selector. A publisher leaves new
messages unasked meanwhile, and a claim by the list before finds them so.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django_mq.engine.decisions.declared import NUMBERS, declared_in
from django_mq.stores.sql.database import Part, first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.declared import Declared
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.queues import Queues

#: Messages that are asked in one transaction, and the seconds that one round takes.
PART, ROUND_SECONDS = 1000, 0.25
#: The table is read again for messages that a process of an older version has published: not sooner than after so
#: many seconds, and for one part in so many of the time.
AGAIN_SECONDS, AGAIN_SHARE = 60.0, 100
#: Seconds until every process knows of new selectors. Idle workers of older versions read a queue's row so seldom.
KNOWN_BY_ALL_SECONDS = 30.0
#: The mark of a queue that declares no selectors any more, until every process knows.
NO_LIST = 0


@dataclass(slots=True)
class Coverage:
    """How far the messages of a queue have been asked by a list."""

    mark: int
    #: On the monotonic clock.
    begin_at: float
    #: Transactions that may write messages without knowing the list.
    writers: frozenset[str]
    #: Whether the row of the queue says that all have been asked.
    covered: bool = False
    after: int = 0
    took_seconds: float = 0.0


@dataclass(eq=False)
class DeclaredSelectors(Part):
    queues: Queues
    messages: Messages
    _coverages: dict[int, Coverage] = field(init=False, default_factory=dict)

    def ask_new(self, name: str, ids: Sequence[int]) -> None:
        """Ask new messages of a queue, in the transaction that writes them."""
        record = self.queues.known(name)
        if record is not None and record.declared is not None:
            self._ask(name, record.declared, ids)

    def _ask(self, name: str, declared: Declared, ids: Sequence[int]) -> None:
        alike: defaultdict[int, list[int]] = defaultdict(list)
        for id_, message in self.messages.described(name, ids).items():
            alike[declared.meets(message)].append(id_)
        for meets, some in sorted(alike.items()):
            self.rows("set_meets", ids=some, meets=meets, queue=name, mark=declared.mark)

    # Maintenance.

    def cover(self) -> bool:
        end, is_left = time.monotonic() + ROUND_SECONDS, False
        before, self._coverages = self._coverages, {}
        for id_, name, selectors, mark, covered in self.rows("declaring_queues"):
            declared, given = declared_in(selectors), {"queue_id": id_, "selectors": selectors}
            wanted = NO_LIST if declared is None else declared.mark
            if mark != wanted and not self.rows("declare_selectors", mark=wanted, **given):
                continue  # a publisher has locked the row, or the selectors have changed
            coverage = before.get(id_)
            if coverage is None or coverage.mark != wanted:
                coverage = Coverage(wanted, self._now() + KNOWN_BY_ALL_SECONDS, self.writers())
            coverage.covered = bool(covered) and mark == wanted
            self._coverages[id_] = coverage
            if declared is None:
                if self._now() >= coverage.begin_at:
                    self.rows("declare_selectors", mark=None, **given)
                continue
            if coverage.covered:
                ids = first_of(self.rows("unasked_ready", queue_id=id_, limit=PART))
                is_left |= self._ask_all(name, declared, id_, ids) and len(ids) == PART
            is_left |= self._go_on(name, declared, id_, coverage, end)
        return is_left

    def _now(self) -> float:
        return time.monotonic() + self.database.offset().total_seconds()

    def _go_on(self, name: str, declared: Declared, queue_id: int, coverage: Coverage, end: float) -> bool:
        """Ask the messages of the next parts of the table; return whether the time has ended first."""
        if coverage.writers:
            coverage.writers &= self.writers()
        while not coverage.writers and self._now() >= coverage.begin_at:
            begin = time.monotonic()
            last = self.rows("part_end", after=coverage.after, limit=PART)[0][0]
            if last is None:
                if coverage.covered or self.rows("note_covered", queue_id=queue_id, mark=declared.mark):
                    pause = max(AGAIN_SECONDS, AGAIN_SHARE * coverage.took_seconds)
                    self._coverages[queue_id] = Coverage(declared.mark, self._now() + pause, frozenset())
                return False
            where = {"after": coverage.after, "last": last, "queue_id": queue_id}
            ids = first_of(self.rows("unasked", mark=declared.mark, end=declared.mark + NUMBERS, **where))
            is_done = self._ask_all(name, declared, queue_id, ids)
            if is_done:
                coverage.after = last
            now = time.monotonic()
            coverage.took_seconds += now - begin
            if now > end:
                return is_done  # what others have locked waits for the next round
        return False

    def _ask_all(self, name: str, declared: Declared, queue_id: int, ids: Sequence[int]) -> bool:
        """Ask messages; return whether no other transaction has locked or deleted one of them."""
        if not ids:
            return True
        with self.database.transaction():
            locked = first_of(self.rows("lock_to_ask", ids=list(ids), queue_id=queue_id))
            self._ask(name, declared, locked)
        return len(locked) == len(ids)

    def writers(self) -> frozenset[str]:
        """Return the open transactions that have written messages."""
        return frozenset()  # where one connection writes at a time
