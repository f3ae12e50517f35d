"""Queues by name, and the moves of messages between them."""

from collections.abc import Iterator
from threading import RLock
from typing import TYPE_CHECKING

from django_mq.errors import QueueInUse, UnknownQueue
from django_mq.inprocess.parts.state import ArrivalNumbers
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import IN_PROCESS, QueuePolicy, Rules
from django_mq.inprocess.work import UnitOfWork

if TYPE_CHECKING:
    from django_mq.inprocess.entries.contents import EntryListener


class Broker:
    """A complete broker in one process, without persistence.

    Its queues share one lock, so that a message that moves is always in exactly one of them.
    """

    def __init__(self, policy: QueuePolicy = IN_PROCESS, listener: "EntryListener | None" = None) -> None:
        """With a ``listener``, arrivals are numbered over all queues."""
        self.lock = RLock()
        self._policy = policy
        self._listener = listener
        self._numbers = None if listener is None else ArrivalNumbers()
        self._queues: dict[str, Queue] = {}

    def declare(self, name: str, rules: Rules | None = None) -> Queue:
        """Return the queue of that name, creating it if needed; with ``rules``, it uses these from now on."""
        with self.lock:
            queue = self._find(name)
            if queue is None:
                queue = self._queues[name] = Queue(
                    name,
                    rules or Rules(),
                    lock=self.lock,
                    resolve=self._find,
                    policy=self._policy,
                    numbers=self._numbers,
                    listener=self._listener,
                )
            elif rules is not None:
                queue.control.change(rules)
            return queue

    def queue(self, name: str) -> Queue:
        """Return the queue of that name; raises UnknownQueue."""
        queue = self._find(name)
        if queue is None:
            raise UnknownQueue(f"There is no queue {name!r}; declare it first.")
        return queue

    def _find(self, name: str) -> Queue | None:
        queue = self._queues.get(name)
        return None if queue is None or queue.deleted else queue

    def __iter__(self) -> Iterator[Queue]:
        with self.lock:
            return iter([queue for queue in self._queues.values() if not queue.deleted])

    def delete(self, name: str, now: float) -> None:
        """Delete a queue, as ``Control.delete``.

        Raises QueueInUse if it is the dead-letter or expiry queue of another.
        """
        with self.lock:
            queue = self.queue(name)
            for other in self:
                if other is not queue and name in (other.rules.dead_letter_queue, other.rules.expiry_queue):
                    raise QueueInUse(f"The queue {name!r} is the dead-letter or expiry queue of {other.name!r}.")
            queue.control.delete(now)
            self.forget_deleted()

    def forget(self) -> None:
        """Forget all queues; their consumers are not closed."""
        with self.lock:
            self._queues.clear()

    def begin(self) -> UnitOfWork:
        """Return a new unit of work over these queues."""
        return UnitOfWork(self.lock, holds_on_rollback=self._policy.holds_on_rollback)

    def forget_deleted(self) -> None:
        """Forget the deleted queues; ``auto_delete`` deletes some without a call of ``delete``."""
        with self.lock:
            self._queues = {name: queue for name, queue in self._queues.items() if not queue.deleted}

    def keep_house(self, now: float) -> None:
        """Promote, expire and unhold entries in every queue."""
        self.forget_deleted()
        for queue in self:
            queue.keep_house(now)

    def next_time(self) -> float | None:
        """Return when to call ``keep_house`` next; None if nothing will become due or expire."""
        return min((when for queue in self if (when := queue.next_time()) is not None), default=None)
