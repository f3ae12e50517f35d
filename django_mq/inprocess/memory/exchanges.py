"""Exchanges, and their bindings to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.routing import Route, exchange_of
from django_mq.inprocess.memory.broker import Part

if TYPE_CHECKING:
    from django_mq.engine.decisions.routing import Exchange


class Exchanges(Part):
    def declare_exchange(self, name: str, *, exchange_type: str, alternate: str = "") -> bool:
        given = exchange_type, alternate
        return self.broker.exchanges.setdefault(name, given) is given

    def exchange(self, name: str) -> Exchange | None:
        now = self.broker.now()
        return exchange_of(
            name,
            self.broker.exchanges.get(name),
            routes=[route for (exchange, *_), route in self.broker.bindings.items() if exchange == name],
            transient=[
                Route(kind, pattern, queue)
                for (exchange, pattern, queue), (kind, end) in self.broker.volatile_bindings.items()
                if exchange == name and end > now
            ],
            exchanges=[
                route for (exchange, *_), route in self.broker.exchange_bindings.items() if exchange == name
            ],
        )

    def delete_exchange(self, name: str) -> bool:
        broker = self.broker
        broker.bindings = {key: route for key, route in broker.bindings.items() if key[0] != name}
        broker.exchange_bindings = {
            key: route for key, route in broker.exchange_bindings.items() if name not in (key[0], key[2])
        }
        return broker.exchanges.pop(name, None) is not None

    def bind_exchange(self, *, exchange: str, pattern: str, destination: str, selector: str = "") -> None:
        self.broker.exchange_bindings[exchange, pattern, destination] = Route("", pattern, destination, selector)

    def unbind_exchange(self, *, exchange: str, pattern: str, destination: str) -> bool:
        return self.broker.exchange_bindings.pop((exchange, pattern, destination), None) is not None
