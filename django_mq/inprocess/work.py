"""Units of work: publications and settlements that take effect together or not at all."""

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from django_mq.errors import IllegalMove, PublishError, QueueDeleted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from django_mq.engine.message import Message
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue


class Phase(Enum):
    """The state of a unit of work."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class UnitOfWork:
    """One unit of work, for one thread.

    A message is admitted when it is published, and enters its queue at the commit. If its delivery time
    has passed by then, it is due at once. An entry that is being settled
    cannot be taken from its consumer, and stays with the unit if the consumer leaves. After a rollback, the
    settled entries have failed, or, with ``holds_on_rollback``, their consumers hold them as before.

    If ``publish`` refuses a message, or a queue is deleted before the commit, the whole unit fails:
    ``commit`` then rolls back and raises the error.
    """

    def __init__(self, lock: "AbstractContextManager[object]", *, holds_on_rollback: bool = False) -> None:
        self._lock = lock
        self._holds_on_rollback = holds_on_rollback
        self.phase = Phase.OPEN
        self._publications: list[tuple[Queue, Message]] = []
        #: The queue, entry, consumer and claim number of each delivery that ends here, and how to settle it.
        self._settlements: list[tuple[Queue, Entry, Consumer, int, Callable[[], object]]] = []
        self._spoiled_by: PublishError | None = None

    def publish(self, queue: "Queue", message: "Message") -> bool:
        """Publish with the commit; False if the message is dropped, as in ``Queue.publish``.

        Raises as ``Queue.publish``; ``commit`` fails then, too.
        """
        self._check_open()
        with self._lock:
            try:
                queue.arrivals.check_ids([message])
                is_welcome = queue.arrivals.admit([message])[0]
            except PublishError as error:
                self._spoiled_by = self._spoiled_by or error
                raise
            if is_welcome:
                self.enter(queue, message)
            return is_welcome

    def enter(self, queue: "Queue", message: "Message") -> None:
        """Add a message, which was admitted or needs no admission, with the commit."""
        with self._lock:
            queue.arrivals.reserve(message)
            self._publications.append((queue, message))

    def entering(self, queue: "Queue") -> "list[Message]":
        """Return the messages that enter a queue with the commit."""
        return [message for known, message in self._publications if known is queue]

    def accept(self, queue: "Queue", entry: "Entry", consumer: "Consumer") -> bool:
        """Accept with the commit; False if the consumer does not hold the entry, or a unit settles it already."""
        return self.settle(queue, entry, consumer, partial(queue.accept, entry, consumer, entry.claim_number))

    def settle(self, queue: "Queue", entry: "Entry", consumer: "Consumer", settle: "Callable[[], object]") -> bool:
        """Call ``settle`` with the commit; False as ``accept``."""
        self._check_open()
        with self._lock:
            if entry in consumer.settling or not queue.begin_settle(entry, consumer):
                return False
            self._settlements.append((queue, entry, consumer, entry.claim_number, settle))
            consumer.settling.add(entry)
            return True

    def absorb(self, unit: "UnitOfWork") -> None:
        """Take over the publications and settlements of another unit."""
        self._publications += unit._publications  # noqa: SLF001 - its own kind
        self._settlements += unit._settlements  # noqa: SLF001

    def commit(self, now: float) -> None:
        """Let everything take effect, settlements first because they make room."""
        self._check_open()
        with self._lock:
            if any(queue.deleted for queue, _ in self._publications):
                self._spoiled_by = self._spoiled_by or QueueDeleted()
            if self._spoiled_by is not None:
                self.rollback(now)
                raise self._spoiled_by
            self.phase = Phase.COMMITTED
            for _, entry, consumer, _, settle in self._settlements:
                consumer.settling.discard(entry)
                settle()
            for queue, message in self._publications:
                queue.arrivals.enter_reserved(message, now)

    def rollback(self, now: float) -> None:
        """Publish nothing; settled entries return to their places as failed, or are held as before."""
        self._check_open()
        with self._lock:
            self.phase = Phase.ROLLED_BACK
            for queue, message in self._publications:
                queue.arrivals.unreserve(message)
            for queue, entry, consumer, claim_number, _ in self._settlements:
                consumer.settling.discard(entry)
                if not self._holds_on_rollback:
                    queue.fail(entry, consumer, claim_number, now=now)

    def _check_open(self) -> None:
        if self.phase is not Phase.OPEN:
            raise IllegalMove(f"The unit of work is {self.phase.value} already; begin another.")
