"""The steps of the operator, and of time."""

from typing import TYPE_CHECKING

from django_mq.errors import IllegalMove, PublishError, QueueInUse

if TYPE_CHECKING:
    from tests.scenarios.fields import Fields
    from tests.scenarios.qpid.stage import Stage


def advance_clock(stage: "Stage", step: "Fields") -> None:
    """Let time pass, without a look at what it brings."""
    stage.clock.advance(step.need("ms", float))


def housekeeping(stage: "Stage", step: "Fields") -> None:
    """Do what time has brought."""
    stage.broker.keep_house(stage.now)


def purge(stage: "Stage", step: "Fields") -> int:
    """Remove everything; how much went at once."""
    return stage.queue(step).control.clear()


def delete_queue(stage: "Stage", step: "Fields") -> str:
    """Delete a queue, unless another one sends messages to it."""
    queue = stage.queue(step)
    if queue.deleted:
        return "queue_deleted"
    try:
        stage.broker.delete(queue.name, stage.now)
    except QueueInUse:
        return "in_use"
    return "deleted"


def delete_message(stage: "Stage", step: "Fields") -> str:
    """Remove one message, at once or when it is given back."""
    queue = stage.queue(step)
    entry = stage.entry(queue, step)
    if entry is None:
        return "unknown"
    return "deleted" if queue.control.discard(entry) else "deferred"


def reprioritise(stage: "Stage", step: "Fields") -> str:
    """Replace a message by a copy of another priority."""
    queue = stage.queue(step)
    entry = stage.entry(queue, step)
    priority, new_id = step.need("priority", int), step.need("new_id", str)
    if entry is None or queue.control.change_priority(entry, priority, stage.now, new_id=new_id) is None:
        return "unchanged"
    return "reprioritised"


def move(stage: "Stage", step: "Fields") -> str:
    """Move a message to another queue, if it is free and that queue has room."""
    queue = stage.queue(step)
    entry = stage.entry(queue, step)
    target = stage.queue_called(step.need("to", str))
    try:
        moved = entry is not None and queue.move(entry, target, stage.now)
    except (IllegalMove, PublishError):
        return "unchanged"
    return "moved" if moved else "unchanged"


def clear_wakeups(stage: "Stage", step: "Fields") -> None:
    """Forget which consumers were woken so far."""
    stage.wakeups.clear()
