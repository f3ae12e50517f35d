"""Last values: a newer message of a last-value queue replaces the older one with its key, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.decisions.last_value import BY_LATER_VALUE, is_outdone, replaced
from django_mq.engine.states import CLAIMED, READY
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import REPLACED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.stores.sql.capacities import QueueCapacities, QueueCapacity
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.messages import Messages

#: The most due values that arrive in one transaction.
PROMOTE_LIMIT = 1000


@dataclass(eq=False)
class LastValues(Part):
    """Keep one message of each key, besides those that sessions hold."""

    messages: Messages
    capacities: QueueCapacities

    def capacities_of(self, names: Iterable[str]) -> dict[str, QueueCapacity]:
        """Lock queues that have rules; let last values arrive that are due; return the queues' capacities."""
        return self.capacities.of(names, self.let_arrive)

    def replace(self, capacity: QueueCapacity, keys: Mapping[int, str], *, scheduled: bool = False) -> None:
        """Write the keys of new rows, given in the order of their arrival, and replace older rows.

        ``scheduled``: whether some may be for a later time. These replace others when they are due.
        """
        for id_, key in keys.items():
            self.rows("set_value_key", id=id_, key=key)
        arrived = self._ready(keys) if scheduled and keys else keys
        if self._replace_by(capacity.queue_id, arrived, due=True):
            capacity.exact = False  # there is more room than was counted

    def promote(self, queues: Sequence[str] | None = None) -> int:
        """Let the values arrive that were scheduled and are due, in these queues or in all; return how many.

        Without waiting for publishers: a queue that one has locked is left alone.
        """
        arrived = 0
        for name in {name for name, *_ in self._due(queues)}:
            # One queue at a time: a settlement holds a message of it, and may wait for the lock of another queue.
            with self.database.transaction():
                arrived += sum([self.let_arrive(each.name) for each in self.capacities.free(name)])
        return arrived

    def let_arrive(self, queue: str) -> int:
        """The same in a queue that this transaction has locked."""
        due = self._due([queue])
        if not due:
            return 0
        arrived = self.messages.arrive_again([id_ for _, _, id_ in due])
        self._replace_by(due[0][1], self._ready(arrived), due=False)
        return len(arrived)

    def _due(self, queues: Sequence[str] | None) -> Rows:
        return self.rows("due_values", every=queues is None, queues=list(queues or ()), limit=PROMOTE_LIMIT)

    def _ready(self, ids: Iterable[int]) -> dict[int, str]:
        return {id_: key for id_, _, key in self.rows("values_among", ids=list(ids), state=READY)}

    def _replace_by(self, queue_id: int, keys: Mapping[int, str], *, due: bool) -> int:
        """Let the last row of each key replace older ones; return how many were removed at once.

        ``due``: also those that are due and have not arrived.
        """
        latest = {key: id_ for id_, key in keys.items()}
        return sum([self._replace_older(queue_id, key, newest, due=due) for key, newest in latest.items()])

    def _replace_older(self, queue_id: int, key: str, newest: int, *, due: bool = False) -> int:
        gone, held = replaced(self._others(queue_id, key, newest, due=due))
        if held:
            self.rows("mark_replaced", ids=held, replaced=BY_LATER_VALUE)
        return len(self.messages.remove(gone, REPLACED)) if gone else 0

    def keep_latest(self, ids: Iterable[int]) -> None:
        """Let messages that are ready again replace older ones, or be replaced by a later one."""
        for id_, queue_id, key in self.rows("values_among", ids=list(ids), state=READY):
            if key is None:
                continue
            if self._is_outdone(queue_id, key, id_):
                self.messages.remove([id_], REPLACED)
            else:
                self._replace_older(queue_id, key, id_)

    def mark_outdone(self, ids: Iterable[int]) -> None:
        """Mark messages that sessions hold again, and a later value would have replaced in the meantime."""
        for id_, queue_id, key in self.rows("values_among", ids=list(ids), state=CLAIMED):
            if key is not None and self._is_outdone(queue_id, key, id_):
                self.rows("mark_replaced", ids=[id_], replaced=BY_LATER_VALUE)

    def _is_outdone(self, queue_id: int, key: str, id_: int) -> bool:
        return is_outdone(id_, [other for other, _ in self._others(queue_id, key, id_)])

    def _others(self, queue_id: int, key: str, id_: int, *, due: bool = False) -> Rows:
        """Return the other messages with a key that no later value has replaced, each with its state."""
        given = {"queue_id": queue_id, "key": key, "newest": id_, "due": due}
        return self.rows("older_values", **given, replaced=BY_LATER_VALUE)
