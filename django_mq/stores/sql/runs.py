"""Runs that go on after their messages are gone: tasks that are acknowledged when they begin."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq.engine.decisions.ends import End, RunOutcome
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.ends import Ends, Marked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.stores.records import Receipt, Settlement
    from django_mq.stores.sql.database import Rows


@dataclass(eq=False)
class BegunTasks(Part):
    """A run keeps what its message was told to: its end is told as the message's, once."""

    ends: Ends

    def begin(self, session_id: int, receipts: Sequence[Receipt]) -> None:
        """Keep what is known of messages that the session holds, before they are accepted."""
        by_claim = defaultdict[int, list[int]](list)
        for id_, claim in receipts:
            by_claim[claim].append(id_)
        for claim, ids in by_claim.items():
            self.rows("begin_tasks", session=session_id, claim=claim, ids=ids)

    def end(self, session_id: int, settlements: Sequence[Settlement]) -> set[int]:
        """End runs of the session; return the row ids of those that had not ended before."""
        outcomes = {item.id: item.outcome or RunOutcome.SUCCEEDED for item in settlements}
        return self._end(session_id, outcomes, self.rows("begun_tasks", ids=[*outcomes]))

    def lose(self, found: Rows) -> None:
        """End runs of sessions that are gone, which were found."""
        for session_id, rows in groupby(sorted(found, key=itemgetter(0, 1)), key=itemgetter(0)):
            begun = [tuple(row[1:]) for row in rows]
            self._end(session_id, dict.fromkeys((row[0] for row in begun), RunOutcome.LOST), begun)

    def _end(self, session_id: int, outcomes: Mapping[int, RunOutcome], found: Rows) -> set[int]:
        done = {id_ for id_ in sorted(outcomes) if self.rows("end_task", session=session_id, id=id_)}
        marks = {
            id_: Marked(told_to, UUID(str(message_id)), queue, type_, headers, properties, b"", "", "")
            for id_, told_to, message_id, queue, type_, headers, properties in found
            if told_to is not None and id_ in done
        }
        self.ends.tell(marks, dict.fromkeys(marks, End.ACCEPTED), outcomes=outcomes)
        return done
