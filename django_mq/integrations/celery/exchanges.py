"""Exchanges as Kombu declares them: their types, their bindings, and the queues that a message reaches.

The rows tell what an exchange is: most publishers have not declared it, and other processes bind to it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp.exceptions import NotFound, PreconditionFailed
from celery import current_app

from django_mq import conf
from django_mq.delivery import validation
from django_mq.engine.decisions.routing import Exchange, Route, queues_reached
from django_mq.engine.names import NAME_LENGTH
from django_mq.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.decisions.routing import Reached
    from django_mq.engine.message import Message
    from django_mq.integrations.celery.publisher import Committing, Declarations

#: RabbitMQ's argument that names the exchange for messages that no queue takes.
ALTERNATE = "alternate-exchange"
#: The types that an exchange can have.
TYPES = ("direct", "topic", "fanout", "headers")
#: How long a publisher of events remembers their exchange, in seconds: there are many events. Other exchanges are
#: read each time, because a queue may have been bound a moment ago.
REMEMBER_SECONDS = 0.5
#: How long what was written here is not read over the connection of the caller's transaction, in seconds.
FRESH_SECONDS = 5.0


class ExchangeTable:
    """The exchanges that one transport uses, written apart from the caller's transaction."""

    def __init__(self, committing: Committing, declarations: Declarations) -> None:
        self._store = committing
        self._reading = committing.reading
        self._declarations = declarations
        #: By name, the type and the alternate exchange of the exchanges that were declared here.
        self.declared: dict[str, tuple[str, str]] = {}
        self._known: dict[str, tuple[float, Exchange | None]] = {}
        # When an exchange or a binding of it was written here last.
        self._written: dict[str, float] = {}

    def declare(self, name: str, kind: str, alternate: str = "") -> None:
        """Create the exchange unless it exists.

        Raises ConfigurationError for an unknown type, and PreconditionFailed if the exchange has another type or
        another alternate exchange.
        """
        check_name(name)
        if kind not in TYPES:
            raise ConfigurationError(
                f"Exchange {name!r} has the type {shown(kind)}; use one of {', '.join(TYPES)}."
            )
        if alternate:
            check_name(alternate)
        with self._store() as store:
            known = store.exchange(name)
            if known is None or not known.is_declared:
                store.declare_exchange(name, exchange_type=kind, alternate=alternate)
                known = Exchange(name, kind, alternate=alternate)
                self.note_change(name)
        self.declared[name] = known.type, known.alternate
        for what, given, current in (("type", kind, known.type), (ALTERNATE, alternate, known.alternate)):
            if given != current:
                raise PreconditionFailed(
                    f"PRECONDITION_FAILED - inequivalent arg {what!r} for exchange {name!r}: received "
                    f"{given!r} but current is {current!r}. Delete the exchange to change it.",
                    (40, 10),
                    "Exchange.declare",
                )

    def find(self, name: str, *, inside: bool = False) -> Exchange | None:
        """Return an exchange, or None if there is none. That of events may be as it was a moment ago.

        It may be read ``inside`` the caller's transaction, which may be broken.
        """
        known = self._known.get(name)
        now = time.monotonic()
        if known is not None and now - known[0] < REMEMBER_SECONDS:
            return known[1]
        check_name(name)
        # The caller's transaction may see the tables as they were before.
        inside = inside and now - self._written.get(name, -FRESH_SECONDS) >= FRESH_SECONDS
        with self._reading() if inside else self._store() as store:
            found = store.exchange(name)
        if name == current_app.conf.event_exchange:
            self._known[name] = (now, found)
        return found

    def type_of(self, name: str, method: str) -> str:
        """Return the type of an exchange. Raises NotFound, as a reply to the method."""
        if name in self.declared:
            return self.declared[name][0]
        found = self.find(name)
        if found is None:
            raise not_found(name, method)
        return found.type

    def note_change(self, name: str) -> None:
        """Note that the exchange or a binding of it was written."""
        self._known.pop(name, None)
        self._written[name] = time.monotonic()

    def delete(self, name: str) -> None:
        """Delete an exchange and its durable bindings."""
        self.note_change(name)
        self.declared.pop(name, None)
        with self._store() as store:
            store.delete_exchange(name)

    def bind(self, destination: str, source: str, routing_key: str, selector: str) -> None:
        """Let the source pass messages on to the destination."""
        self.note_change(source)
        with self._store() as store:
            store.bind_exchange(exchange=source, pattern=routing_key, destination=destination, selector=selector)

    def unbind(self, destination: str, source: str, routing_key: str) -> None:
        self.note_change(source)
        with self._store() as store:
            store.unbind_exchange(exchange=source, pattern=routing_key, destination=destination)

    def reached(
        self, name: str, routing_key: str, message: Callable[[], Message], *, inside: bool
    ) -> Reached | None:
        """Return the queues that a message goes to, or None if the exchange does not exist."""
        find = partial(self._with_default, routing_key=routing_key, inside=inside)
        exchange = find(name)
        if exchange is None and name in self.declared:
            self.declare(name, *self.declared[name])  # Kombu does not, after the tables were emptied
            exchange = find(name)
        return None if exchange is None else queues_reached(exchange, routing_key, message, find)

    def _with_default(self, name: str, *, routing_key: str, inside: bool) -> Exchange | None:
        """Return an exchange with the default binding of a queue of the same name, which has no row."""
        exchange = self.find(name, inside=inside)
        if name != routing_key or not (exchange is None or exchange.type == "direct"):
            return exchange
        if not self._is_expected(name):
            return exchange
        exchange = exchange or Exchange(name, "direct", is_declared=False)
        others = tuple(route for route in exchange.routes if route.queue != name)
        return exchange._replace(routes=(*others, Route("direct", name, name)))

    def _is_expected(self, queue: str) -> bool:
        """Whether the queue exists, or the settings or the Celery app have it: its first use creates it."""
        return self._declarations.knows(queue) or queue in conf.load().QUEUES or queue in current_app.amqp.queues


def check_name(name: Any) -> None:
    """Raise InvalidMessage if no exchange can have this name."""
    validation.text(name, "The name of an exchange", limit=NAME_LENGTH)


#: AMQP's numbers of the methods that fail without their exchange.
METHODS = {
    "Basic.publish": (60, 40),
    "Exchange.bind": (40, 30),
    "Exchange.declare": (40, 10),
    "Queue.bind": (50, 20),
}


def not_found(exchange: str, method: str) -> NotFound:
    """Return the error that an AMQP broker raises for an exchange that was not declared."""
    reply = f"NOT_FOUND - no exchange {exchange!r}. Declare it, or bind a queue to it."
    return NotFound(reply, METHODS[method], method)
