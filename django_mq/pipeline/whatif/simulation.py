"""Simulate a trace with the in-process broker, on a clock that jumps from event to event.

There are five kinds of event: a message arrives, a consumer finishes a message, a retry
becomes due, a message expires, a limit lets a message begin. After each event, consumers
take messages as workers do: while they have credit and the queue has messages. A consumer
handles its messages in order of delivery.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.decisions.expiry import UNBOUNDED, is_expired
from django_mq.engine.message import Message
from django_mq.engine.states import GONE, Cause, Fate
from django_mq.errors import QueueFull
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.capacity import Producer
from django_mq.inprocess.rules import Rules
from django_mq.pipeline.whatif.keys import argument_of
from django_mq.pipeline.whatif.limited import LimitedQueue
from django_mq.pipeline.whatif.unique import SimulatedKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.pipeline.whatif.scenario import Scenario

#: Reasons why a message was not done: the queue did not take it, its last attempt failed, or its key was taken.
REFUSED, DROPPED, DEAD, DUPLICATE = "refused", "dropped", "dead", "duplicate"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message of a trace: when it arrived, its priority, and how long it was handled, in seconds."""

    at: float
    priority: int
    service: float
    #: What keys are read from, for scenarios that have keys.
    message: Message | None = None


class Simulated(NamedTuple):
    """The result of a simulation, in the trace's order."""

    #: How long each message waited for its first attempt, in seconds; None if it had none.
    waits: list[float | None]
    #: Why each message was not done: refused, dropped, expired, replaced, dead, limited or duplicate; None if it
    #: was done.
    losses: list[str | None]


@dataclass(slots=True)
class SimulatedConsumer:
    """A consumer, and the messages that it holds and has not begun."""

    consumer: Consumer
    held: deque[Entry] = field(default_factory=deque)
    at_work: Entry | None = None


def simulate(trace: Sequence[Arrival], scenario: Scenario) -> Simulated:
    """Return the result for each message of a trace, which is in order of arrival."""
    return Simulation(trace, scenario).run()


