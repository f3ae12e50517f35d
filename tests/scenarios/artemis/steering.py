"""The steps of operators."""

from typing import TYPE_CHECKING

from tests.scenarios.artemis.messages import read_selector
from tests.scenarios.errors import MalformedScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.artemis.stage import Stage
    from tests.scenarios.fields import Fields


def pause(stage: "Stage", step: "Fields") -> None:
    """Deliver nothing."""
    queue = stage.queue(step)
    queue.control.pause()
    if step.want("persist", bool, False):
        stage.paused_for_good.add(queue.name)


def resume(stage: "Stage", step: "Fields") -> None:
    """Deliver again."""
    queue = stage.queue(step)
    queue.control.resume()
    stage.paused_for_good.discard(queue.name)


def deliver_scheduled_now(stage: "Stage", step: "Fields") -> None:
    """Make scheduled messages ready: one, those selected, or all."""
    queue = stage.queue(step)
    for entry in list(_scheduled(queue, step)):
        queue.control.deliver_now(entry)


def _scheduled(queue: "Queue", step: "Fields") -> "Iterator[Entry]":
    name, selector, everything = step.want("id", str, None), read_selector(step), step.want("all", bool, False)
    if (name is not None) + (selector is not None) + everything != 1:
        raise MalformedScenarioError(f"{step.where} should have one of 'id', 'selector' and 'all'")
    for entry in queue.scheduled():
        if everything or entry.message.id == name or (selector is not None and selector.matches(entry.message)):
            yield entry


def cancel_scheduled(stage: "Stage", step: "Fields") -> bool:
    """Take a scheduled message away."""
    queue = stage.queue(step)
    entry = _called(step, queue.scheduled())
    return entry is not None and queue.control.cancel(entry)


def _called(step: "Fields", entries: "list[Entry]") -> "Entry | None":
    name = step.need("id", str)
    return next((entry for entry in entries if entry.message.id == name), None)


def expire_scan(stage: "Stage", step: "Fields") -> None:
    """Look through every queue, or the one named, for what has expired."""
    for queue in [stage.queue(step)] if step.has("queue") else stage.broker:
        queue.expire(stage.now)


def change_priority(stage: "Stage", step: "Fields") -> bool:
    """Give a ready message another priority."""
    queue = stage.queue(step)
    priority = step.need("priority", int)
    entry = _called(step, list(queue.browse()))
    return entry is not None and queue.control.change_priority(entry, priority, stage.now) is not None


def retry_dead_letters(stage: "Stage", step: "Fields") -> int:
    """Redrive the dead letters of a dead-letter queue."""
    return stage.queue(step).redrive_all(stage.now)


def set_settings(stage: "Stage", step: "Fields") -> None:
    """Let a queue follow other settings."""
    queue = stage.queue(step)
    stage.declare(queue.name, stage.settings[queue.name] | step.need("settings", dict))


def remove_queue(stage: "Stage", step: "Fields") -> None:
    """Remove a queue with all that is in it."""
    queue = stage.queue(step)
    for entry in queue.entries():
        queue.control.remove(entry)
    queue.control.delete(stage.now)
    stage.paused_for_good.discard(queue.name)


def reset_groups(stage: "Stage", step: "Fields") -> None:
    """Let every group find a new owner."""
    stage.queue(step).control.reset_groups()
