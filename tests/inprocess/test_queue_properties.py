"""Random histories of a queue, against a model that is a plain sorted list."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.states import Fate, State
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import names

#: The level of each priority in a queue of four, written out rather than computed.
LEVEL = [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]

#: Name, messages and bytes each consumer may hold at once.
LIMITS = {"one": (1, 1000), "bytes": (3, 20), "any": (1000, 1000)}

Claim = tuple[Entry, Consumer, int]
DELAYS = st.sampled_from([None, -1, 0, 1, 2, 5])


@dataclass(eq=False)
class Model:
    """What is known of one message without asking the queue."""

    name: str
    key: tuple[int, int, float, int]
    size: int
    ready_at: float
    attempts: int = 0
    holder: Consumer | None = None
    claim_number: int = 0


class QueueMachine(RuleBasedStateMachine):
    """Publishes, delivers, settles (late and twice too), waits and pauses in any order."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.published = 0
        self.paused = False
        self.models: dict[str, Model] = {}
        self.queue = Queue(rules=Rules(levels=4))
        self.consumers = [Consumer(name, WindowCredit(*limits)) for name, limits in LIMITS.items()]
        for consumer in self.consumers:
            self.queue.add_consumer(consumer)

    @rule(priority=st.integers(0, 9), delay=DELAYS, size=st.integers(0, 15))
    def publish(self, priority: int, delay: int | None, size: int) -> None:
        self.published += 1
        name = f"m{self.published}"
        due_at = None if delay is None else self.now + delay
        self.queue.publish(message(name, priority=priority, deliver_at=due_at, size=size), self.now)

        # In a level: those with a time first, earliest due first; then the others by arrival.
        place = (1, 0.0) if due_at is None else (0, due_at)
        key = (-LEVEL[priority], *place, self.published)
        self.models[name] = Model(name, key, size, ready_at=due_at or 0.0)

    @rule(target=claims, which=st.integers(0, 2))
    def deliver(self, which: int) -> Claim | None:
        consumer = self.consumers[which]
        expected = self.first_for(consumer)

        entry = self.queue.deliver(consumer, self.now)

        if entry is None or expected is None:
            assert (entry, expected) == (None, None)
            return None
        assert entry.message.id == expected.name
        expected.holder, expected.claim_number = consumer, entry.claim_number
        expected.attempts += 1
        assert (entry.attempts, entry.redelivered) == (expected.attempts, entry.claim_number > 1)
        return entry, consumer, entry.claim_number

    def first_for(self, consumer: Consumer) -> Model | None:
        ready = self.ready()
        held = [each.size for each in self.models.values() if each.holder is consumer]
        messages, size_bytes = LIMITS[consumer.name]
        if self.paused or not ready or len(held) >= messages or sum(held) + ready[0].size > size_bytes:
            return None
        return ready[0]

    def ready(self) -> list[Model]:
        waiting = (each for each in self.models.values() if each.holder is None)
        return sorted((each for each in waiting if each.ready_at <= self.now), key=lambda each: each.key)

    @rule(claim=claims)
    def accept(self, claim: Claim | None) -> None:
        if claim is not None and self.check(claim, self.queue.accept(*claim)):
            del self.models[claim[0].message.id]

    @rule(claim=claims)
    def release(self, claim: Claim | None) -> None:
        if claim is not None and self.check(claim, self.queue.release(*claim)):
            model = self.models[claim[0].message.id]
            model.holder, model.attempts = None, model.attempts - 1

    @rule(claim=claims, delay=DELAYS)
    def fail(self, claim: Claim | None, delay: int | None) -> None:
        retry_at = None if delay is None else self.now + delay
        if claim is not None and self.check(claim, self.queue.fail(*claim, retry_at=retry_at)):
            model = self.models[claim[0].message.id]
            model.holder, model.ready_at = None, retry_at or 0.0

    def check(self, claim: Claim, took_effect: Fate) -> bool:
        """A settlement takes effect exactly if the claim it names still stands."""
        entry, consumer, claim_number = claim
        model = self.models.get(entry.message.id)
        stands = model is not None and (model.holder, model.claim_number) == (consumer, claim_number)
        assert bool(took_effect) == stands
        return stands

    @rule(seconds=st.sampled_from([1, 2]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def promote(self) -> None:
        self.queue.promote(self.now)

        assert names(self.queue.browse()) == [each.name for each in self.ready()]

    @rule()
    def pause(self) -> None:
        self.queue.control.pause()
        self.paused = True

    @rule()
    def resume(self) -> None:
        self.queue.control.resume()
        self.paused = False

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        counts = self.queue.counts()

        assert sum(counts.values()) == len(self.models)
        assert counts[State.CLAIMED] == sum(each.holder is not None for each in self.models.values())

    @invariant()
    def nobody_holds_more_than_its_credit(self) -> None:
        for consumer in self.consumers:
            messages, size_bytes = LIMITS[consumer.name]
            assert len(consumer.unsettled) <= messages
            assert sum(each.message.size for each in consumer.unsettled) <= size_bytes

    def teardown(self) -> None:
        """After any history, one consumer can have all that is left."""
        self.queue.control.resume()
        for consumer in self.consumers:
            self.queue.remove_consumer(consumer)
        last = Consumer("last")
        self.queue.add_consumer(last)

        left = [self.queue.deliver(last, 1e9) for _ in self.models]

        assert [each and each.message.id for each in left] == [
            each.name for each in sorted(self.models.values(), key=lambda each: each.key)
        ]


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
