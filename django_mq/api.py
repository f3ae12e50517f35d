"""The public API: what an application imports.

from django_mq.api import publish, publish_many, consumer, browse
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_mq import conf
from django_mq.batches.handle import BatchFigures, BatchHandle, batch, batch_state, current_batch, find_batch
from django_mq.delivery import hints
from django_mq.delivery.codecs import BrowsedMessage, ReceivedMessage
from django_mq.delivery.consumer.handlers import consumer
from django_mq.delivery.operator.answers import Answer, Effect
from django_mq.delivery.operator.browser import browsed
from django_mq.delivery.operator.verbs import (
    acancel,
    amove,
    aredrive,
    arelease,
    areschedule,
    cancel,
    move,
    redrive,
    release,
    reschedule,
)
from django_mq.delivery.publisher import OutgoingMessage, apublish, apublish_many, publish, publish_many
from django_mq.delivery.queues import free_groups, pause, resume
from django_mq.delivery.validation import count_of, existing, queue_name
from django_mq.durable.message import DurableMessage
from django_mq.engine.decisions.batches import BatchState
from django_mq.engine.decisions.bulk import Done
from django_mq.engine.decisions.unique import Unique, debounce
from django_mq.engine.states import State
from django_mq.errors import Cancelled, Decline, Reject, Release, Retry, Skip
from django_mq.periodic.decorator import periodic
from django_mq.replies.calls import acall, call
from django_mq.replies.progress import aprogress_of, progress_of
from django_mq.replies.reader import KeptResult, aget_result, aresult_of, get_result, result_of
from django_mq.replies.reported import ReportedProgress
from django_mq.workflows.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta
    from uuid import UUID

    from django_mq.workflows.context import StepContext
    from django_mq.workflows.results import Results

__all__ = [
    "Answer",
    "BatchFigures",
    "BatchHandle",
    "BatchState",
    "BrowsedMessage",
    "Cancelled",
    "Decline",
    "Done",
    "DurableMessage",
    "Effect",
    "KeptResult",
    "OutgoingMessage",
    "ReceivedMessage",
    "Reject",
    "Release",
    "ReportedProgress",
    "Retry",
    "Skip",
    "Unique",
    "Workflow",
    "acall",
    "acancel",
    "aemit",
    "aget_result",
    "amove",
    "announce",
    "aprogress_of",
    "apublish",
    "apublish_many",
    "aredrive",
    "arelease",
    "areschedule",
    "aresult_of",
    "batch",
    "batch_state",
    "browse",
    "call",
    "cancel",
    "cancel_workflow",
    "consumer",
    "current_batch",
    "debounce",
    "delete_workflow",
    "emit",
    "find_batch",
    "forget_steps",
    "free_groups",
    "get_result",
    "move",
    "pause",
    "periodic",
    "progress_of",
    "publish",
    "publish_many",
    "purge",
    "redrive",
    "release",
    "rename_step",
    "reschedule",
    "result_of",
    "resume",
    "retry_workflow",
    "step_of",
    "wake",
    "workflow_results",
]


def announce(queue: str, *, messages: int = 1, using: str | None = None) -> None:
    """Wake as many idle workers of the queue as there are messages, when the open transaction commits.

    For programs that write messages with SQL of their own: ``publish`` announces them by itself. Raises
    InvalidMessage for a wrong name or number.
    """
    name, count = queue_name(queue), count_of(messages, "messages")
    hints.announce_count(name, count, using=using or conf.load().DATABASE)


def browse(
    queue: str,
    *,
    states: Sequence[State] = (State.READY,),
    selector: str = "",
    limit: int | None = None,
    follow: bool = False,
    from_tail: bool = False,
    using: str | None = None,
) -> Iterator[BrowsedMessage]:
    """Yield the queue's messages, at most ``limit``, in delivery order without taking them.

    ``selector`` says which messages to yield; the others are read and skipped.
    Pages are read one after the other. A message that comes or goes meanwhile may be missing; no message
    is yielded twice. A declared queue that was never used yields nothing. Raises UnknownQueue and
    MalformedSelector.

    With ``follow`` the iterator never ends: it yields the existing messages in any state, and then
    each new message once it is committed, in the order of arrival. It misses a message that comes and goes
    between two queries. A message that an operator moves or gives another priority counts as new. Close the
    iterator to stop. With ``from_tail`` it yields only what arrives after the first ``next()``, without
    messages that open transactions have published before. Raises ConfigurationError for ``from_tail`` alone.
    """
    found = browsed(
        queue,
        states=states,
        selector=selector,
        limit=limit,
        following=follow,
        from_tail=from_tail,
        using=using,
    )
    yield from map(BrowsedMessage, found)


def purge(queue: str, *, using: str | None = None) -> int:
    """Remove all messages of the queue that no worker holds, without later arrivals; return how many.

    Outside a transaction, what workers have prefetched and not begun is removed, too. For this the queue is
    paused for a moment. Raises UnknownQueue.
    """
    from django_mq.delivery.operator import recalls  # noqa: PLC0415 - models; an app may not be installed

    return recalls.purge(existing(queue), using=using or conf.load().DATABASE)


# Durable handlers.


def emit(
    event: str,
    key: str = "",
    payload: Any = None,
    *,
    ttl_seconds: timedelta | float | None = None,
    using: str | None = None,
) -> bool:
    """Emit an event to the durable handlers that wait for it, now or later, in the caller's transaction.

    The first one of a name and a key counts, for as long as it is kept: ``ttl_seconds``, by default the setting
    ``DURABLE_EVENT_SECONDS``. Return whether this was the first one; a later one changes nothing. Raises
    UnusableEvent for a name, a key or a payload that cannot be stored.
    """
    from django_mq.durable import events  # noqa: PLC0415 - models; an app may not be installed

    return events.emit(event, key, payload, ttl_seconds=ttl_seconds, alias=using or conf.load().DATABASE)


def wake(message_id: UUID | str, *, using: str | None = None) -> None:
    """Let the durable handlers of a message go on that sleep, in the caller's transaction.

    The sleep is over, as if its time had come; a later sleep of the same handler lasts as long as it says. A wait
    for an event is not ended: ``emit`` the event.

    Raises NotAsleep if no handler of the message sleeps, and InvalidMessage for what is no id.
    """
    from django_mq.durable import sleeps  # noqa: PLC0415 - as above

    sleeps.wake(message_id, alias=using or conf.load().DATABASE)


async def aemit(
    event: str,
    key: str = "",
    payload: Any = None,
    *,
    ttl_seconds: timedelta | float | None = None,
    using: str | None = None,
) -> bool:
    """Emit from async code: like ``emit``, in a transaction of its own."""
    return await sync_to_async(emit)(event, key, payload, ttl_seconds=ttl_seconds, using=using)


def rename_step(queue: str, old: str, new: str, *, using: str | None = None) -> int:
    """Give a step another name in all messages of a queue that have done it; return how many records changed.

    Call it in a migration of the release that renames the step in the code, while no worker of the queue runs.
    Raises StepMisused for a name that a step cannot have.
    """
    from django_mq.durable import changes  # noqa: PLC0415 - as above

    return changes.rename_step(queue, old, new, alias=using or conf.load().DATABASE)


def forget_steps(queue: str, message_id: UUID | str, *, place: int = 1, using: str | None = None) -> int:
    """Forget what a message has done from a place on, 1 for all; return how many records were removed.

    What is forgotten is done again when the message is delivered next: redrive a dead letter afterwards.
    """
    from django_mq.durable import changes  # noqa: PLC0415 - as above

    return changes.forget_steps(queue, message_id, place=place, alias=using or conf.load().DATABASE)


# Workflows.


def step_of(message: ReceivedMessage, *, using: str | None = None) -> StepContext:
    """Return the step of a workflow that a handler runs: its input, and what the steps before it have returned.

    Raises UnknownWorkflow for a message that is no step.
    """
    from django_mq.workflows import context  # noqa: PLC0415 - models; an app may not be installed

    return context.step_of(message, using=using)


def workflow_results(workflow_id: UUID | str, *, using: str | None = None) -> Results:
    """Return what the steps of a workflow have returned until now, by name. Raises UnknownWorkflow."""
    from django_mq.workflows import verbs  # noqa: PLC0415 - as above

    return verbs.workflow_results(workflow_id, using=using)


def cancel_workflow(workflow_id: UUID | str, *, reason: str = "", using: str | None = None) -> None:
    """Stop a workflow: nothing more begins, its messages are cancelled, and what has succeeded is undone.

    Handlers that run are asked to end, after the commit. Raises UnknownWorkflow, and WorkflowRefused for a
    workflow that has ended.
    """
    from django_mq.workflows import verbs  # noqa: PLC0415 - as above

    verbs.cancel_workflow(workflow_id, reason=reason, using=using)


def delete_workflow(workflow_id: UUID | str, *, using: str | None = None) -> None:
    """Delete a workflow that has ended, with its sub-workflows and the results of their steps.

    Dead letters of its steps stay in their queues. Raises UnknownWorkflow, and WorkflowRefused for a workflow that
    runs, or is a step of another one.
    """
    from django_mq.workflows import verbs  # noqa: PLC0415 - as above

    verbs.delete_workflow(workflow_id, using=using)


def retry_workflow(workflow_id: UUID | str, *, using: str | None = None) -> None:
    """Run again what has not succeeded of a workflow that has failed, or was cancelled.

    What has succeeded is kept, unless it was undone. It has no deadline then. Raises UnknownWorkflow;
    WorkflowRefused for a workflow that runs, has succeeded, or is a step of another one; and WorkflowRuns if
    another one has its unique key now.
    """
    from django_mq.workflows import verbs  # noqa: PLC0415 - as above

    verbs.retry_workflow(workflow_id, using=using)
