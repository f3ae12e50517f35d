"""What a scenario is played on, and what it leaves behind."""

from typing import TYPE_CHECKING, Any

from django_mq.errors import UnknownQueue
from tests.scenarios.artemis.queues import read_durable, read_rules
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.fields import Fields

if TYPE_CHECKING:
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from django_mq.inprocess.work import UnitOfWork
    from tests.scenarios.environment import Environment

#: The queue that a step is about if it names none.
DEFAULT_QUEUE = "q"
#: A second of the engine is a millisecond, made so long that it takes longer than any scenario's play.
SCALE = 1_000.0


class Stage:
    """The queues, consumers and units of work of one scenario, its clock, and its records."""

    def __init__(self, setup: Fields, environment: "Environment") -> None:
        self.environment = environment
        #: Milliseconds of the scenario, seconds of the engine.
        self.now: float = setup.want("clock", float, 0.0)
        self.broker = environment.broker(SCALE)
        #: As set up and changed since; of removed queues too.
        self.settings: dict[str, dict[str, Any]] = {}
        #: Those that have left as well: they may settle too late.
        self.consumers: dict[str, Consumer] = {}
        self.units: dict[str, UnitOfWork] = {}
        #: Ids of the messages that a restart loses.
        self.volatile: set[str] = set()
        #: Queues whose pause outlives a restart.
        self.paused_for_good: set[str] = set()
        #: By consumer, the ids it was sent.
        self.deliveries: dict[str, list[str]] = {}
        #: By id, what was last sent under it: it may be gone by now.
        self.sent: dict[str, Entry] = {}
        for name, settings in setup.want("queues", dict, {DEFAULT_QUEUE: {}}).items():
            self.declare(name, {} if settings is None else settings)
        setup.finish()

    def declare(self, name: str, settings: dict[str, Any]) -> None:
        """Make a queue, or let it follow other settings."""
        fields = Fields(settings, f"the queue {name!r}")
        read_durable(fields)
        self.broker.declare(name, read_rules(fields))
        self.settings[name] = settings

    def is_durable(self, queue: "Queue") -> bool:
        """Whether messages of the queue may outlive a restart."""
        return read_durable(Fields(self.settings[queue.name], f"the queue {queue.name!r}"))

    def queue_called(self, name: str) -> "Queue | None":
        """The queue of that name; None if it was removed."""
        if name not in self.settings:
            raise MalformedScenarioError(f"there is no queue {name!r}")
        try:
            return self.broker.queue(name)
        except UnknownQueue:
            return None

    def queue(self, step: Fields) -> "Queue":
        """The queue that a step is about; raises MalformedScenarioError if there is none."""
        name = step.want("queue", str, DEFAULT_QUEUE)
        queue = self.queue_called(name)
        if queue is None:
            raise MalformedScenarioError(f"{step.where}: the queue {name!r} was removed")
        return queue

    def consumer(self, step: Fields) -> "Consumer":
        """The consumer that a step is about; it may have left."""
        name = step.need("consumer", str)
        if name not in self.consumers:
            raise MalformedScenarioError(f"{step.where}: there is no consumer {name!r}")
        return self.consumers[name]

    def unit(self, name: str) -> "UnitOfWork":
        """The unit of work of that name."""
        if name not in self.units:
            raise MalformedScenarioError(f"the unit of work {name!r} was not begun, or is over")
        return self.units[name]

    def settle(self) -> None:
        """Let what is due be ready, and push until every consumer is busy."""
        for queue in self.broker:
            queue.promote(self.now)
        while any(self._push(queue) for queue in self.broker):  # a dead letter may reach a queue behind
            pass

    def _push(self, queue: "Queue") -> bool:
        pushed = False
        while (delivery := queue.deliver_next(self.now)) is not None:
            consumer, entry = delivery
            self.deliveries[consumer.name].append(entry.message.id)
            self.sent[entry.message.id] = entry
            pushed = True
        return pushed
