"""Operations: change messages for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import CANCELLED
from django_mq.stores.subjects import operations as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.leases import Leases
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.moves import Moves


@dataclass(eq=False)
class Operations(Part, subjects.Operations):
    messages: Messages
    moves: Moves
    leases: Leases
    last_values: LastValues

    def move(self, ids: Sequence[int], target: str) -> int:
        return self.moves.move(ids, target)

    def redrive(self, ids: Sequence[int]) -> int:
        return self.moves.redrive(ids)

    def cancel(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            return len(self.messages.remove(ids, CANCELLED))

    def release_held(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            return self.leases.release_messages(ids)

    def deliver_now(self, ids: Sequence[int]) -> int:
        with self.database.transaction():
            names = [row[0] for row in self.rows("value_queues", ids=list(ids))]
            self.last_values.capacities_of(names)  # before any message is locked, as publishers do
            delivered = len(self.rows("deliver_now", ids=list(ids)))
            for name in names:
                self.last_values.let_arrive(name)
        return delivered

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> int:
        return len(self.rows("reschedule", ids=list(ids), deliver_at=deliver_at))

    def prioritise(self, ids: Sequence[int], priority: int) -> int:
        with self.database.transaction():
            return self.messages.prioritise_rows(ids, priority)

    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        if value is None:
            return len(self.rows("remove_header", ids=list(ids), name=name))
        return len(self.rows("set_header", ids=list(ids), name=name, value=value))
