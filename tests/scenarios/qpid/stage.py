"""What a scenario is played on, and what it leaves behind."""

from typing import TYPE_CHECKING, Final

from django_mq.inprocess.entries.capacity import Producer
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.qpid.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from django_mq.inprocess.rules import Rules
    from tests.scenarios.environment import Environment
    from tests.scenarios.fields import Fields
    from tests.scenarios.qpid.reader import Reader


#: A second is a second, made so long that a millisecond takes longer than any scenario's play.
SCALE: Final = 1_000_000.0


class Stage:
    """The queues, readers and producers of one scenario, and its records."""

    def __init__(self, rules: "Mapping[str, Rules]", environment: "Environment") -> None:
        self.environment = environment
        self.clock = Clock()
        self.broker = environment.broker(SCALE)
        #: Deleted ones too: they can still be looked at.
        self.queues = {name: self.broker.declare(name, each) for name, each in rules.items()}
        self.readers: dict[str, Reader] = {}
        self._producers: dict[str, Producer] = {}
        self.deliveries: list[list[str | None]] = []
        self.wakeups: list[str] = []
        self.closed: list[str] = []
        self.snapshots: dict[str, dict[str, object]] = {}

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self.clock.now

    def queue_called(self, name: str) -> "Queue":
        """The queue of that name."""
        if name not in self.queues:
            raise MalformedScenarioError(f"there is no queue {name!r}")
        return self.queues[name]

    def queue(self, step: "Fields") -> "Queue":
        """The queue that a step is about: the first one if it names none."""
        return self.queue_called(step.want("queue", str, next(iter(self.queues))))

    def reader(self, step: "Fields") -> "Reader":
        """The consumer that a step is about."""
        name = step.need("consumer", str)
        if name not in self.readers:
            raise MalformedScenarioError(f"{step.where}: there is no consumer {name!r}")
        return self.readers[name]

    def producer(self, name: str | None) -> Producer | None:
        """The producer of that name."""
        return None if name is None else self._producers.setdefault(name, Producer(name))

    def entry(self, queue: "Queue", step: "Fields") -> "Entry | None":
        """The entry on a queue that a step is about; None if it is not there."""
        name = step.need("message", str)
        return next((entry for entry in queue.entries() if entry.message.id == name), None)

    def note_closed(self, name: str) -> None:
        """A consumer is closed; it can be closed only once."""
        if name not in self.closed:
            self.closed.append(name)
