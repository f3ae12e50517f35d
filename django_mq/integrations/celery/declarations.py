"""Queues and bindings as Kombu declares them, written apart from the caller's transaction.

A queue's row inside a long transaction would hold up every other first publisher, and a
roll-back would take it away while Kombu believes it declared.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django_mq.delivery import validation
from django_mq.delivery.queues import declare
from django_mq.engine.options import QueueOptions
from django_mq.engine.routing import queues_matching
from django_mq.errors import QueueInUse, UnknownQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from django_mq.engine.verdict import Policy
    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord

#: What was read of queues and bindings is believed for so long, in seconds.
REMEMBER_SECONDS = 5.0
#: The size of a queue is counted up to here.
MOST_COUNTED = 1_000_000


class Declarations:
    """What one transport knows of the durable queues."""

    def __init__(self, store: Callable[[], AbstractContextManager[Store]]) -> None:
        self._store = store
        self._queues: dict[str, tuple[float, QueueRecord]] = {}
        self._bindings: dict[str, tuple[float, list[tuple[str, str, str]]]] = {}

    def ensure(self, name: str, *, anew: bool = False, rules: Mapping[str, Any] | None = None) -> None:
        """Create the queue if need be, with these rules; ``anew`` disbelieves what is remembered.

        Raises InvalidMessage for a name that no queue can have.
        """
        if anew:
            self._queues.pop(name, None)
        if self._record(name) is None:
            with self._store() as store:
                declare(store, name, rules)
            self._record(name)

    def exists(self, name: str) -> bool:
        return self._record(name) is not None

    def knows(self, name: str) -> bool:
        """Whether there is such a queue, or was when it was last asked for: seldom a statement."""
        return name in self._queues or self.exists(name)

    def remembered(self, name: str) -> Policy:
        """Return what was last read of a queue, however old, or else the defaults, without asking the database."""
        known = self._queues.get(name)
        return known[1] if known is not None else QueueOptions()

    def refresh(self, names: Iterable[str]) -> None:
        """Read again what is too old to be believed, for ``remembered``."""
        for name in names:
            self._record(name)

    def _record(self, name: str) -> QueueRecord | None:
        known = self._queues.get(name)
        if known is not None and time.monotonic() - known[0] < REMEMBER_SECONDS:
            return known[1]
        # Volatile queues are asked for, too, and their names may be longer.
        validation.text(name, "The name of a queue")
        with self._store() as store:
            record = store.queue(name)
        if record is not None:
            self._queues[name] = (time.monotonic(), record)
        return record

    def delete(self, name: str, *, force: bool) -> int:
        """Delete a queue and return how many messages went with it; one in use or unknown stays as it is."""
        self._queues.pop(name, None)
        with suppress(QueueInUse, UnknownQueue), self._store() as store:
            return store.delete_queue(name, force=force)
        return 0

    def bind(self, queue: str, exchange: str, exchange_type: str, pattern: str) -> None:
        self._bindings.pop(exchange, None)
        self.ensure(queue)
        with self._store() as store:
            store.bind(exchange=exchange, exchange_type=exchange_type, pattern=pattern, queue=queue)

    def unbind(self, queue: str, exchange: str, pattern: str) -> None:
        self._bindings.pop(exchange, None)
        with self._store() as store:
            store.unbind(exchange=exchange, pattern=pattern, queue=queue)

    def bindings(self, exchange: str) -> list[tuple[str, str, str]]:
        """Return (type, pattern, queue) of the exchange's durable bindings."""
        known = self._bindings.get(exchange)
        if known is not None and time.monotonic() - known[0] < REMEMBER_SECONDS:
            return known[1]
        validation.text(exchange, "The name of an exchange")
        with self._store() as store:
            found = store.bindings(exchange)
        self._bindings[exchange] = (time.monotonic(), found)
        return found

    def bound_queues(self, exchange: str, routing_key: str) -> list[str]:
        """Return, each once, the durable queues a message to the exchange goes to."""
        return queues_matching(self.bindings(exchange), routing_key)

    def size(self, name: str) -> int:
        """Return how many messages a worker could be given now, up to a million."""
        with self._store() as store:
            counts = store.counts([name], limit=MOST_COUNTED).get(name)
        return min(counts.deliverable, MOST_COUNTED) if counts else 0

    def purge(self, name: str) -> int:
        """Remove what nobody holds; an unknown queue is empty."""
        with suppress(UnknownQueue), self._store() as store:
            return store.purge(name)
        return 0
