"""The steps that add messages, and the units of work."""

from typing import TYPE_CHECKING

from django_mq.engine.states import GONE
from django_mq.errors import DuplicateMessage, PublishError, QueueFull
from tests.scenarios.artemis.messages import read_message
from tests.scenarios.artemis.stage import DEFAULT_QUEUE
from tests.scenarios.errors import MalformedScenarioError

if TYPE_CHECKING:
    from django_mq.engine.message import Message
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.artemis.stage import Stage
    from tests.scenarios.fields import Fields


def enqueue(stage: "Stage", step: "Fields") -> str:
    """Publish one message, at once or with a unit of work."""
    name = step.want("queue", str, DEFAULT_QUEUE)
    message = read_message(stage, step, name)
    unit = step.want("tx", str, None)
    step.finish()
    queue = stage.queue_called(name)
    if queue is None:
        return "unrouted"
    return _publish(stage, queue, message) if unit is None else _publish_with(stage, unit, queue, message)


def _publish(stage: "Stage", queue: "Queue", message: "Message") -> str:
    unroutable = _is_unroutable(queue)
    try:
        entry = queue.publish(message, stage.now)
    except PublishError as error:
        return _refusal(error)
    return _admission(unroutable, kept=entry.state is not GONE)


def _publish_with(stage: "Stage", unit: str, queue: "Queue", message: "Message") -> str:
    try:
        kept = stage.unit(unit).publish(queue, message)
    except PublishError as error:
        return _refusal(error)
    return _admission(_is_unroutable(queue), kept=kept)


def _is_unroutable(queue: "Queue") -> bool:
    return queue.rules.purge_on_no_consumers and not queue.consumers()


def _admission(unroutable: bool, *, kept: bool) -> str:
    if kept:
        return "ok"
    return "unrouted" if unroutable else "dropped"


def _refusal(error: PublishError) -> str:
    if isinstance(error, DuplicateMessage):
        return "duplicate"
    if isinstance(error, QueueFull):
        return "full"
    raise error


def begin(stage: "Stage", step: "Fields") -> None:
    """Begin a unit of work."""
    name = step.need("tx", str)
    if name in stage.units:
        raise MalformedScenarioError(f"{step.where}: the unit of work {name!r} is open already")
    stage.units[name] = stage.broker.begin()


def commit(stage: "Stage", step: "Fields") -> str:
    """Let a unit of work take effect, unless something has spoiled it."""
    name = step.need("tx", str)
    unit = stage.unit(name)
    del stage.units[name]
    try:
        unit.commit(stage.now)
    except PublishError as error:
        return _refusal(error)
    return "ok"


def rollback_tx(stage: "Stage", step: "Fields") -> None:
    """Let a unit of work take no effect."""
    name = step.need("tx", str)
    stage.unit(name).rollback(stage.now)
    del stage.units[name]
