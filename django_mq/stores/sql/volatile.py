"""The volatile lane: rows that nobody may rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.sql.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Sequence


class Volatile(Runner):
    """Bind, put, take and drop volatile messages."""

    def volatile_bind(
        self, *, exchange: str, exchange_type: str, pattern: str, queue: str, seconds: float
    ) -> None:
        self._rows(
            "volatile_bind",
            exchange=exchange,
            exchange_type=exchange_type,
            pattern=pattern,
            queue=queue,
            seconds=seconds,
        )

    def volatile_bindings(self, exchange: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows("volatile_bindings", exchange=exchange)]

    def volatile_put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        self._rows("volatile_put", queues=list(queues), payload=payload, seconds=seconds)

    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        rows = self._rows("volatile_take", queues=list(queues), limit=limit)
        return [(queue, payload) for _, queue, payload in sorted(rows)]

    def volatile_drop(self, queue: str) -> int:
        self._rows("volatile_drop_bindings", queue=queue)
        return len(self._rows("volatile_drop_messages", queue=queue))
