"""The transaction of a store in memory, and its clock."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from django_mq.errors import PublishError
from django_mq.stores.clock import clock
from django_mq.stores.subjects.database import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from django_mq.inprocess.memory.broker import SharedBroker, Transaction
    from django_mq.inprocess.memory.dead_letters import DeadLetters


class MemoryConnection(Connection):
    """The connection of a store to the broker in memory."""

    def __init__(self, broker: SharedBroker, opened: Transaction, dead_letters: DeadLetters) -> None:
        self.alias = broker.name
        self._broker = broker
        self._opened = opened
        self._dead_letters = dead_letters

    @property
    def clock_offset(self) -> timedelta:
        return self._broker.clock_offset

    @clock_offset.setter
    def clock_offset(self, offset: timedelta) -> None:
        self._broker.clock_offset = offset

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit messages and settlements at the end, with the transaction around it; roll back after an error.

        Other threads wait meanwhile. All else takes effect at once. Raises QueueDeleted, and nothing takes
        effect, if the queue of a message was deleted.
        """
        with self._transaction():
            yield
        with self._broker.locked():
            self._dead_letters.send_dropped()
            self._broker.tell_ended()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        opened = self._opened
        with self._broker.locked():
            outer, unit, known = opened.unit, self._broker.inner.begin(), len(opened.callbacks)
            opened.unit = unit
            try:
                yield
            except BaseException:
                unit.rollback(self._broker.now().timestamp())
                del opened.callbacks[known:]
                raise
            finally:
                opened.unit = outer
            if outer is not None:
                outer.absorb(unit)
                return
            try:
                unit.commit(self._broker.now().timestamp())
            except PublishError:
                opened.callbacks.clear()
                raise
            callbacks, opened.callbacks = opened.callbacks, []
        for callback in callbacks:
            callback()

    @property
    def in_transaction(self) -> bool:
        with self._broker.locked():  # or it would be another thread's
            return self._opened.unit is not None

    def after_commit(self, callback: Callable[[], None]) -> None:
        with self._broker.locked():
            if self._opened.unit is not None:
                self._opened.callbacks.append(callback)
                return
        callback()

    def now_skew_seconds(self) -> float:
        return (self.clock_offset + clock.offset).total_seconds()

    def last_after_commit(self) -> Callable[[], None] | None:
        return self._opened.callbacks[-1] if self._opened.callbacks else None

    # There is no connection that could break, or that others have written over.

    def bound_lock_waits(self, seconds: float) -> None:
        pass

    def answering_within(self, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002 - nothing waits
        return nullcontext()

    def disconnect(self) -> bool:
        return False

    def reconnect(self) -> bool:
        return False

    def reconnect_if_ended(self) -> bool:
        return False

    def reset_connection(self) -> bool:
        return False

    def change_marker(self) -> int | None:
        return None
