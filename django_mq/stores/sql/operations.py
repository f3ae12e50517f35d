"""Operations: change messages for operators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django_mq.engine.decisions.ends import End
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import CANCELLED, stayed
from django_mq.stores.subjects import operations as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django_mq.stores.records import Moved
    from django_mq.stores.sql.ends import Ends
    from django_mq.stores.sql.fairness import FairPlaces
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.moves import Moves


@dataclass(eq=False)
class Operations(Part, subjects.Operations):
    messages: Messages
    moves: Moves
    last_values: LastValues
    fairness: FairPlaces
    ends: Ends

    def move(self, ids: Sequence[int], target: str) -> list[Moved]:
        return self.moves.move(ids, target)

    def redrive(self, ids: Sequence[int]) -> list[Moved]:
        return self.moves.redrive(ids)

    def cancel(self, ids: Sequence[int]) -> list[int]:
        with self.database.transaction():
            return self.messages.remove(ids, CANCELLED)

    def release_held(self, ids: Sequence[int]) -> list[Moved]:
        with self.database.transaction():
            changed = self.ends.after(ids, End.GIVEN_BACK, partial(self.messages.changed, "release_held", ids))
            released = stayed(self.messages.standing(changed))
            gone = set(self.messages.drop_replaced(ids))
        return [each._replace(new_id=None) if each.id in gone else each for each in released]

    def deliver_now(self, ids: Sequence[int]) -> list[Moved]:
        with self.database.transaction():
            names = [row[0] for row in self.rows("value_queues", ids=list(ids))]
            self.last_values.capacities_of(names)  # before any message is locked, as publishers do
            freed = self.messages.changed("free_chosen", ids)
            before = self.messages.standing([*self.messages.changed("deliver_now", ids), *freed])
            self.fairness.place_moved([each for each in stayed(before) if each.id not in freed])
            for name in names:
                self.last_values.let_arrive(name)
            return self.messages.moved(before) if names else stayed(before)

    def reschedule(self, ids: Sequence[int], deliver_at: datetime) -> list[Moved]:
        with self.database.transaction():
            self.messages.changed("free_chosen", ids)
            changed = self.messages.changed("reschedule", ids, deliver_at=deliver_at)
            moved = stayed(self.messages.standing(changed))
            self.fairness.place_moved(moved)
        return moved

    def prioritise(self, ids: Sequence[int], priority: int) -> list[Moved]:
        with self.database.transaction():
            self.messages.changed("free_chosen", ids)
            moved = self.messages.prioritise_rows(ids, priority)
            self.fairness.place_moved(moved)
        return moved

    def set_header(self, ids: Sequence[int], name: str, value: int | None) -> int:
        if value is None:
            return len(self.rows("remove_header", ids=list(ids), name=name))
        return len(self.rows("set_header", ids=list(ids), name=name, value=value))
