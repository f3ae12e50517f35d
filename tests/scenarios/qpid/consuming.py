"""The steps of consumers: coming and going, credit, and taking messages."""

from typing import TYPE_CHECKING, Final

from django_mq.engine.selector import Selector
from django_mq.errors import AccessRefused, ConsumersExist, ExclusiveConsumerExists, MQError, QueueDeleted
from django_mq.inprocess.consumers.consumer import Client
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.qpid.credits import amount, read_credit
from tests.scenarios.qpid.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.fields import Fields
    from tests.scenarios.qpid.stage import Stage

#: A consumer without a priority comes before all others.
HIGHEST_PRIORITY: Final = 2**31 - 1

#: No scenario is as long as this; a drain that is has gone wrong.
_MOST_PULLS: Final = 10_000

REFUSALS: "Final[Mapping[type[MQError], str]]" = {
    ExclusiveConsumerExists: "existing_exclusive_consumer",
    ConsumersExist: "existing_consumer_prevents_exclusive",
    AccessRefused: "access_refused",
    QueueDeleted: "queue_deleted",
}


def add_consumer(stage: "Stage", step: "Fields") -> str:
    """Subscribe, and say what came of it."""
    name = step.need("id", str)
    reader = Reader(name, read_credit(step.want("credit", dict, {})), stage.wakeups.append, stage.environment)
    queues = _queues(stage, step)
    options = _options(stage, step, name)
    if step.want("paused", bool, False):
        reader.pause()
    step.finish()
    stage.readers[name] = reader
    try:
        reader.subscribe(queues, **options)
    except tuple(REFUSALS) as refusal:
        return REFUSALS[type(refusal)]
    return "ok"


def _queues(stage: "Stage", step: "Fields") -> "list[Queue]":
    names = step.texts("queues")
    if not names:
        return [stage.queue(step)]
    if step.has("queue"):
        raise MalformedScenarioError(f"{step.where} has both 'queue' and 'queues'")
    return [stage.queue_called(name) for name in names]


def _options(stage: "Stage", step: "Fields", name: str) -> dict[str, object]:
    selector = step.want("selector", str, None)
    connection = step.want("connection", str, name)

    def closed(_: "Consumer") -> None:
        stage.note_closed(name)

    return {
        "priority": step.want("priority", int, HIGHEST_PRIORITY),
        "selector": None if selector is None else Selector(selector),
        "browser": step.want("browser", bool, False),
        "exclusive": step.want("exclusive", bool, False),
        "auto_close": step.want("auto_close", bool, False),
        "from_tail": step.choice("start", {"head": False, "tail": True}, False),
        "auto_accept": step.choice("ack_mode", {"explicit": False, "auto": True}, False),
        "stealable": step.want("stealable", bool, False),
        "no_local": step.want("no_local", bool, False),
        # Every connection has one session.
        "client": Client(connection=connection, session=connection),
        "closed": closed,
    }


def pull(stage: "Stage", step: "Fields") -> None:
    """Try to deliver one message."""
    reader = stage.reader(step)
    step.finish()
    stage.deliveries.append([reader.name, reader.pull(stage.now)])


def drain(stage: "Stage", step: "Fields") -> None:
    """Deliver until nothing comes."""
    reader = stage.reader(step)
    step.finish()
    for _ in range(_MOST_PULLS):
        message = reader.pull(stage.now)
        if message is None:
            return
        stage.deliveries.append([reader.name, message])
    raise MalformedScenarioError(f"{step.where} does not come to an end")


def close_consumer(stage: "Stage", step: "Fields") -> None:
    """Close it."""
    reader = stage.reader(step)
    give_back = step.want("requeue", bool, True)
    step.finish()
    reader.close(give_back=give_back)
    stage.note_closed(reader.name)


def pause_consumer(stage: "Stage", step: "Fields") -> None:
    """It wants no work."""
    stage.reader(step).pause()


def resume_consumer(stage: "Stage", step: "Fields") -> None:
    """It wants work again."""
    stage.reader(step).resume()


def add_credit(stage: "Stage", step: "Fields") -> None:
    """More of either; null is any number."""
    reader = stage.reader(step)
    messages, size_bytes = amount(step, "messages", 0), amount(step, "bytes", 0)
    with stage.broker.lock:
        reader.credit.add(messages, size_bytes)
        reader.credit_changed()


def stop_credit(stage: "Stage", step: "Fields") -> None:
    """Nothing more."""
    reader = stage.reader(step)
    with stage.broker.lock:
        reader.credit.stop()
        reader.credit_changed()


def set_prefetch(stage: "Stage", step: "Fields") -> None:
    """Other ceilings; 0 is none."""
    reader = stage.reader(step)
    messages, size_bytes = amount(step, "messages", None), amount(step, "bytes", None)
    with stage.broker.lock:
        reader.credit.resize(messages or None, size_bytes or None)
        reader.credit_changed()
