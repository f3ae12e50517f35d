"""Write, read and delete the bindings and messages of transient queues. Rows expire after some seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import volatile as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.stores.sql.database import Rows


class VolatileMessages(Part, subjects.Volatile):
    def bind(self, **binding: str | float) -> None:
        self.rows("volatile_bind", **binding)

    def bindings(self, exchange: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self.rows("volatile_bindings", exchange=exchange)]

    def put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        self.rows("volatile_put", queues=list(queues), payload=payload, seconds=seconds)

    def take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        return [(queue, payload) for _, queue, payload in sorted(self._taken(list(queues), limit))]

    def _taken(self, queues: list[str], limit: int) -> Rows:
        """Remove the oldest messages; return the id, queue and payload of each."""
        return self.rows("volatile_take", queues=queues, limit=limit)

    def is_waiting(self, queues: Sequence[str]) -> bool:
        return bool(self.rows("volatile_waiting", queues=list(queues)))

    def drop(self, queue: str) -> int:
        self.rows("volatile_drop_bindings", queue=queue)
        return len(self.rows("volatile_drop_messages", queue=queue))
