"""One client that reads several queues on one credit.

A target has one consumer in every queue that it reads. An entry delivered to one of them uses the credit of
all. So when the credit changes in one queue, the others are updated: their consumers stop, and another
consumer there is woken, or they compete again.

All queues of a target must share one lock, which guards the credit.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from django_mq.errors import AlreadySubscribed, MQError
from django_mq.inprocess.consumers.consumer import BLOCKED, NOT_INTERESTED, REMOVED, Consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.decisions.credit import Credit
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue

Found = TypeVar("Found")


def _pulls_unasked(_: "Target") -> None:
    """Do nothing: the target pulls without being woken."""


class Target:
    """Consumers of several queues that share one credit and are served in turn.

    ``wake`` is called with the target when there may be an entry for it in any queue. It is
    called under the queues' lock: it may set an event, and must not call a
    queue or the target. After a wake, the target pulls until it gets None.

    Only one thread at a time may subscribe, pull, pause and close. Entries are settled with
    their queues, from any thread.
    """

    def __init__(
        self, credit: "Credit", *, wake: "Callable[[Target], None]" = _pulls_unasked, name: str = "target"
    ) -> None:
        self.credit = credit
        self.wake = wake
        self.name = name
        self.paused = False
        #: In order of subscription. Replaced, not changed: other threads may iterate over it.
        self._subscriptions: tuple[tuple[Queue, Consumer], ...] = ()
        #: The index of the next queue to ask; 0 also after a complete round.
        self._next = 0

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        return tuple(consumer for _, consumer in self._subscriptions)

    def subscribe(self, queue: "Queue", **options: Any) -> Consumer:
        """Subscribe to another queue; return the target's consumer there.

        ``options`` are those of ``consumer``. Raises as ``read``.
        """
        consumer = self.consumer(options.pop("name", f"{self.name} in {queue.name}"), **options)
        self.read(queue, consumer)
        return consumer

    def consumer(self, name: str, **options: Any) -> Consumer:
        """Return a new consumer that shares this credit, for a call of ``read``.

        ``options`` are those of ``Consumer``, without its credit and ``wake``.
        """
        consumer = Consumer(name, self.credit, wake=self._wake, **options)
        consumer.target, consumer.paused = self, self.paused
        consumer.plain = False  # its deliveries use the others' credit, too
        return consumer

    def read(self, queue: "Queue", consumer: Consumer) -> None:
        """Subscribe a consumer of this target to a queue.

        Raises AlreadySubscribed if the target reads that queue, and the errors of ``Queue.add_consumer``.
        """
        self._forget_departed()
        if any(queue is known for known, _ in self._subscriptions):
            raise AlreadySubscribed
        # Before ``wake`` can be called: a pull that did not know the queue would return None.
        self._subscriptions += ((queue, consumer),)
        try:
            queue.add_consumer(consumer)
        except MQError:
            self._forget_departed()
            raise

    def _wake(self, _: Consumer) -> None:
        self.wake(self)

    def _forget_departed(self) -> None:
        # A queue may have closed its consumer by itself.
        for queue, consumer in self._subscriptions:
            if consumer.interest is REMOVED:
                self._forget(queue)

    def _forget(self, queue: "Queue") -> None:
        at = [known for known, _ in self._subscriptions].index(queue)
        self._subscriptions = self._subscriptions[:at] + self._subscriptions[at + 1 :]
        if at < self._next:
            self._next -= 1

    def unsubscribe(self, queue: "Queue") -> "list[Entry]":
        """Leave a queue; release its entries, and return them in order of delivery; none if it is not read."""
        for known, consumer in self._subscriptions:
            if known is queue:
                self._forget(queue)
                return queue.remove_consumer(consumer)
        return []

    def pull(self, now: float) -> "tuple[Consumer, Entry] | None":
        """Claim one entry of the next queue in turn; None if no queue has one for the target now.

        A pull asks the rest of the round, then every queue once. After a pull that finds nothing, the next one
        begins with the first queue.
        """
        return self.ask(lambda queue, consumer: queue.deliver(consumer, now))

    def ask(self, claim: "Callable[[Queue, Consumer], Found | None]") -> "tuple[Consumer, Found] | None":
        """Call ``claim`` for the queues in turn as ``pull`` does; return the first result and its consumer."""
        for queue, consumer in self._in_turn():
            found = claim(queue, consumer)
            if found is not None:
                return consumer, found
        return None

    def _in_turn(self) -> "Iterator[tuple[Queue, Consumer]]":
        for _ in range(2 if self._next else 1):
            while self._next < len(self._subscriptions):
                self._next += 1
                yield self._subscriptions[self._next - 1]
            self._next = 0

    def credit_changed(self, origin: Consumer | None = None) -> None:
        """Have every queue but ``origin``'s, which has done so, update the interest of its consumer.

        Call it under the queues' lock, as queues do. If you resize the credit, add to it or stop it, hold
        that lock from before the change until this call has returned.
        """
        for queue, consumer in self._subscriptions:
            if consumer is not origin and _is_misplaced(consumer):
                queue.refresh(consumer)

    def pause(self) -> None:
        """Receive nothing until ``resume``; other consumers are served instead."""
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        self.paused = paused
        for queue, consumer in self._subscriptions:
            consumer.paused = paused
            queue.refresh(consumer)

    def close(self) -> "list[Entry]":
        """Leave all queues; release all entries, and return them queue by queue.

        The target may subscribe again, and is not paused then.
        """
        # Pause first, so that the credit from one queue does not wake the consumer in the next.
        self.pause()
        released = [entry for queue, _ in self._subscriptions for entry in self.unsubscribe(queue)]
        self.paused = False
        return released


def _is_misplaced(consumer: Consumer) -> bool:
    """Whether the queue would give the consumer another interest.

    A blocked consumer stays blocked until it has the credit for its entry: woken at every change
    of the credit, it would pull and get nothing.
    """
    if not consumer.desires_work:
        return consumer.interest is not NOT_INTERESTED and consumer.interest is not REMOVED
    if consumer.interest is BLOCKED:
        return consumer.waiting_for is None or consumer.could_take(consumer.waiting_for)
    return consumer.interest is NOT_INTERESTED
