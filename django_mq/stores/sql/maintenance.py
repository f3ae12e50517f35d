"""Maintenance: promote, expire, trim, and bury what no consumer wants."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.engine.decisions.decline import BY_ALL, Audience, audience_of, is_settled, is_unwanted
from django_mq.engine.decisions.periodic import SOON_SECONDS
from django_mq.engine.decisions.selection import may_want
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.subjects import maintenance as subjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.sql.declared import DeclaredSelectors
    from django_mq.stores.sql.fairness import FairPlaces
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.moves import Moves
    from django_mq.stores.sql.parking import Parking
    from django_mq.stores.sql.queues import Queues
    from django_mq.stores.sql.sessions import Sessions

#: The duties of maintenance that ``due_duties`` asks for, in the order of its columns.
ASKED = (
    *("reap", "promote", "expire", "trim", "take_over", "delete_unused", "bury_unwanted", "cover"),
    "periodic.publish",
)
#: Declines of a queue that one round reads.
DECLINES = 20_000


@dataclass(eq=False)
class Maintenance(Part, subjects.Maintenance):
    queues: Queues
    messages: Messages
    moves: Moves
    last_values: LastValues
    fairness: FairPlaces
    parking: Parking
    sessions: Sessions
    declared: DeclaredSelectors
    #: By queue with declined messages, its consumers as last seen.
    _audiences: dict[int, Audience] = field(init=False, default_factory=dict)

    def due_duties(self) -> dict[str, bool]:
        times = {"stalled_seconds": STALLED_SECONDS, "soon_seconds": SOON_SECONDS}
        [found] = self.rows("due_duties", **times, **self.sessions.grace())
        return dict(zip(ASKED, map(bool, found), strict=True))

    def promote(self, limit: int = 1000) -> int:
        due = self.last_values.promote() + self.fairness.promote() + self.queues.promote(limit)
        return due + self.parking.free_due(limit)

    def cover(self) -> bool:
        return self.declared.cover()

    def expire(self, limit: int = 1000) -> int:
        self.last_values.promote()  # a value that was due before its end has replaced others
        with self.database.transaction():
            ids = first_of(self.rows("find_expired", limit=limit))
            if not ids:
                return 0
            self.messages.set_expired_aside(ids)
            return len(self.messages.drop_replaced(ids)) + self.moves.send_expired(ids)

    def trim(self) -> int:
        return sum(self._trim(name) for (name,) in self.rows("overfull_rings"))

    def _trim(self, name: str) -> int:
        """Apply the limits of one ring, as a publisher does, in a transaction of its own."""
        with self.database.transaction():
            evicted = 0
            for capacity in self.last_values.capacities.free(name):
                newest = self.rows("newest_in_queue", queue_id=capacity.queue_id)[0][0]
                evicted += self.moves.settle_in(capacity, 0, 0, newest=newest or 0)
            return evicted

    def bury_unwanted(self) -> int:
        # The audiences are those that this process has seen, by its own clock.
        now = time.monotonic() + self.database.offset().total_seconds()
        grace_seconds = conf.load().DECLINE_GRACE_SECONDS
        queues = self.rows("declining_queues")
        consumers = self._consumers() if queues else {}
        before, self._audiences = self._audiences, {}
        for id_, name in queues:
            self._audiences[id_] = audience_of(before.get(id_), frozenset(consumers.get(name, ())), now)
        settled = [each for each in queues if is_settled(self._audiences[each[0]], now, grace_seconds)]
        return sum(self._bury_unwanted(id_, name, consumers[name], grace_seconds) for id_, name in settled)

    def _consumers(self) -> dict[str, dict[int, set[str]]]:
        """Return the living sessions that consume each queue, with the selectors of their consumers."""
        consumers: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for session, queues, queue, selector in self.rows("living_consumers"):
            for name in {*json.loads(queues), queue} - {None}:
                consumers[name][session].update({selector} if name == queue else ())
        return {
            name: {session: texts or {""} for session, texts in each.items()} for name, each in consumers.items()
        }

    def _bury_unwanted(
        self, queue_id: int, name: str, consumers: Mapping[int, set[str]], grace_seconds: float
    ) -> int:
        with self.database.transaction():
            rows = self.rows("declined", queue_id=queue_id, since_seconds=-grace_seconds, limit=DECLINES)
            by_message = {id_: list(some) for id_, some in groupby(rows, key=itemgetter(0))}
            old = {id_: some for id_, some in by_message.items() if all(row[2] for row in some)}
            selecting = [session for session, texts in consumers.items() if "" not in texts]
            known: dict[int, Any] = dict.fromkeys(old)
            if selecting:
                known = dict(self.messages.described(name, [*old]))
            unwanted = []
            for id_, message in known.items():
                others = {session for session in selecting if not may_want(consumers[session], message)}
                if is_unwanted({row[1] for row in old[id_]}, consumers.keys() - others, old[id_][0][3]):
                    unwanted.append(id_)
            if unwanted:
                self.messages.bury(unwanted, BY_ALL)
                self.moves.send_dead(unwanted)
                self.rows("drop_declined", queue_id=queue_id, ids=unwanted)
        return len(unwanted)
