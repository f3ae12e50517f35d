"""The environments of scenarios: the engine, or stored queues with the same methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable


class Environment(NamedTuple):
    """How to make a broker, such as the engine's, and the consumers that read its queues.

    ``broker`` is called once for each scenario, with the number of seconds that pass for a
    clock on the wall while one passes for the engine.
    """

    broker: Callable[[float], Any]
    target: Callable[..., Any]
    consumer: Callable[..., Any]
    #: The kind of store that keeps the queues; empty for the engine's own.
    store: str = ""


ENGINE = Environment(lambda _: Broker(), Target, Consumer)
