"""The tasks of one of Celery's canvases: the chain, the group or the chord that one first task has begun.

Celery's headers name the first task (``root_id``), the task that published each one (``parent_id``) and the
group. A header has no index, so the newest rows are looked through, and at most so many tasks are found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import CharField, F, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from django_mq.diagnosis.messages.terms import newest_of
from django_mq.models import Attempt, History, Message
from django_mq.models.message import ReadableHeaders
from django_mq.results.models import Chord, StoredResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime
    from uuid import UUID

    from django.db.models import QuerySet

#: The most tasks of a canvas that are read.
MOST: Final = 1000
#: States of Celery's results that say that a task has ended well, or not.
WELL, WRONG = "SUCCESS", frozenset({"FAILURE", "REVOKED", "REJECTED"})


class TaskState(Enum):
    """What has become of a task."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: It was removed, or has expired.
    REMOVED = "removed"
    DEAD = "dead"


OPEN: Final = frozenset({TaskState.WAITING, TaskState.RUNNING, TaskState.DEAD})


class CanvasMessage(NamedTuple):
    """A message of a task, as its row has it: a task that is retried has several."""

    row_id: int
    message_id: UUID
    queue: str
    state: int
    reason: str
    published_at: datetime
    task_id: str | None
    name: str | None
    parent: str | None
    group: str | None


@dataclass(frozen=True, slots=True)
class CanvasTask:
    """A task of a canvas."""

    id: str
    name: str
    parent: str
    group: str
    state: TaskState
    message_id: UUID
    queue: str
    published_at: datetime
    #: Of a dead letter: its row.
    row_id: int | None = None


@dataclass(frozen=True, slots=True)
class CanvasChord:
    """A chord, of which so many members have ended."""

    group: str
    size: int | None
    counted: int
    failed: int
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Canvas:
    tasks: list[CanvasTask]
    chords: dict[str, CanvasChord]
    #: Whether there may be more tasks.
    is_cut: bool

    def blocking(self, group: str) -> list[CanvasTask]:
        """Return the members of a chord that it waits for."""
        return [task for task in self.tasks if task.group == group and task.state in OPEN]

    def before(self, task: CanvasTask) -> str:
        """Return what the task comes after: its parent, or the chord that has published it; blank for none.

        The last member of a chord publishes the body of the chord, when the end of the chord is written.
        """
        parents = {each.id: each for each in self.tasks}
        parent = parents.get(task.parent)
        chord = self.chords.get(parent.group) if parent is not None and parent.group != task.group else None
        is_body = chord is not None and chord.ended_at is not None and task.published_at >= chord.ended_at
        if chord is not None and is_body:
            return chord.group
        return "" if parent is None or parent is task else parent.id


def canvas_of(root: str, live: QuerySet[Message] | None, past: QuerySet[History] | None, *, using: str) -> Canvas:
    """Return the tasks that one task has begun, and the chords among them; of the rows that a user may see."""
    waiting = [] if live is None else _messages(live, root, "queue__name", "state", F("dead_reason"))
    ended = [] if past is None else _messages(past, root, "queue_name", "outcome", Value(""))
    runs = Counter(each.task_id for each in ended)
    found = {str(each.task_id): _task(each, _past_state(each)) for each in reversed(ended) if each.task_id}
    ids = [*found]
    results = dict(
        StoredResult.objects.using(using).filter(task_id__in=ids[:MOST]).values_list("task_id", "status")
    )
    failures = Counter(
        Attempt.objects.using(using)
        .filter(correlation_id__in=ids)
        .order_by()
        .values_list("correlation_id", flat=True)[: 10 * MOST]
    )
    for id_, task in found.items():
        if task.state is TaskState.SUCCEEDED:
            state = _told(results.get(id_), failures[id_] >= runs[id_])
            found[id_] = CanvasTask(**{**_values(task), "state": state})
    # A task that waits now was retried, or redriven: where it is now counts.
    found |= {str(each.task_id): _task(each, _live_state(each)) for each in reversed(waiting) if each.task_id}
    tasks = sorted(found.values(), key=lambda task: (task.published_at, task.id))[:MOST]
    is_cut = max(len(waiting), len(ended)) >= MOST
    return Canvas(tasks, _chords({task.group for task in tasks} - {""}, using), is_cut)


def _values(task: CanvasTask) -> dict[str, Any]:
    return {name: getattr(task, name) for name in CanvasTask.__slots__}


def _messages(rows: QuerySet[Any], root: str, queue: str, state: str, reason: Any) -> list[CanvasMessage]:
    def header(name: str) -> Any:
        return Cast(KeyTextTransform(name, ReadableHeaders()), TextField())

    recent: Any = newest_of(rows.order_by("-pk")).alias(first=header("root_id")).filter(first=root)
    values = recent.annotate(
        in_queue=F(queue),
        is_in=F(state),
        why=Cast(reason, CharField(max_length=255)),
        named=header("id"),
        task=header("task"),
        parent=header("parent_id"),
        member_of=header("group"),
    ).values_list(
        *("pk", "message_id", "in_queue", "is_in", "why", "published_at", "named", "task", "parent", "member_of")
    )
    return [CanvasMessage(*row) for row in values[:MOST]]


def _task(each: CanvasMessage, state: TaskState) -> CanvasTask:
    return CanvasTask(
        id=str(each.task_id),
        name=str(each.name or each.task_id),
        parent=each.parent or "",
        group=each.group or "",
        state=state,
        message_id=each.message_id,
        queue=each.queue,
        published_at=each.published_at,
        row_id=each.row_id if state is TaskState.DEAD else None,
    )


def _live_state(each: CanvasMessage) -> TaskState:
    if each.state == Message.Status.DEAD or each.reason:
        return TaskState.DEAD
    return TaskState.RUNNING if each.state == Message.Status.CLAIMED else TaskState.WAITING


def _past_state(each: CanvasMessage) -> TaskState:
    if each.state == History.Outcome.ACCEPTED:
        return TaskState.SUCCEEDED
    return TaskState.FAILED if each.state == History.Outcome.DEAD else TaskState.REMOVED


def _told(status: str | None, has_failed: bool) -> TaskState:
    """Return the state of a task that is acknowledged: its result says it, or else its failed attempts."""
    if status in WRONG:
        return TaskState.FAILED
    if status == WELL or not has_failed:
        return TaskState.SUCCEEDED
    return TaskState.FAILED


def _chords(groups: Collection[str], using: str) -> dict[str, CanvasChord]:
    rows: Iterable[Chord] = Chord.objects.using(using).filter(group_id__in=[*groups][:MOST])
    return {
        row.group_id: CanvasChord(row.group_id, row.size, row.counted, row.failed, row.ended_at) for row in rows
    }
