"""What takes effect with the commit of a memory store's transaction: one unit of work of the engine."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django_mq.errors import PublishError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.broker import Broker
    from django_mq.engine.work import UnitOfWork


class Transaction:
    """The open transaction of one connection, or none. Hold the broker's lock while it is open."""

    def __init__(self, engine: Broker) -> None:
        self._engine = engine
        #: Messages and settlements that wait for the commit; None outside a transaction.
        self.unit: UnitOfWork | None = None
        #: What to call after the commit.
        self.callbacks: list[Callable[[], None]] = []

    @contextmanager
    def opened(self, now: Callable[[], float]) -> Iterator[None]:
        """Commit at the end, as a part of the transaction around it, if any; roll back what raises.

        Raises QueueDeleted for a message whose queue has gone; nothing takes effect then.
        """
        outer, unit, known = self.unit, self._engine.begin(), len(self.callbacks)
        self.unit = unit
        try:
            yield
        except BaseException:
            unit.rollback(now())
            del self.callbacks[known:]
            raise
        finally:
            self.unit = outer
        if outer is not None:
            outer.absorb(unit)
            return
        try:
            unit.commit(now())
        except PublishError:
            self.callbacks.clear()
            raise

    def committed(self) -> list[Callable[[], None]]:
        """Take out what is to be called now: nothing while a transaction is open."""
        callbacks: list[Callable[[], None]] = []
        if self.unit is None:
            callbacks, self.callbacks = self.callbacks, callbacks
        return callbacks
