"""The results of Django's tasks and of Celery's, which have no queue: Django's models read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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

    def join_chord(self, **columns: Any) -> bool:
        """Write that a member of a chord has ended; return whether it is new."""
        return bool(self.database.insert("join_chord", **columns))
