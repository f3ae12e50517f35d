"""A trace through the engine, on a clock that jumps from event to event.

There are two kinds of event: a message arrives, or a consumer is done with one. After
each, consumers pull as workers do: as long as they have credit and the queue has
something. A consumer works on what it holds in the order in which it was given it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from django_mq.engine.consumer import Consumer
from django_mq.engine.credit import WindowCredit
from django_mq.engine.message import Message
from django_mq.engine.queue import Queue
from django_mq.engine.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.engine.entry import Entry
    from django_mq.pipeline.whatif.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message of a trace: when it came, how urgent it was, how long it took. In seconds."""

    at: float
    priority: int
    service: float


@dataclass(slots=True)
class Worker:
    """A consumer, and what it has been given and has not begun."""

    consumer: Consumer
    held: deque[Entry] = field(default_factory=deque)
    at_work: Entry | None = None


def simulate(trace: Sequence[Arrival], scenario: Scenario) -> list[float]:
    """Return how long each message of the trace waited for its work to begin, in the trace's order.

    The trace is in the order of arrival.
    """
    return Simulation(trace, scenario).run()


class Simulation:
    """One run."""

    def __init__(self, trace: Sequence[Arrival], scenario: Scenario) -> None:
        self.trace = trace
        self.scenario = scenario
        self.queue = Queue("simulated", Rules(kind=scenario.kind, levels=scenario.levels, duplicates=0))
        self.waits = [0.0] * len(trace)
        self.workers = [Worker(Consumer(str(n), WindowCredit(scenario.credit))) for n in range(scenario.consumers)]
        for worker in self.workers:
            self.queue.add_consumer(worker.consumer)
        #: Consumers with credit, the longest idle first: each is there once for each message it may take.
        self.free: deque[Worker] = deque(worker for _ in range(scenario.credit) for worker in self.workers)
        #: (when, number, worker) of work that ends; the number settles ties.
        self.ends: list[tuple[float, int, Worker]] = []
        self._number = 0

    def run(self) -> list[float]:
        """Go through all events."""
        for number, arrival in enumerate(self.trace):
            now = self._arrives(arrival)
            self._finish_until(now)
            self.queue.publish(Message(id=str(number), body=number, priority=arrival.priority), now=now)
            self._deliver(now)
        self._finish_until(float("inf"))
        return self.waits

    def _arrives(self, arrival: Arrival) -> float:
        return arrival.at / self.scenario.arrivals

    def _finish_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            at, _, worker = heappop(self.ends)
            if worker.at_work is not None:
                self.queue.accept(worker.at_work, worker.consumer)
            worker.at_work = None
            self._begin(worker, at)
            self.free.append(worker)
            self._deliver(at)

    def _deliver(self, now: float) -> None:
        while self.free:
            worker = self.free[0]
            entry = self.queue.deliver(worker.consumer, now)
            if entry is None:
                return
            self.free.popleft()
            worker.held.append(entry)
            self._begin(worker, now)

    def _begin(self, worker: Worker, now: float) -> None:
        if worker.at_work is not None or not worker.held:
            return
        worker.at_work = entry = worker.held.popleft()
        number = int(entry.message.id)
        arrival = self.trace[number]
        self.waits[number] = now - self._arrives(arrival)
        self._number += 1
        heappush(self.ends, (now + arrival.service * self.scenario.service, self._number, worker))


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """Return how many spans of work overlapped at most: how many consumers there were at least.

    >>> most_at_once([(0, 2), (1, 3), (2, 4)])
    2
    """
    changes = sorted(change for start, end in spans for change in ((start, 1), (end, -1)))
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most
