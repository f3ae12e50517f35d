"""Transient queues: bindings and messages that may be lost."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from django_mq.inprocess.memory.part import Part, locked
from django_mq.stores.records import later
from django_mq.stores.subjects import volatile as subjects

if TYPE_CHECKING:
    from collections.abc import Sequence


class VolatileMessages(Part, subjects.Volatile):
    @locked
    def bind(
        self,
        *,
        exchange: str,
        exchange_type: str,
        pattern: str,
        queue: str,
        seconds: float,
    ) -> None:
        end = later(self.broker.now(), seconds)
        self.broker.volatile_bindings[exchange, pattern, queue] = exchange_type, end

    @locked
    def bindings(self, exchange: str) -> list[tuple[str, str]]:
        bound, now = self.broker.volatile_bindings.items(), self.broker.now()
        return [(pattern, queue) for (name, pattern, queue), (_, end) in bound if name == exchange and end > now]

    @locked
    def put(self, queues: Sequence[str], payload: str, *, seconds: float) -> None:
        end = later(self.broker.now(), seconds)
        self.broker.volatile_messages += [(queue, payload, end) for queue in queues]

    @locked
    def take(self, queues: Sequence[str], *, limit: int = 100) -> list[tuple[str, str]]:
        messages, now, wanted = self.broker.volatile_messages, self.broker.now(), set(queues)
        living = (at for at, (queue, _, end) in enumerate(messages) if queue in wanted and end > now)
        taken = [messages.pop(at) for at in reversed(list(islice(living, limit)))]
        return [(queue, payload) for queue, payload, _ in reversed(taken)]

    @locked
    def is_waiting(self, queues: Sequence[str]) -> bool:
        now = self.broker.now()
        return any(queue in queues and end > now for queue, _, end in self.broker.volatile_messages)

    @locked
    def drop(self, queue: str) -> int:
        bindings, messages = self.broker.volatile_bindings, self.broker.volatile_messages
        self.broker.volatile_bindings = {key: kept for key, kept in bindings.items() if key[2] != queue}
        self.broker.volatile_messages = [item for item in messages if item[0] != queue]
        return len(messages) - len(self.broker.volatile_messages)
