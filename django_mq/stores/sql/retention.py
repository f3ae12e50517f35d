"""Retention: delete what is old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.stores.records import time_of
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import maintenance as subjects

if TYPE_CHECKING:
    from django_mq.stores.sql.fairness import FairPlaces


@dataclass(eq=False)
class Retention(Part, subjects.Retention):
    fairness: FairPlaces

    def prune(self, limit: int = 5000, *, whole: bool = False) -> int:
        history = len(self.rows("prune_history", limit=limit, whole=whole))
        self.rows("prune_declined", limit=limit)
        self.rows("prune_stops", limit=limit)
        self.fairness.prune(limit)
        past = ("prune_attempts", "prune_task_results")
        names = (*past, "prune_volatile_messages", "prune_volatile_bindings")
        return history + sum(len(self.rows(name, limit=limit)) for name in names) + self._prune_duplicates(limit)

    def _prune_duplicates(self, limit: int) -> int:
        """Forget duplicate ids that are too old, or too many for their queue."""
        pruned = 0
        for queue_id, count, seconds in self.rows("duplicate_windows"):
            horizon = self.rows("duplicate_horizon", queue_id=queue_id, kept=count - 1) if count else []
            window = {"horizon": time_of(horizon[0][0]) if horizon else None, "seconds": seconds}
            if window != {"horizon": None, "seconds": None}:
                pruned += len(self.rows("prune_duplicates", queue_id=queue_id, limit=limit, **window))
        return pruned
