"""From what a scenario expects at some moment to flat paths, and what is found there."""

from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.states import SCHEDULED
from django_mq.inprocess.consumers.groups import SoleReceiver
from tests.scenarios.errors import UnknownWordError
from tests.scenarios.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.artemis.stage import Stage

#: A kind of expectation, whose it is, and what of it is counted.
Path = tuple[str, ...]


def flatten(values: object, where: str, *, ignore_others: bool = False) -> dict[Path, Any]:
    """The expected value of every path; raises a ScenarioError for a key that means nothing.

    With ``ignore_others`` such a key is taken for a remark.
    """
    fields = Fields(values, where)
    paths: dict[Path, Any] = {}
    for key in LOOKS:
        for name, value in fields.want(key, dict, {}).items():
            paths |= _paths(key, name, value, where)
    if not ignore_others:
        fields.finish()
    return paths


def _paths(key: str, name: str, value: Any, where: str) -> dict[Path, Any]:
    if key == "counts":
        counts = Fields(value, f"{where}: the counts of {name!r}")
        return {(key, name, count): counts.want(count, object, None) for count in value}
    return {(key, name): sorted(value) if key == "in_flight" and isinstance(value, list) else value}


def look(stage: "Stage", path: Path, expected: object) -> Any:
    """What is found at a path, where so much is expected."""
    if path[0] == "groups" and isinstance(expected, dict) and expected:
        return _owners(stage, path[1], expected)
    return LOOKS[path[0]](stage, *path[1:])


def _deliveries(stage: "Stage", consumer: str) -> list[str]:
    return list(stage.deliveries.get(consumer, []))


def _ready(stage: "Stage", name: str) -> list[str]:
    queue = stage.queue_called(name)
    return [] if queue is None else _names(queue.browse())


def _scheduled(stage: "Stage", name: str) -> list[str]:
    queue = stage.queue_called(name)
    return [] if queue is None else _names(queue.scheduled())


def _in_flight(stage: "Stage", name: str) -> list[str]:
    queue = stage.queue_called(name)
    return [] if queue is None else sorted(set(_names(_unsettled(queue))))


def _names(entries: "Iterable[Entry]") -> list[str]:
    return [entry.message.id for entry in entries]


def _unsettled(queue: "Queue") -> "list[Entry]":
    if queue.rules.nondestructive:  # shown to a consumer, and not claimed
        return [entry for consumer in queue.consumers() for entry in consumer.unsettled]
    return [entry for entry in queue.entries() if entry.is_claimed]


def _delivery_count(stage: "Stage", name: str) -> int | None:
    entry = _find(stage, name) or stage.sent.get(name)
    return None if entry is None else entry.attempts


def _due_at(stage: "Stage", name: str) -> float | None:
    entry = _find(stage, name)
    return None if entry is None or entry.state is not SCHEDULED else entry.due_at


def _find(stage: "Stage", name: str) -> "Entry | None":
    entries = (entry for queue in stage.broker for entry in queue.entries())
    return next((entry for entry in entries if entry.message.id == name), None)


def _count(stage: "Stage", name: str, count: str) -> int | bool:
    if count not in COUNTS:
        raise UnknownWordError("count", count, COUNTS)
    queue = stage.queue_called(name)
    return 0 if queue is None else COUNTS[count](queue)


def _groups(stage: "Stage", name: str) -> dict[str, str]:
    queue = stage.queue_called(name)
    if queue is None or queue.rules.groups is SoleReceiver:  # then there are none to name
        return {}
    return {group: consumer.name for group, consumer in queue.subscribers.group_owners().items()}


def _owners(stage: "Stage", name: str, expected: "Iterable[str]") -> dict[str, str]:
    """The owned groups, and those expected that share the bucket of one."""
    owners = _groups(stage, name)
    queue = stage.queue_called(name)
    if not owners or queue is None or _is_unbounded(stage, name):
        return owners
    shared = {
        group: owner.name for group in expected if (owner := queue.subscribers.group_owner(group)) is not None
    }
    return shared or owners


def _is_unbounded(stage: "Stage", name: str) -> bool:
    return int(stage.settings[name].get("group_buckets", -1)) < 0


def _message_count(queue: "Queue") -> int:
    return len(list(queue.browse())) + len(queue.scheduled()) + len(_unsettled(queue))


COUNTS: "Final[dict[str, Callable[[Queue], int | bool]]]" = {
    "added": lambda queue: queue.statistics.enqueued,
    "acked": lambda queue: queue.statistics.accepted,
    "expired": lambda queue: queue.statistics.expired,
    "killed": lambda queue: queue.statistics.killed,
    "replaced": lambda queue: queue.statistics.replaced,
    "ready": lambda queue: len(list(queue.browse())),
    "scheduled": lambda queue: len(queue.scheduled()),
    "in_flight": lambda queue: len(_unsettled(queue)),
    "message_count": _message_count,
    "paused": lambda queue: queue.paused,
}

LOOKS: "Final[dict[str, Callable[..., Any]]]" = {
    "deliveries": _deliveries,
    "ready": _ready,
    "scheduled": _scheduled,
    "in_flight": _in_flight,
    "delivery_count": _delivery_count,
    "due_at": _due_at,
    "counts": _count,
    "groups": _groups,
}
