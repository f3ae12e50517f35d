"""Leases: what sessions hold, taken again or given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.last_value import BY_LATER_VALUE
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.records import Receipt
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.messages import Messages


@dataclass(eq=False)
class Leases(Part):
    messages: Messages
    last_values: LastValues

    def retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        """Claim messages again that carry the token of the session's claim; return the ids that it holds then.

        Those are marked that a later value would have replaced, had the session not been dead.
        """
        ids = self._retake(session_id, receipts)
        if ids:
            self.last_values.mark_outdone(ids)
        return ids

    def _retake(self, session_id: int, receipts: Sequence[Receipt]) -> set[int]:
        ids, claims = map(list, zip(*receipts, strict=True))
        return set(first_of(self.rows("retake", session=session_id, ids=ids, claims=claims)))

    def release(self, session_id: int) -> int:
        """Give back all messages of a session, uncounted; return how many."""
        return self._released(session_id, "release_session")

    def release_unknown(self, session_id: int, held: Sequence[int]) -> int:
        """Give back the messages of a session but these, uncounted; return how many."""
        return self._released(session_id, "release_unknown", held=list(held))

    def _released(self, session_id: int, statement: str, **given: Any) -> int:
        replaced = first_of(self.rows("held_replaced", session=session_id, replaced=BY_LATER_VALUE))
        released = len(self.rows(statement, session=session_id, **given))
        self.messages.drop_replaced(replaced)
        return released

    def release_held_by_expired(self, sessions: Sequence[int]) -> Rows:
        """Give back the messages of expired sessions, and of sessions that do not exist.

        Returns session id, id, whether the attempt counts, the attempts, and how many the queue allows.
        """
        return self.rows("release_held_by_expired", sessions=list(sessions))
