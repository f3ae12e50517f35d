"""Queues by name, and what leads from one to another."""

from collections.abc import Iterator
from threading import RLock

from django_mq.engine.queue import Queue
from django_mq.engine.rules import Rules
from django_mq.engine.work import UnitOfWork
from django_mq.errors import QueueInUse, UnknownQueue


class Broker:
    """A complete broker in one process: nothing of it outlives the process.

    Its queues share one lock, so that a message is never in two of them, nor in none.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._queues: dict[str, Queue] = {}

    def declare(self, name: str, rules: Rules | None = None) -> Queue:
        """The queue of that name, made if there is none; other rules are followed from now on."""
        with self.lock:
            queue = self._find(name)
            if queue is None:
                queue = self._queues[name] = Queue(name, rules or Rules(), lock=self.lock, resolve=self._find)
            elif rules is not None:
                queue.change(rules)
            return queue

    def queue(self, name: str) -> Queue:
        """The queue of that name; raises UnknownQueue."""
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
        """Delete a queue, as ``Queue.delete``. Raises QueueInUse while another sends messages to it."""
        with self.lock:
            queue = self.queue(name)
            for other in self:
                if other is not queue and name in (other.rules.dead_letter_queue, other.rules.expiry_queue):
                    raise QueueInUse(f"The queue {name!r} is the dead-letter or expiry queue of {other.name!r}.")
            queue.delete(now)

    def begin(self) -> UnitOfWork:
        """A new unit of work over these queues."""
        return UnitOfWork(self.lock)

    def keep_house(self, now: float) -> None:
        """Do in every queue what time has brought."""
        with self.lock:
            self._queues = {name: queue for name, queue in self._queues.items() if not queue.deleted}
        for queue in self:
            queue.keep_house(now)

    def next_time(self) -> float | None:
        """When to keep house next; None if nothing will happen by itself."""
        return min((when for queue in self if (when := queue.next_time()) is not None), default=None)
