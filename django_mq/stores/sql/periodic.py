"""The runs of periodic messages, which end in the transactions of their messages: Django's models do all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from uuid import UUID


class PeriodicRuns(Part):
    def end(self, message_id: UUID, outcome: str) -> None:
        """Write that the message of a tick has left its queue, or has died."""
        self.rows("end_run", message_id=message_id, outcome=outcome)
