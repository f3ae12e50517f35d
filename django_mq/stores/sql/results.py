"""The results of Django's tasks and of Celery's, which have no queue: Django's models read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class NotCountedError(Exception):
    """The member was not counted, or must be counted in another way: nothing is written."""


class TaskResults(Part):
    def write(self, **columns: Any) -> None:
        self.rows("write_result", **columns)

    def write_many(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the outcomes of attempts of different tasks, or none of them."""
        with self.database.transaction():
            for columns in rows:
                self.write(**columns)

    def write_removed(self, **columns: Any) -> None:
        """Write the result of a task whose message was removed, unless there is one."""
        self.database.insert("write_result_of_removed", **columns)

    def store(self, **columns: Any) -> None:
        """Write the state of a Celery task, unless it has succeeded before."""
        self.rows("store_result", **columns)

    def find(self, task_id: str, now: datetime) -> tuple[Any, ...] | None:
        """Return the columns of ``result_columns`` of a Celery task; None if there is no result any more."""
        rows = self.rows("find_result", task_id=task_id, now=now)
        return rows[0] if rows else None

    def join_chord(self, **columns: Any) -> bool:
        """Write that a member of a chord has ended; return whether it is new."""
        return bool(self.database.insert("join_chord", **columns))

    def store_and_count(
        self, result: Mapping[str, Any], *, is_kept: bool, member: Mapping[str, Any], keep_until: datetime
    ) -> bool:
        """Count a member of a chord, and write its result if it is kept, in one transaction.

        Return whether that was done. Nothing is written for a member that was counted before or that ends its
        chord, or if the chord is over, is not known, or expires before ``keep_until``.
        """
        chord = {"group_id": member["group_id"], "keep_until": keep_until}
        try:
            with self.database.transaction():
                if is_kept:
                    self.store(**result)
                if not self.rows("lock_chord", **chord) or not self.join_chord(**member):
                    raise NotCountedError  # noqa: TRY301 - the transaction ends with it
                self.rows("count_member", group_id=member["group_id"])
        except NotCountedError:
            return False
        return True

    def count_lost(self, member: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Count a member whose message has ended without it, in the open transaction; return the chord's count.

        None if the member was counted before, or if the chord is over, or not known.
        """
        chord = {"group_id": member["group_id"]}
        if not self.rows("lock_known_chord", **chord) or not self.join_chord(**member):
            return None
        self.rows("count_lost", **chord)
        [count] = self.rows("chord_count", **chord)
        return count

    def add_roster(self, group_id: str, members: str) -> None:
        """Keep members of a chord that are published."""
        self.rows("add_roster", group_id=group_id, members=members)

    def end_later(self, group_id: str) -> None:
        """Let a worker end a chord after the commit."""
        self.rows("end_chord_later", group_id=group_id)
