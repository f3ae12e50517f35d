"""What is one statement elsewhere and takes several here: lock, then write.

Each method stands for the statement of its name; ``SEVERAL`` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.stores.mysql.running import Running
from django_mq.stores.sql.ruling import lease_locked

if TYPE_CHECKING:
    from collections.abc import Sequence

#: States of ``models.Message.Status``: scheduled and ready, and whatever nobody holds.
WAITING, UNHELD = [0, 1], [0, 1, 3]

Rows = list[tuple[Any, ...]]


class Acting(Running):
    """Locks rows, writes what follows from them, and answers as the one statement would."""

    def _rows(self, name: str, /, **params: Any) -> Rows:
        if name not in SEVERAL:
            return super()._rows(name, **params)
        with self._transaction():
            rows: Rows = SEVERAL[name](self, **params)
        return rows

    def _locked(self, ids: list[int], states: list[int], reason: str | None = None) -> Rows:
        return self._rows("lock_unheld", ids=ids, states=states, reason=reason) if ids else []

    def remove(self, *, ids: list[int], outcome: int, reason: str | None) -> Rows:
        """Remember, then delete, what nobody holds."""
        found = [row[0] for row in self._locked(ids, UNHELD, reason)]
        return self._finish(found, outcome, "remember_removed")

    def _finish(self, ids: list[int], outcome: int, remember: str) -> Rows:
        if ids:
            self._rows(remember, ids=ids, outcome=outcome)
            self._rows("drop_messages", ids=ids)
        return [(id_,) for id_ in ids]

    def _copied(self, statement: str, ids: Sequence[int], **params: Any) -> Rows:
        """Copy one by one, so that each copy that cannot be written leaves its original alone."""
        gone = [id_ for id_ in ids if self._written(statement, id=id_, **params)]
        if gone:
            self._rows("drop_messages", ids=gone)
        return [(id_,) for id_ in gone]

    def move_to(self, *, ids: list[int], target: str) -> Rows:
        """Move what nobody holds, in delivery order."""
        return self._copied("move", [row[0] for row in self._locked(ids, UNHELD)], target=target)

    def move_dead_on(self, *, ids: list[int], expired: bool) -> Rows:
        """Move dead messages, oldest first."""
        return self._copied("move_dead", sorted(ids), expired=expired)

    def set_aside(self, *, ids: list[int], **reasons: str) -> Rows:
        """Set aside what has expired and waits."""
        found = [row[0] for row in self._locked(ids, WAITING)]
        return super()._rows("set_expired_aside", ids=found, **reasons) if found else []

    def reorder(self, *, ids: list[int], priority: int) -> Rows:
        """Write each anew behind the others of its level."""
        changed = [row[0] for row in self._locked(ids, WAITING) if row[1] != priority]
        if changed:
            for step in ("stand_aside", "prioritise", "drop_messages"):
                super()._rows(step, ids=changed, priority=priority)
        return [(id_,) for id_ in changed]

    def promote_named(self, *, queues: list[str], limit: int) -> Rows:
        """Make due messages of these queues ready."""
        return self._promoted(queues, limit, every=False)

    def promote_every(self, *, limit: int) -> Rows:
        """Make due messages of all queues ready."""
        return self._promoted([], limit, every=True)

    def _promoted(self, queues: list[str], limit: int, *, every: bool) -> Rows:
        promoted: Rows = []
        for (queue_id,) in self._rows("due_queues", queues=queues, every=every):
            due = self._rows("lock_due", queue_id=queue_id, limit=limit)
            if due:
                self._rows("promote", ids=[row[0] for row in due])
            promoted += due
        return promoted

    def release_lapsed(self, *, sessions: list[int]) -> Rows:
        """Give back what lapsed sessions, or none, hold."""
        held = [row[0] for row in self._rows("find_lapsed", sessions=sessions)]
        found = self._rows("lock_lapsed", ids=held, sessions=sessions) if held else []
        if found:
            super()._rows("release_lapsed", ids=[row[1] for row in found])
        return found

    def facts(self, **params: Any) -> Rows:
        """Read whole numbers as such: where signed and unsigned columns meet, they are decimal."""
        found = super()._rows("facts", **params)
        return [(*(number if number is None else int(number) for number in row), word) for *row, word in found]

    def claim_chosen(self, **params: Any) -> Rows:
        """Lock and read messages, then lease them."""
        return lease_locked(super()._rows, **params)

    def drop_queue(self, *, queue: str) -> Rows:
        """Delete the bindings and the duplicate ids, then the queue."""
        self._rows("drop_bindings", queue=queue)
        self._rows("drop_duplicates", queue=queue)
        return super()._rows("drop_queue", queue=queue)

    def record_each(self, *, worker: str, **columns: list[Any]) -> Rows:
        """Remember failed attempts one by one; there are few."""
        names = {"ids": "id", "errors": "error", "details": "detail", "tracebacks": "traceback"}
        for row in zip(*columns.values(), strict=True):
            values = {names.get(name, name): value for name, value in zip(columns, row, strict=True)}
            super()._rows("record_attempts", worker=worker, **values)
        return []

    def put_each(self, *, queues: list[str], payload: str, seconds: float) -> Rows:
        """Leave a copy for each queue."""
        for queue in queues:
            super()._rows("volatile_put", queue=queue, payload=payload, seconds=seconds)
        return []

    def take(self, *, queues: list[str], limit: int) -> Rows:
        """Lock and delete the oldest."""
        taken = super()._rows("volatile_take", queues=queues, limit=limit)
        if taken:
            self._rows("volatile_drop", ids=[row[0] for row in taken])
        return taken


SEVERAL: dict[str, Any] = {
    "remove": Acting.remove,
    "move": Acting.move_to,
    "move_dead": Acting.move_dead_on,
    "set_expired_aside": Acting.set_aside,
    "prioritise": Acting.reorder,
    "promote_due": Acting.promote_named,
    "promote_all": Acting.promote_every,
    "release_lapsed": Acting.release_lapsed,
    "facts": Acting.facts,
    "claim_chosen": Acting.claim_chosen,
    "drop_queue": Acting.drop_queue,
    "record_attempts": Acting.record_each,
    "volatile_put": Acting.put_each,
    "volatile_take": Acting.take,
}
