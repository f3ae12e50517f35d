"""The volatile lane: rows that nobody may rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.memory.lane import VolatileBinding, VolatileMessage
from django_mq.stores.memory.runner import Runner, locked
from django_mq.stores.values import later

if TYPE_CHECKING:
    from collections.abc import Sequence


class Volatile(Runner):
    """Bind, put, take and drop volatile messages."""

    @locked
    def volatile_bind(
        self,
        *,
        exchange: str,
        exchange_type: str,  # noqa: ARG002 - whoever publishes says how patterns match
        pattern: str,
        queue: str,
        seconds: float,
    ) -> None:
        self.broker.lane.bindings[VolatileBinding(exchange, pattern, queue)] = later(self._now(), seconds)

    @locked
    def volatile_bindings(self, exchange: str) -> list[tuple[str, str]]:
        bound, now = self.broker.lane.bindings.items(), self._now()
        return [(key.pattern, key.queue) for key, end in bound if key.exchange == exchange and end > now]

    @locked
    def volatile_put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        end = later(self._now(), seconds)
        self.broker.lane.messages += [VolatileMessage(queue, payload, end) for queue in queues]

    @locked
    def volatile_take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        return [(item.queue, item.payload) for item in self.broker.lane.take(set(queues), limit, self._now())]

    @locked
    def volatile_drop(self, queue: str) -> int:
        return self.broker.lane.drop(queue)
