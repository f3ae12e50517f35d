"""Exchanges: declare, read and delete them, and bind queues and other exchanges to them.

The bindings of transient queues, and their messages, are rows that expire after some seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.decisions.routing import Route, exchange_of
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import exchanges as subjects
from django_mq.stores.subjects import volatile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.routing import Exchange
    from django_mq.stores.sql.database import Rows
    from django_mq.stores.sql.queues import Queues


@dataclass(eq=False)
class Exchanges(Part, subjects.Exchanges):
    queues: Queues

    def declare(self, name: str, *, exchange_type: str, alternate: str = "") -> bool:
        given = {"exchange": name, "exchange_type": exchange_type, "alternate": alternate}
        return bool(self.database.insert("declare_exchange", **given))

    def find(self, name: str) -> Exchange | None:
        found: dict[str, list[Route]] = {"exchange": [], "routes": [], "transient": [], "exchanges": []}
        for what, _, *route in self.rows("exchange", exchange=name):
            found[what].append(Route(*route))
        declared = next(((row.exchange_type, row.queue) for row in found["exchange"]), None)
        bound = {what: found[what] for what in ("routes", "transient", "exchanges")}
        return exchange_of(name, declared, **bound)

    def delete(self, name: str) -> bool:
        with self.database.transaction():
            self.rows("drop_exchange_bindings", exchange=name)
            self.rows("drop_routes", exchange=name)
            return bool(self.rows("drop_exchange", exchange=name))

    def bind(self, *, selector: str = "", **binding: str) -> None:
        with self.database.transaction():
            self.queues.existing(binding["queue"])
            self.rows("bind", selector=selector, **binding)

    def unbind(self, **binding: str) -> bool:
        return bool(self.rows("unbind", **binding))

    def bindings(self, exchange: str) -> list[Route]:
        return [Route(*row) for row in self.rows("bindings", exchange=exchange)]

    def bind_exchange(self, *, selector: str = "", **binding: str) -> None:
        self.rows("bind_exchange", selector=selector, **binding)

    def unbind_exchange(self, **binding: str) -> bool:
        return bool(self.rows("unbind_exchange", **binding))


class VolatileMessages(Part, volatile.Volatile):
    """Write, read and delete the bindings and messages of transient queues."""

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
