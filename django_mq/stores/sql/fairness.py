"""Fair places: give messages their places in queues that keys share, in the transaction that makes them ready.

A ready message with the ordinary place has no fair place yet, and stands last: it was scheduled, or an older
version has published it. It gets its place from a claim that makes due messages ready, or from maintenance.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions.fairness import FIRST, HEAD, Fairness, present_place, stored_key, turns
from django_mq.engine.message import Message
from django_mq.stores.records import headers_in
from django_mq.stores.sql.database import Part, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.stores.records import Moved, QueueRecord
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.queues import Queues

#: The most messages that one transaction places.
PLACE_LIMIT = 1000


class Arriving(NamedTuple):
    """New messages of one key in one level, in order of arrival."""

    level: int
    key: str
    weight: float
    ids: list[int]


@dataclass(eq=False)
class FairPlaces(Part):
    queues: Queues
    messages: Messages

    def place(self, name: str, ids: Sequence[int]) -> None:
        """Give places to those of these messages that are ready and have none."""
        queue = self._fair(name)
        if queue is not None and queue.fairness is not None and ids:
            rows = self.rows("lock_unplaced", queue_id=queue.id, ids=list(ids))
            present: dict[int, int] = {}
            for arriving in _arriving(queue.fairness, rows):
                if arriving.level not in present:
                    present[arriving.level] = self._present(queue.id, arriving.level)
                self._place(queue.id, arriving, present[arriving.level])

    def place_moved(self, moved: Iterable[Moved]) -> None:
        """Give places to messages that an operation has made ready."""
        ids = defaultdict(list)
        for each in moved:
            if each.new_id is not None:
                ids[each.queue].append(each.new_id)
        for name, some in ids.items():
            self.place(name, some)

    def place_again(self, standing: Mapping[int, tuple[str, str]]) -> None:
        """Give new places to ready messages; ``standing`` has the message id and the queue of each."""
        ids = defaultdict(list)
        for id_, (_, name) in standing.items():
            ids[name].append(id_)
        for name, some in ids.items():
            if self._fair(name) is not None:
                self.rows("unplace", ids=some)
                self.place(name, some)

    def promote(self, names: Iterable[str] | None = None) -> int:
        """Make due messages ready and place them, in these queues or in all; return how many became ready."""
        every: Iterable[str] = [row[0] for row in self.rows("fair_queues")] if names is None else names
        return sum(self._promote(name) for name in every)

    def _promote(self, name: str) -> int:
        queue = self._fair(name)
        if queue is None:
            return 0
        with self.database.transaction():
            promoted = self.queues.promote(PLACE_LIMIT, [name])
            found = self.rows("unplaced", queue_id=queue.id, limit=PLACE_LIMIT)
            self.place(name, sorted(first_of(found))[:PLACE_LIMIT])
        return promoted

    def prune(self, limit: int) -> int:
        """Delete counters of keys that are idle."""
        with self.database.transaction():
            ids = first_of(self.rows("idle_counters", limit=limit))
            return len(self.rows("drop_counters", ids=ids)) if ids else 0

    def _fair(self, name: str) -> QueueRecord | None:
        queue = self.queues.known(name)
        return queue if queue is not None and queue.fair_by else None

    def _present(self, queue_id: int, level: int) -> int:
        seen, latest = (FIRST if each is None else each for each in self._level(queue_id, level))
        head = self.rows("fair_head", queue_id=queue_id, level=level, seen=seen, limit=HEAD)
        return present_place([(place, bool(back)) for place, back in head], seen, latest)

    def _level(self, queue_id: int, level: int) -> Sequence[int | None]:
        return self.rows("fair_level", queue_id=queue_id, level=level)[0]

    def _place(self, queue_id: int, arriving: Arriving, present: int) -> None:
        # The lock is a statement of its own: the next one must see what the last publisher committed.
        where = {"queue_id": queue_id, "level": arriving.level, "key": stored_key(arriving.key)}
        taken = first_of(self.rows("take_counter", **where))
        counters = self.rows("fair_counters", **where)
        ahead = sum(bool(sees) and (not taken or id_ < taken[0]) for id_, _, sees in counters)
        places, finish = turns(
            len(arriving.ids),
            arriving.weight,
            present=present,
            finish=max((finish for _, finish, _ in counters), default=FIRST),
            ahead=ahead,
        )
        if taken:
            self.rows("set_counter", id=taken[0], finish=finish, seen=present)
        else:
            self.rows("add_counter", **where, finish=finish, seen=present)
        self.messages.set_places(dict(zip(arriving.ids, places, strict=True)))


def _arriving(fair: Fairness, rows: Rows) -> list[Arriving]:
    """Return the messages, given as id, level and headers, by level and key."""
    found: dict[tuple[int, str], Arriving] = {}
    for id_, level, headers in rows:
        key = fair.key_of(Message(id="", headers=headers_in(str(headers))))
        found.setdefault((level, key), Arriving(level, key, fair.weight_of(key), [])).ids.append(id_)
    return list(found.values())
