"""One client that reads several queues on one credit.

A target has one consumer in every queue it reads. What one of them is sent is credit that the
others have no more, so whatever changes the credit in one queue is told to all the others: they
withdraw, and hand over to somebody else there, or they come forward again.

All queues of a target must be made with the same lock, a reentrant one. It guards the credit;
with a lock for each queue two threads could both take the last of it, and two queues that
refresh each other's consumers could wait for each other for ever.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from django_mq.engine.consumer import BLOCKED, NOT_INTERESTED, REMOVED, Consumer
from django_mq.errors import AlreadySubscribed, MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.engine.credit import Credit
    from django_mq.engine.entry import Entry
    from django_mq.engine.queue import Queue

Found = TypeVar("Found")


def _pulls_unasked(_: "Target") -> None:
    """The wake-up of a target that pulls without being told."""


class Target:
    """Consumers of several queues that share one credit and are served in turn.

    ``wake`` is called with the target when there may be something for it in any queue. It is
    called under the queues' lock: it may set an event, and must not call a
    queue or the target. A target that was woken pulls until it is answered None.

    One thread at a time subscribes, pulls, pauses and closes. Entries are settled with the
    queues as ever, from any thread.
    """

    __slots__ = ("_next", "_subscriptions", "credit", "name", "paused", "wake")

    def __init__(
        self, credit: "Credit", *, wake: "Callable[[Target], None]" = _pulls_unasked, name: str = "target"
    ) -> None:
        self.credit = credit
        self.wake = wake
        self.name = name
        self.paused = False
        #: In order of subscription. Replaced, not changed: other threads may be going through it.
        self._subscriptions: tuple[tuple[Queue, Consumer], ...] = ()
        #: Which of them is asked next; 0 also after a complete round.
        self._next = 0

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Its consumers, in order of subscription."""
        return tuple(consumer for _, consumer in self._subscriptions)

    def subscribe(self, queue: "Queue", **options: Any) -> Consumer:
        """Read a queue too; answer the consumer that stands there for this target.

        ``options`` are those of ``consumer``. Raises as ``read``.
        """
        consumer = self.consumer(options.pop("name", f"{self.name} in {queue.name}"), **options)
        self.read(queue, consumer)
        return consumer

    def consumer(self, name: str, **options: Any) -> Consumer:
        """Return a new consumer that shares this credit and is to ``read`` one queue.

        ``options`` are those of a consumer, but for its credit and ``wake``.
        """
        consumer = Consumer(name, self.credit, wake=self._wake, **options)
        consumer.target, consumer.paused = self, self.paused
        consumer.plain = False  # what it is sent concerns the others, too
        return consumer

    def read(self, queue: "Queue", consumer: Consumer) -> None:
        """Read a queue by a consumer of this target.

        Raises AlreadySubscribed if it reads the queue, and whatever the queue's ``add_consumer`` does.
        """
        self._forget_departed()
        if any(queue is known for known, _ in self._subscriptions):
            raise AlreadySubscribed
        # Before it can be woken: a pull that did not know the queue would answer None.
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
        """Read a queue no more; release what came from it, and answer that in order of delivery.

        Answers nothing if the target does not read the queue.
        """
        for known, consumer in self._subscriptions:
            if known is queue:
                self._forget(queue)
                return queue.remove_consumer(consumer)
        return []

    def pull(self, now: float) -> "tuple[Consumer, Entry] | None":
        """Claim one entry of the queue whose turn it is; None if no queue has one for it now.

        The queues are asked in turn, so those with work alternate. A pull asks the rest of the
        round, then every queue once; one that is refused ends there, and the next begins with
        the first queue.
        """
        return self.ask(lambda queue, consumer: queue.deliver(consumer, now))

    def ask(self, claim: "Callable[[Queue, Consumer], Found | None]") -> "tuple[Consumer, Found] | None":
        """Ask the queues in turn as ``pull`` does; answer what ``claim`` finds first, and for which consumer."""
        for queue, consumer in self._in_turn():
            found = claim(queue, consumer)
            if found is not None:
                return consumer, found
        return None

    def _in_turn(self) -> "Iterator[tuple[Queue, Consumer]]":
        if self._next:
            yield from self._rest_of_round()
        yield from self._rest_of_round()

    def _rest_of_round(self) -> "Iterator[tuple[Queue, Consumer]]":
        while self._next < len(self._subscriptions):
            self._next += 1
            yield self._subscriptions[self._next - 1]
        self._next = 0

    def credit_changed(self, origin: Consumer | None = None) -> None:
        """Have every queue sort its consumer in anew, save ``origin``'s, which has done so.

        To be called under the queues' lock. The queues do; whoever resizes the credit, adds to
        it or stops it holds that lock from before until this is done.
        """
        for queue, consumer in self._subscriptions:
            if consumer is not origin and _is_misplaced(consumer):
                queue.refresh(consumer)

    def pause(self) -> None:
        """Be sent nothing more until ``resume``; others are served instead."""
        self._set_paused(True)

    def resume(self) -> None:
        """Be served again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        self.paused = paused
        for queue, consumer in self._subscriptions:
            consumer.paused = paused
            queue.refresh(consumer)

    def close(self) -> "list[Entry]":
        """Read no queue any more; release all it holds, and answer that queue by queue.

        It may subscribe anew, and is not paused then.
        """
        # Paused first, so that credit which one queue gives back wakes nobody in the next.
        self.pause()
        released = [entry for queue, _ in self._subscriptions for entry in self.unsubscribe(queue)]
        self.paused = False
        return released


def _is_misplaced(consumer: Consumer) -> bool:
    """Whether its queue would sort it in elsewhere.

    One stuck at an entry is left there until it can afford that entry: woken for every change
    of the credit it would pull in vain.
    """
    if not consumer.desires_work:
        return consumer.interest is not NOT_INTERESTED and consumer.interest is not REMOVED
    if consumer.interest is BLOCKED:
        return consumer.waiting_for is None or consumer.could_take(consumer.waiting_for)
    return consumer.interest is NOT_INTERESTED
