"""The steps that add messages."""

from typing import TYPE_CHECKING

from django_mq.engine.message import DEFAULT_PRIORITY, Message
from django_mq.engine.states import GONE
from django_mq.errors import ProducerBlocked, QueueDeleted, QueueFull

if TYPE_CHECKING:
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.fields import Fields
    from tests.scenarios.qpid.stage import Stage


def enqueue(stage: "Stage", step: "Fields") -> str:
    """Publish one message."""
    queue = stage.queue(step)
    name = step.want("producer", str, None)
    immediate = step.want("immediate", bool, False)
    message = _message(stage, step, queue, name)
    step.finish()
    try:
        entry = queue.publish(message, stage.now, producer=stage.producer(name), immediate=immediate)
    except QueueFull:
        return "rejected"
    except ProducerBlocked:
        return "blocked"
    except QueueDeleted:
        return "queue_deleted"
    return "returned" if immediate and not _taken(queue, entry) else "enqueued"


def _message(stage: "Stage", step: "Fields", queue: "Queue", producer: str | None) -> Message:
    ttl = step.want("ttl", float, 0)
    not_before = step.want("not_before", float, None)
    return Message(
        id=step.need("id", str),
        headers=step.want("headers", dict, {}),
        priority=step.want("priority", int, DEFAULT_PRIORITY),
        size=step.want("size", int, 1),
        queue=queue.name,
        # A publisher and a consumer of one name are on one connection.
        connection=producer,
        published_at=stage.now,
        deliver_at=None if not_before is None or not queue.rules.hold else stage.clock.at(not_before),
        expires_at=stage.clock.after(ttl) if ttl > 0 else None,
    )


def _taken(queue: "Queue", entry: "Entry") -> bool:
    # A consumer that accepts with the delivery makes the entry gone, too.
    return entry.state is not GONE or any(entry in consumer.reserved for consumer in queue.consumers())
