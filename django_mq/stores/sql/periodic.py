"""The runs of periodic messages, which end in the transactions of their messages: Django's models do all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.sql.database import Part

if TYPE_CHECKING:
    from uuid import UUID


class PeriodicRuns(Part):
    def end(self, message_id: UUID, outcome: str, queue: str, *, has_run: bool) -> None:
        """Write that the message of a tick has left this queue, or has died in it.

        ``has_run`` says that a worker has ended it. A run that has ended before has another outcome only so.
        """
        self.rows("end_run", message_id=message_id, outcome=outcome, queue=queue, has_run=has_run)
