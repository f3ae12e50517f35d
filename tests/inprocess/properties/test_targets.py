"""Random histories of clients that read two queues on one credit."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer, Interest
from django_mq.inprocess.consumers.target import Target
from tests.engine.builders import message
from tests.inprocess.builders import names

WHICH = st.integers(0, 20)


class TargetMachine(RuleBasedStateMachine):
    """Two targets of different credit, and a consumer of one queue that competes with them."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.queues = [self.broker.declare(name) for name in ("one", "other")]
        self.published = 0
        self.alive: set[str] = set()
        self.told: set[object] = set()
        self.windows = {"narrow": (1, 100), "wide": (4, 20)}
        self.targets = [
            Target(WindowCredit(*self.windows[name]), wake=self.told.add, name=name) for name in self.windows
        ]
        for target in self.targets:
            for queue in self.queues:
                target.subscribe(queue)
        self.lone = Consumer("lone", WindowCredit(1), priority=-1, wake=self.told.add)
        self.queues[0].add_consumer(self.lone)

    @rule(which=WHICH, priority=st.integers(0, 9), size=st.integers(0, 15))
    def publish(self, which: int, priority: int, size: int) -> None:
        self.published += 1
        name = f"m{self.published}"
        self.queues[which % 2].publish(message(name, priority=priority, size=size), 0.0)
        self.alive.add(name)

    @rule(which=WHICH)
    def pull(self, which: int) -> None:
        target = self.targets[which % 2]
        pulled = target.pull(0.0)
        if pulled is None:
            self.told.discard(target)
            return
        self.told.add(target)  # it goes on by itself
        consumer, entry = pulled
        assert (entry.owner, consumer.target) == (consumer, target)

    @rule()
    def pull_alone(self) -> None:
        if self.queues[0].deliver(self.lone, 0.0) is None:
            self.told.discard(self.lone)
        else:
            self.told.add(self.lone)

    def readers(self) -> list[Consumer]:
        return [self.lone, *[consumer for target in self.targets for consumer in target.consumers]]

    @rule(which=WHICH, accept=st.booleans())
    def settle(self, which: int, accept: bool) -> None:
        held = [(entry, consumer) for consumer in self.readers() for entry in consumer.unsettled]
        if not held:
            return
        entry, consumer = held[which % len(held)]
        queue = consumer.queue
        assert queue is not None
        assert queue.accept(entry, consumer) if accept else queue.release(entry, consumer)
        if accept:
            self.alive.remove(entry.message.id)

    @rule(which=WHICH)
    def pause(self, which: int) -> None:
        target = self.targets[which % 2]
        if target.paused:
            target.resume()
        else:
            target.pause()

    @rule(which=WHICH)
    def pause_queue(self, which: int) -> None:
        queue = self.queues[which % 2]
        if queue.paused:
            queue.control.resume()
        else:
            queue.control.pause()

    @rule(which=WHICH)
    def come_or_go(self, which: int) -> None:
        target, queue = self.targets[which % 2], self.queues[which // 2 % 2]
        if queue in [consumer.queue for consumer in target.consumers]:
            target.unsubscribe(queue)
        else:
            target.subscribe(queue)

    @rule(which=WHICH)
    def move(self, which: int) -> None:
        here, there = self.queues[which % 2], self.queues[1 - which % 2]
        entry = next(here.browse(), None)
        if entry is not None:
            assert here.move(entry, there, 0.0)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        entries = [entry for queue in self.queues for entry in queue.entries()]
        assert sorted(names(entries)) == sorted(self.alive)

    @invariant()
    def no_credit_is_exceeded_and_none_leaks(self) -> None:
        for target in self.targets:
            messages, size_bytes = self.windows[target.name]
            held = [entry for consumer in target.consumers for entry in consumer.unsettled]
            used = sum(entry.message.size for entry in held)
            assert len(held) <= messages
            assert used <= size_bytes
            assert isinstance(target.credit, WindowCredit)
            assert (target.credit.outstanding, target.credit.outstanding_bytes) == (len(held), used)

    @invariant()
    def who_is_awake_was_told(self) -> None:
        for consumer in self.readers():
            if consumer.interest is Interest.NOTIFIED:
                assert (consumer.target or consumer) in self.told

    @rule()
    def all_who_were_told_pull_and_then_nobody_sleeps_who_has_work(self) -> None:
        while self.told:
            for number in range(2):
                if self.targets[number] in self.told:
                    self.pull(number)
            if self.lone in self.told:
                self.pull_alone()
        for queue in self.queues:
            head = next(queue.browse(), None)
            if head is not None and not queue.paused:
                assert not any(
                    consumer.desires_work and consumer.could_take(head) for consumer in queue.consumers()
                )


TestTargets = TargetMachine.TestCase
TestTargets.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
