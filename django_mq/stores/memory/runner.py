"""A handle of a broker, and the lock around each of its methods."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from django_mq.stores.base import Store
from django_mq.stores.memory.broker import broker_named
from django_mq.stores.refusals import no_such_queue

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from django_mq.stores.memory.queue import BrokerQueue

Handle = TypeVar("Handle", bound="Runner")
Params = ParamSpec("Params")
Answer = TypeVar("Answer")


class Runner(Store):
    """The state and the clock; the classes beside it say what they are for."""

    def __init__(self, name: str) -> None:
        self.alias = name
        self.broker = broker_named(name)

    @property
    def clock_offset(self) -> timedelta:
        """Added to this machine's clock, for every handle of the broker; only tests set it."""
        return self.broker.clock_offset

    @clock_offset.setter
    def clock_offset(self, offset: timedelta) -> None:
        self.broker.clock_offset = offset

    def _now(self) -> datetime:
        return self.broker.now()

    def _existing(self, name: str) -> BrokerQueue:
        queue = self.broker.queues.get(name)
        if queue is None:
            raise no_such_queue(name)
        return queue

    def transaction(self) -> AbstractContextManager[None]:
        """Keep every other thread out; there is nothing to roll back to."""
        return self.broker.locked()

    def change_marker(self) -> int | None:
        return None

    def now_skew_seconds(self) -> float:
        return self.clock_offset.total_seconds()

    def close(self) -> None:
        """Nothing: the broker stays for the next handle."""


def locked(
    method: Callable[Concatenate[Handle, Params], Answer],
) -> Callable[Concatenate[Handle, Params], Answer]:
    """Run the method with every other thread kept out: what a transaction is elsewhere."""

    @wraps(method)
    def run(self: Handle, /, *args: Params.args, **named: Params.kwargs) -> Answer:
        with self.broker.locked():
            return method(self, *args, **named)

    return run
