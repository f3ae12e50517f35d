"""A handle of a broker, and the lock around each of its methods."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from django_mq.stores.base import Store
from django_mq.stores.memory.broker import broker_named
from django_mq.stores.memory.transaction import Transaction
from django_mq.stores.refusals import no_such_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, timedelta

    from django_mq.stores.memory.queue import BrokerQueue

Handle = TypeVar("Handle", bound="Runner")
Params = ParamSpec("Params")
Answer = TypeVar("Answer")


class Runner(Store):
    """The state and the clock; the classes beside it say what they are for."""

    def __init__(self, name: str, *, private: bool = False) -> None:
        self.alias = name
        self.broker = broker_named(name)
        self._transaction = Transaction(self.broker.engine) if private else self.broker.transaction

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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let messages come, and settlements count, at the end or not at all; every other thread is kept out.

        Inside, they are not seen yet. All else takes effect at once, and is not taken back.
        """
        with self.broker.locked():
            with self._transaction.opened(lambda: self._now().timestamp()):
                yield
            callbacks = self._transaction.committed()
        for callback in callbacks:
            callback()

    @property
    def in_transaction(self) -> bool:
        with self.broker.locked():  # or it would be another thread's
            return self._transaction.unit is not None

    def after_commit(self, callback: Callable[[], None]) -> None:
        with self.broker.locked():
            self._transaction.callbacks.append(callback)
            callbacks = self._transaction.committed()
        for each in callbacks:
            each()

    def last_after_commit(self) -> Callable[[], None] | None:
        with self.broker.locked():
            return self._transaction.callbacks[-1] if self._transaction.callbacks else None

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