class Simulation:
    """One simulation. It listens to the events of its queue."""

    def __init__(self, trace: Sequence[Arrival], scenario: Scenario) -> None:
        self.trace = trace
        self.scenario = scenario
        options = scenario.queue
        # Without jitter, so that two scenarios differ only by their settings.
        rules = replace(Rules.of(options), duplicates=0, backoff=replace(options.backoff, jitter=0.0))
        #: Whether messages may fail, expire or meet a full queue. Checking for this doubles the time.
        self._constrained = scenario.failures > 0 or options.is_limited or rules.lifetime != UNBOUNDED
        self._has_key_rules = scenario.has_key_rules
        self._constrained |= self._has_key_rules
        self.broker = Broker(listener=self if self._constrained else None)
        for name in filter(None, {options.dead_letter_queue, options.expiry_queue}):
            self.broker.declare(name)
        # No other queue can have this name.
        self.queue = self.broker.declare("", rules)
        #: By number, what was published, for limits and unique keys.
        self.messages: dict[int, Message] = {}
        self.entries: dict[int, Entry] = {}
        self.limited: LimitedQueue | None = None
        if scenario.limits:
            self.limited = LimitedQueue(self.queue, scenario.limits, scenario.allowed, self.messages, self.entries)
        self.keys: SimulatedKeys | None = None
        if scenario.unique is not None:
            self.keys = SimulatedKeys(self.queue, scenario.unique, self.messages, self.entries)
        self.producer = Producer("trace") if options.overflow == "flow" else None
        #: Messages that have arrived and wait for room in the queue.
        self.outside: deque[int] = deque()
        self.waits: list[float | None] = [None] * len(trace)
        self.losses: list[str | None] = [None] * len(trace)
        self.workers = [
            SimulatedConsumer(Consumer(str(n), WindowCredit(scenario.credit))) for n in range(scenario.consumers)
        ]
        for worker in self.workers:
            self.queue.add_consumer(worker.consumer)
        #: Consumers with credit, the longest idle first, each once for every message that it may take.
        self.free: deque[SimulatedConsumer] = deque(
            worker for _ in range(scenario.credit) for worker in self.workers
        )
        #: (when, number, worker) of work that ends; the number breaks ties.
        self.ends: list[tuple[float, int, SimulatedConsumer]] = []
        self._number = 0
        self._passed = 0.0

    def run(self) -> Simulated:
        for number, arrival in enumerate(self.trace):
            now = self._arrives(arrival)
            self._pass_until(now)
            self._passed = now
            self.outside.append(number)
            self._let_in(now)
            self._deliver(now)
        self._pass_until(float("inf"))
        for number in self.outside:  # no event makes room any more
            self.losses[number] = REFUSED
        return Simulated(self.waits, self.losses)

    # The listener of the queue.

    def arrived(self, queue: str, entry: Entry) -> None:
        """Do nothing."""

    def departed(self, queue: str, entry: Entry, cause: Cause) -> None:  # noqa: ARG002
        """Store why a message left the queue without being accepted."""
        if cause is not Cause.ACCEPTED and cause is not Cause.COPIED:
            self.losses[int(entry.message.id)] = cause.value

    def dropped_by(self, queue: str, entry: Entry) -> None:  # noqa: ARG002
        """Store that a ring has replaced a message, which becomes a dead letter."""
        self.losses[int(entry.message.id)] = Cause.REPLACED.value

    def deleted(self, queue: str) -> None:
        """Do nothing."""

    def _arrives(self, arrival: Arrival) -> float:
        return arrival.at / self.scenario.arrivals

    def _pass_until(self, now: float) -> None:
        """Process all events before the next arrival."""
        while (at := self._next_time()) is not None and at <= now:
            if self.ends and self.ends[0][0] == at:
                self._finish()
            else:
                self.broker.keep_house(at)
            self._let_in(at)
            self._deliver(at)
            self._passed = at

    def _next_time(self) -> float | None:
        """Return the time of the next event of the queue or a worker; now if it is overdue."""
        done_at = self.ends[0][0] if self.ends else None
        due_at = self.broker.next_time() if self._constrained else None
        if self.limited is not None and (look_at := self.limited.next_time) is not None:
            due_at = look_at if due_at is None else min(due_at, look_at)
        if due_at is None:
            return done_at
        due_at = max(due_at, self._passed)
        return due_at if done_at is None else min(done_at, due_at)

    def _let_in(self, now: float) -> None:
        """Publish the messages that have arrived, unless the publisher still waits for room."""
        while self.outside:
            arrival = self.trace[self.outside[0]]
            is_late = now - self._arrives(arrival) > self.scenario.queue.wait_seconds
            if self.producer is not None and self.producer.blocked and not is_late:
                return
            number = self.outside.popleft()
            if is_late:
                self.losses[number] = REFUSED
                continue
            message = self._message(number, arrival)
            if self.keys is None:
                self._publish(number, message, now)
            elif (new := self.keys.admit(number, now)) is None:
                self.losses[number] = DUPLICATE
            elif not self._publish(number, replace(message, deliver_at=self.keys.due.get(number)), now):
                self.keys.take_back([new])

    def _message(self, number: int, arrival: Arrival) -> Message:
        if arrival.message is None:
            message = Message(id=str(number), body=number, priority=arrival.priority)
        else:
            message = self._keyed(replace(arrival.message, id=str(number), priority=arrival.priority))
        if self._has_key_rules:
            self.messages[number] = message
        return message

    def _keyed(self, message: Message) -> Message:
        """Return the message with the key of fair places, which a publisher takes from the arguments."""
        fair = self.scenario.queue.fairness
        if fair is None:
            return message
        return replace(message, headers=fair.with_key(message.headers, argument_of(message, fair.header)))

    def _publish(self, number: int, message: Message, now: float) -> bool:
        """Publish a message, and return whether the queue takes it."""
        try:
            entry = self.queue.publish(message, now, producer=self.producer)
        except QueueFull:
            self.losses[number] = REFUSED
            return False
        if entry.state is GONE:
            self.losses[number] = DROPPED
            return False
        if self._has_key_rules:
            self.entries[number] = entry
        return True

    def _finish(self) -> None:
        """End the work that ends next, and let its consumer begin the next message."""
        at, _, worker = heappop(self.ends)
        entry, worker.at_work = worker.at_work, None
        if entry is not None:
            if self._fails(entry):
                if self.queue.fail(entry, worker.consumer, now=at) in {Fate.DEAD, Fate.DEAD_LETTERED}:
                    self.losses[int(entry.message.id)] = DEAD
            else:
                self.queue.accept(entry, worker.consumer)
        self.free.append(worker)
        self._begin(worker, at)

    def _fails(self, entry: Entry) -> bool:
        """Return whether this attempt fails. With the same rate, the same attempts fail in every scenario."""
        share = self.scenario.failures
        return share > 0 and Random(f"{entry.message.id} {entry.attempts}").random() < share  # noqa: S311 - no secret

    def _deliver(self, now: float) -> None:
        if self.limited is not None:
            self._deliver_by_limits(self.limited, now)
            return
        while self.free:
            worker = self.free[0]
            entry = self.queue.deliver(worker.consumer, now)
            if entry is None:
                return
            self.free.popleft()
            worker.held.append(entry)
            self._begin(worker, now)

    def _deliver_by_limits(self, limited: LimitedQueue, now: float) -> None:
        """Let each consumer take what its limits let begin; what is held in memory takes no part of a limit."""
        limited.next_time, goes_ahead = None, True
        for worker in list(self.free):
            is_idle = worker.at_work is None and not worker.held
            if not is_idle and not goes_ahead:
                continue
            entry = limited.claim(worker.consumer, now, ahead=not is_idle)
            if entry is None and is_idle:
                return
            if entry is None:
                goes_ahead = False
                continue
            self.free.remove(worker)
            worker.held.append(entry)
            self._begin(worker, now)

    def _begin(self, worker: SimulatedConsumer, now: float) -> None:
        while worker.at_work is None and worker.held:
            entry = worker.held.popleft()
            if is_expired(entry, now):
                self.queue.report_expired(entry, worker.consumer, now=now)
                self.free.append(worker)
                continue
            worker.at_work = entry
            number = int(entry.message.id)
            arrival = self.trace[number]
            waits_from, service = arrival.at / self.scenario.arrivals, arrival.service
            if self.keys is not None:
                waits_from = self.keys.due.get(number, waits_from)
                service = self.trace[self.keys.bodies.get(number, number)].service
            if self.waits[number] is None:
                self.waits[number] = now - waits_from
            self._number += 1
            heappush(self.ends, (now + service * self.scenario.service, self._number, worker))


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """Return how many spans of work overlap at most: the fewest consumers that can have done the work.

    >>> most_at_once([(0, 2), (1, 3), (2, 4)])
    2
    """
    changes = sorted(change for start, end in spans for change in ((start, 1), (end, -1)))
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most
