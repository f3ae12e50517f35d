"""What a worker has claimed and not begun, in order, and within the credit of its handlers.

The store has decided what this session holds. Each queue's messages wait here until a thread is free;
credit says how many of them are handled at a time, and how many more to claim.
"""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from django_mq.delivery.executing import Attempt
from django_mq.engine.credit.window import WindowCredit
from django_mq.engine.places import order_of
from django_mq.stores.records import ConsumerInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.delivery.handlers import Handler
    from django_mq.engine.places import Order
    from django_mq.stores.records import Claimed, QueueRecord


class Prefetch:
    """The messages that were claimed of one queue, and its handler. From any thread."""

    def __init__(self, handler: Handler, policy: Callable[[str], QueueRecord]) -> None:
        self.handler = handler
        self.credit = WindowCredit(handler.credit)
        self.delivered = 0
        self._policy = policy
        # A heap. The claim's token tells apart two claims of one row.
        self._waiting: list[tuple[Order, int, Claimed]] = []
        self._lock = threading.Lock()

    def offer(self, message: Claimed) -> None:
        """Take in a claimed message, at its place."""
        item = order_of(message.level, message.place, message.id), message.claim, message
        with self._lock:
            heappush(self._waiting, item)

    def wanted(self) -> int:
        """How many more messages to claim."""
        return max(0, (self.credit.free or 0) - len(self._waiting))

    @property
    def limit(self) -> int:
        """How many messages the handler may hold."""
        return self.credit.messages or 0

    @property
    def refill(self) -> int:
        """How much credit should gather before a claim that no free slot waits for."""
        # Less than half: what was claimed last came while the other half was handled, and the two
        # halves are never quite equal. The smaller one is to be worth a claim, too.
        return max(1, self.limit * 2 // 5)

    def resize(self, credit: int | None) -> None:
        """Let the handler have so much credit from now on, None for its own."""
        with self._lock:
            self.credit.resize(credit or self.handler.credit)

    def urgency(self) -> int:
        """The priority of the first message, -1 if there is none."""
        with self._lock:
            return self._waiting[0][-1].priority if self._waiting else -1

    def next_attempt(self) -> Attempt | None:
        """Give out the first message, if credit allows."""
        with self._lock:
            if not self._waiting or not self.credit.take(len(self._waiting[0][-1].body)):
                return None
            message = heappop(self._waiting)[-1]
            self.delivered += 1
        return Attempt(message, self.handler, self._policy(message.queue_name))

    def finish(self, attempt: Attempt) -> None:
        """Give the credit back: whatever the outcome, the store decides what becomes of the row."""
        with self._lock:
            self.credit.give_back(len(attempt.claimed.body))

    def empty(self) -> list[Claimed]:
        """Take out, and return, what was not begun, in order."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return [message for *_, message in sorted(waiting)]

    def describe(self) -> ConsumerInfo:
        """What the operator sees."""
        used = self.credit.outstanding
        return ConsumerInfo(
            queue_name=self.handler.queue,
            handler=self.handler.name,
            priority=self.handler.priority,
            state="busy" if used >= self.limit else "interested",
            credit_limit=self.limit,
            credit_used=used,
            delivered=self.delivered,
        )


class Dispatcher:
    """What one worker has prefetched of all its queues."""

    def __init__(self, handlers: Iterable[Handler], policy: Callable[[str], QueueRecord]) -> None:
        self._prefetched = {handler.queue: Prefetch(handler, policy) for handler in handlers}
        self._only = next(iter(self._prefetched.values()))
        # In the order of their turns; the dictionary itself is read by any thread.
        self._order = list(self._prefetched.values())
        self._turns = threading.Lock()

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of the handlers."""
        return tuple(self._prefetched)

    def hungry(self) -> dict[str, int]:
        """Return the queues whose handlers have credit, and how much."""
        wanted = {name: prefetch.wanted() for name, prefetch in self._prefetched.items()}
        return {name: amount for name, amount in wanted.items() if amount > 0}

    def refills(self) -> dict[str, int]:
        """Return how much credit of each queue should gather before a claim that no free slot waits for."""
        return {name: prefetch.refill for name, prefetch in self._prefetched.items()}

    def refill_of(self, queue: str) -> int:
        """Return the same of one queue."""
        return self._prefetched[queue].refill

    def offer(self, claimed: Iterable[Claimed]) -> None:
        """Take in what was claimed."""
        for message in claimed:
            self._prefetched[message.queue_name].offer(message)

    def next_attempt(self) -> Attempt | None:
        """Give out the most urgent message that some handler has credit for. From any thread."""
        if len(self._prefetched) == 1:
            return self._only.next_attempt()
        with self._turns:
            for prefetch in sorted(self._order, key=Prefetch.urgency, reverse=True):
                attempt = prefetch.next_attempt()
                if attempt is not None:
                    self._take_turns(prefetch)
                    return attempt
        return None

    def _take_turns(self, served: Prefetch) -> None:
        """Queues with equally urgent heads alternate: the one just served goes to the end."""
        self._order.remove(served)
        self._order.append(served)

    def finish(self, attempt: Attempt) -> None:
        """Give an attempt's credit back."""
        self._prefetched[attempt.claimed.queue_name].finish(attempt)

    def resize(self, credit: int | None) -> None:
        """Give each handler so much credit, None for its own."""
        for prefetch in self._prefetched.values():
            prefetch.resize(credit)

    def credit(self) -> int:
        """Return the credit of all handlers together."""
        return sum(prefetch.limit for prefetch in self._prefetched.values())

    def empty(self) -> list[Claimed]:
        """Take out everything that was not begun."""
        return [claimed for prefetch in self._prefetched.values() for claimed in prefetch.empty()]

    def describe(self) -> tuple[ConsumerInfo, ...]:
        """What the operator sees of all handlers."""
        return tuple(prefetch.describe() for prefetch in self._prefetched.values())
