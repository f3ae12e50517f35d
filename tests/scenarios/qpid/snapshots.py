"""What can be asked of a queue in the middle of a scenario."""

from typing import TYPE_CHECKING, Final

from django_mq.engine.states import CLAIMED, HELD, READY
from tests.scenarios.errors import UnknownWordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.fields import Fields
    from tests.scenarios.qpid.stage import Stage


def snapshot(stage: "Stage", step: "Fields") -> None:
    """Note what is asked under the name that is given."""
    queue = stage.queue(step)
    found: dict[str, object] = {}
    for question in step.texts("what"):
        if question not in QUESTIONS:
            raise UnknownWordError("question", question, QUESTIONS)
        found[question] = QUESTIONS[question](queue)
    stage.snapshots[step.need("as", str)] = found


def _ids(queue: "Queue", wanted: "Callable[[Entry], bool]") -> list[str]:
    return [entry.message.id for entry in queue.entries() if wanted(entry)]


def _order(queue: "Queue") -> list[str]:
    return _ids(queue, lambda entry: True)


def _available(queue: "Queue") -> list[str]:
    return _ids(queue, lambda entry: entry.state in (READY, HELD))


def _acquired(queue: "Queue") -> list[list[str]]:
    return [[entry.message.id, entry.owner.name] for entry in queue.entries() if entry.owner is not None]


def _held(queue: "Queue") -> list[str]:
    return _ids(queue, lambda entry: entry.state is HELD)


def _redelivered(queue: "Queue") -> list[str]:
    return _ids(queue, lambda entry: entry.redelivered)


def _delivery_counts(queue: "Queue") -> dict[str, int]:
    # The engine counts a delivery when it begins; here it counts when it has failed.
    return {entry.message.id: entry.attempts - entry.is_claimed for entry in queue.entries()}


def _depth(queue: "Queue") -> int:
    return queue.statistics.depth


def _flow_stopped(queue: "Queue") -> bool:
    return queue.flow_stopped


def _stats(queue: "Queue") -> dict[str, int]:
    statistics, counts = queue.statistics, queue.counts()
    return {
        "depth": statistics.depth,
        "depth_bytes": statistics.depth_bytes,
        "available": counts[READY],
        "unacked": counts[CLAIMED],
        "enqueued": statistics.enqueued,
        "dequeued": statistics.dequeued,
        "expired": statistics.expired,
    }


QUESTIONS: "Final[dict[str, Callable[[Queue], object]]]" = {
    "order": _order,
    "available": _available,
    "acquired": _acquired,
    "held": _held,
    "redelivered": _redelivered,
    "delivery_counts": _delivery_counts,
    "depth": _depth,
    "flow_stopped": _flow_stopped,
    "stats": _stats,
}
