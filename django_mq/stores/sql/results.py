"""The results of Django's tasks, which have no queue: Django's models read them."""

from __future__ import annotations

from typing import Any

from django_mq.stores.sql.database import Part


class TaskResults(Part):
    def write(self, **columns: Any) -> None:
        self.rows("write_result", **columns)

    def write_removed(self, **columns: Any) -> None:
        """Write the result of a task whose message was removed, unless there is one."""
        self.database.insert("write_result_of_removed", **columns)
