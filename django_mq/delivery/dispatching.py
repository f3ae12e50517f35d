"""Claimed messages through the engine's window to the pool, best first.

The store has decided what this session holds; the engine orders it, keeps each consumer
within its credit, and says how much more to claim.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING

from django_mq.delivery.executing import Attempt
from django_mq.engine.consumer import Consumer
from django_mq.engine.credit.window import WindowCredit
from django_mq.engine.entry import Entry
from django_mq.engine.message import Message
from django_mq.engine.queue import Queue
from django_mq.stores.records import ConsumerInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.delivery.handlers import Handler
    from django_mq.stores.records import Claimed, QueueRecord

#: Entries of a window never expire or become due: the store has seen to that.
NOW = 0.0


@cache
def _as_told(priority: int) -> Message:
    """Return the message as the engine is told of it: all that counts here is in the entry and its receipt."""
    return Message(id=f"any of priority {priority}", priority=priority)


class Window:
    """One queue's claimed messages and the consumer they are for."""

    def __init__(self, handler: Handler, policy: Callable[[], QueueRecord]) -> None:
        self.handler = handler
        self.policy = policy
        self.credit = handler.credit
        self.queue = Queue(handler.queue)
        self.consumer = Consumer(handler.name, WindowCredit(handler.credit))
        self.queue.add_consumer(self.consumer)
        self.delivered = 0

    def offer(self, claimed: Claimed) -> None:
        """Take in a claimed message, at its place."""
        message = _as_told(claimed.priority)
        entry = Entry(message, level=claimed.level, place=claimed.place, arrival=claimed.id, receipt=claimed)
        self.queue.offer(entry)

    def wanted(self) -> int:
        """How many more messages to claim."""
        return self.queue.wanted(self.credit)

    @property
    def refill(self) -> int:
        """How much credit should gather before a claim that no free slot waits for."""
        # Less than half: what was claimed last came while the other half was handled, and the two
        # halves are never quite equal. The smaller one is to be worth a claim, too.
        return max(1, self.credit * 2 // 5)

    def limit(self, credit: int | None) -> None:
        """Let the consumer have so much credit from now on, None for its own."""
        self.credit = credit or self.handler.credit
        with self.queue.lock:  # a slot must not take credit meanwhile
            self.consumer.credit.resize(self.credit)
            self.queue.refresh(self.consumer)

    def urgency(self) -> int:
        """The priority of the first message, -1 if there is none."""
        first = next(self.queue.browse(), None)
        return -1 if first is None else first.message.priority

    def next_attempt(self) -> Attempt | None:
        """Deliver the first message, if credit allows."""
        entry = self.queue.deliver(self.consumer, NOW)
        if entry is None:
            return None
        claimed: Claimed = entry.receipt  # type: ignore[assignment]
        attempt = Attempt(claimed, self.handler, self.policy())
        attempt.receipt = entry
        self.delivered += 1
        return attempt

    def finish(self, attempt: Attempt) -> None:
        """Give the credit back: whatever the outcome, the store decides what becomes of the row."""
        self.queue.accept(attempt.receipt, self.consumer)  # type: ignore[arg-type]

    def empty(self) -> list[Claimed]:
        """Take out, and return, what was never delivered."""
        return [entry.receipt for entry in self.queue.purge()]  # type: ignore[misc]

    def describe(self) -> ConsumerInfo:
        """What the operator sees."""
        used = len(self.consumer.unsettled)
        return ConsumerInfo(
            queue_name=self.handler.queue,
            handler=self.handler.name,
            priority=self.handler.priority,
            state="busy" if used >= self.credit else "interested",
            credit_limit=self.credit,
            credit_used=used,
            delivered=self.delivered,
        )


class Dispatcher:
    """The windows of one worker."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self.windows = {window.handler.queue: window for window in windows}
        self._only = next(iter(self.windows.values()))
        # The windows in the order of their turns; the dictionary itself is read by any thread.
        self._order = list(self.windows.values())
        self._turns = threading.Lock()

    def hungry(self) -> dict[str, int]:
        """Return the queues whose consumers have credit, and how much."""
        wanted = {name: window.wanted() for name, window in self.windows.items()}
        return {name: amount for name, amount in wanted.items() if amount > 0}

    def refills(self) -> dict[str, int]:
        """Return how much credit of each queue should gather before a claim that no free slot waits for."""
        return {name: window.refill for name, window in self.windows.items()}

    def offer(self, claimed: Iterable[Claimed]) -> None:
        """Take in what was claimed."""
        for message in claimed:
            self.windows[message.queue_name].offer(message)

    def next_attempt(self) -> Attempt | None:
        """Deliver the most urgent message that some consumer has credit for. From any thread."""
        if len(self.windows) == 1:
            return self._only.next_attempt()
        with self._turns:
            for window in sorted(self._order, key=Window.urgency, reverse=True):
                attempt = window.next_attempt()
                if attempt is not None:
                    self._take_turns(window)
                    return attempt
        return None

    def _take_turns(self, served: Window) -> None:
        """Queues with equally urgent heads alternate: the one just served goes to the end."""
        self._order.remove(served)
        self._order.append(served)

    def finish(self, attempt: Attempt) -> None:
        """Give an attempt's credit back."""
        self.windows[attempt.claimed.queue_name].finish(attempt)

    def limit(self, credit: int | None) -> None:
        """Give each consumer so much credit, None for its own."""
        for window in self.windows.values():
            window.limit(credit)

    def credit(self) -> int:
        """Return the credit of all consumers together."""
        return sum(window.credit for window in list(self.windows.values()))

    def empty(self) -> list[Claimed]:
        """Take out everything that was never delivered."""
        return [claimed for window in self.windows.values() for claimed in window.empty()]

    def describe(self) -> tuple[ConsumerInfo, ...]:
        """What the operator sees of all consumers."""
        return tuple(window.describe() for window in self.windows.values())
