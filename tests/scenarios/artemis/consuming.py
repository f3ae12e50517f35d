"""The steps of consumers: coming, going, credit, and what becomes of their messages."""

from functools import partial
from typing import TYPE_CHECKING

from django_mq.errors import SubscriptionRefused
from django_mq.inprocess.consumers.consumer import DEFAULT_CONSUMER_PRIORITY, Consumer
from django_mq.inprocess.consumers.credit import OverdraftCredit
from tests.scenarios.artemis.messages import read_selector
from tests.scenarios.errors import MalformedScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.artemis.stage import Stage
    from tests.scenarios.fields import Fields

#: How a consumer leaves, and whether what it holds has been attempted.
MODES = {"close": False, "fail": True}


def add_consumer(stage: "Stage", step: "Fields") -> str:
    """Subscribe a consumer, unless it is refused."""
    name = step.need("consumer", str)
    queue = stage.queue(step)
    consumer = stage.environment.consumer(
        name,
        _read_credit(step),
        priority=step.want("priority", int, DEFAULT_CONSUMER_PRIORITY),
        selector=read_selector(step),
    )
    if any(name == other.name for each in stage.broker for other in each.consumers()):
        raise MalformedScenarioError(f"{step.where}: there is a consumer {name!r} already")
    try:
        queue.add_consumer(consumer)
    except SubscriptionRefused:
        return "refused"
    stage.consumers[name] = consumer
    stage.deliveries.setdefault(name, [])
    return "ok"


def _read_credit(step: "Fields") -> OverdraftCredit:
    credit = step.want("credit", int, -1)
    return OverdraftCredit(credit if credit >= 0 else None)


def remove_consumer(stage: "Stage", step: "Fields") -> None:
    """Unsubscribe a consumer: it has closed, or it has died."""
    consumer = stage.consumer(step)
    failed = step.choice("mode", MODES, False)
    queue_of(consumer).remove_consumer(consumer, failed=failed, now=stage.now)


def queue_of(consumer: Consumer) -> "Queue":
    """The queue that a consumer is subscribed to, or was."""
    assert consumer.queue is not None
    return consumer.queue


def grant_credit(stage: "Stage", step: "Fields") -> None:
    """Let a consumer be sent more."""
    consumer = stage.consumer(step)
    consumer.credit.add(size_bytes=step.need("credit", int))
    queue_of(consumer).refresh(consumer)


def ack(stage: "Stage", step: "Fields") -> str:
    """Accept messages, at once or with a unit of work."""
    name = step.want("tx", str, None)
    if name is None:
        return _settle(stage, step, lambda queue: queue.accept)
    unit = stage.unit(name)
    return _settle(stage, step, lambda queue: partial(unit.accept, queue))


def rollback(stage: "Stage", step: "Fields") -> str:
    """Say that the processing of messages has failed."""
    return _settle(stage, step, lambda queue: partial(queue.fail, now=stage.now))


def release(stage: "Stage", step: "Fields") -> str:
    """Give messages back unprocessed."""
    return _settle(stage, step, lambda queue: queue.release)


def reject(stage: "Stage", step: "Fields") -> str:
    """Send messages to the dead letters."""
    return _settle(stage, step, lambda queue: partial(queue.reject, now=stage.now))


def _settle(stage: "Stage", step: "Fields", by: "Callable[[Queue], Callable[[Entry, Consumer], object]]") -> str:
    """Settle the messages of a step, one by one in its order; whether the consumer had them all."""
    consumer = stage.consumer(step)
    settle = by(queue_of(consumer))
    held = {entry.message.id: entry for entry in consumer.unsettled}
    names = step.need("ids", list)
    settled = [bool(settle(held[name], consumer)) for name in names if name in held]
    return "ok" if len(settled) == len(names) and all(settled) else "unknown"
