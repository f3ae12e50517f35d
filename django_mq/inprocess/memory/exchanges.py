"""Exchanges, and what is bound to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.routing import Route
from django_mq.inprocess.memory.part import Part, locked
from django_mq.stores.subjects import exchanges as subjects

if TYPE_CHECKING:
    from django_mq.engine.decisions.routing import Exchange


class Exchanges(Part, subjects.Exchanges):
    @locked
    def declare(self, name: str, *, exchange_type: str, alternate: str = "") -> bool:
        given = exchange_type, alternate
        return self.broker.exchanges.setdefault(name, given) is given

    @locked
    def find(self, name: str) -> Exchange | None:
        return self.broker.exchange_named(name)

    @locked
    def delete(self, name: str) -> bool:
        broker = self.broker
        broker.bindings = {key: route for key, route in broker.bindings.items() if key[0] != name}
        broker.exchange_bindings = {
            key: route for key, route in broker.exchange_bindings.items() if name not in (key[0], key[2])
        }
        return broker.exchanges.pop(name, None) is not None

    @locked
    def bind(self, *, exchange: str, exchange_type: str, pattern: str, queue: str, selector: str = "") -> None:
        self.broker.existing(queue)
        known = self.broker.bindings.get((exchange, pattern, queue))
        kind = exchange_type if known is None else known.exchange_type
        self.broker.bindings[exchange, pattern, queue] = Route(kind, pattern, queue, selector)

    @locked
    def unbind(self, *, exchange: str, pattern: str, queue: str) -> bool:
        return self.broker.bindings.pop((exchange, pattern, queue), None) is not None

    @locked
    def bindings(self, exchange: str) -> list[Route]:
        return [route for (name, *_), route in self.broker.bindings.items() if name == exchange]

    @locked
    def bind_exchange(self, *, exchange: str, pattern: str, destination: str, selector: str = "") -> None:
        self.broker.exchange_bindings[exchange, pattern, destination] = Route("", pattern, destination, selector)

    @locked
    def unbind_exchange(self, *, exchange: str, pattern: str, destination: str) -> bool:
        return self.broker.exchange_bindings.pop((exchange, pattern, destination), None) is not None
