"""Publish the message of a tick, in the transaction that is open."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.module_loading import import_string

from django_mq.delivery.codecs import MESSAGE_ID, new_message_id
from django_mq.delivery.consumer.handlers import registered
from django_mq.delivery.publisher import publish
from django_mq.delivery.queues import undeclared_among
from django_mq.errors import DuplicateMessage, TargetGone
from django_mq.models import Message
from django_mq.periodic.marks import LISTENING, TICK, run_id
from django_mq.seams.ends import with_mark

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.periodic.models import PeriodicMessage


class WrittenTick(NamedTuple):
    """What was written for a tick: no message if a limit of the queue, or a unique key, has discarded it."""

    #: By which the run is known: that of the first message, where a task has been retried.
    message_id: UUID | None = None
    queue: str = ""


class Lookup(NamedTuple):
    """What finds the row of a message that was published."""

    field: str
    value: Any
    #: Whether the row may be missing, because the message was discarded.
    may_miss: bool


def publish_tick(row: PeriodicMessage, deliver_at: datetime | None, *, using: str) -> WrittenTick:
    """Publish the message of a tick; return its id and its queue.

    Raises TargetGone if the task or the queue does not exist, and what ``publish`` raises.
    """
    publish_it = {"message": _message, "celery": _celery_task, "task": _django_task}[row.kind]
    try:
        with transaction.atomic(using=using):
            lookup = publish_it(row, deliver_at, using)
    except DuplicateMessage:
        return WrittenTick()
    messages = Message.objects.using(using)
    columns = ("id", "message_id", "queue__name", "told_to", "headers")
    # Without a limit, for which a database could prefer another index.
    found = list(messages.filter(**{lookup.field: lookup.value}).values_list(*columns))
    if not found and lookup.may_miss:
        return WrittenTick()
    if not found:
        raise TargetGone(f"{row.target!r} is not published by django_mq; its broker or backend is another one.")
    id_, message_id, queue, mark, headers = max(found, key=itemgetter(0))
    # Not by ``Listening.wants``, which would be asked for each message of the site.
    messages.filter(pk=id_).update(told_to=with_mark(mark, LISTENING))
    return WrittenTick(run_id(message_id, headers), queue)


def check_target(row: PeriodicMessage, *, using: str) -> None:
    """Raise TargetGone for a queue, a handler or a task that does not exist, as far as this process can know."""
    if row.kind == "message":
        if undeclared_among([row.queue], using=using):
            raise TargetGone(f"There is no queue {row.queue!r}; correct the name, or create the queue.")
        _check_handler(row)
    elif row.kind == "task":
        _django_task_of(row)
    elif may_have(row):
        _celery_task_of(row)


def may_have(row: PeriodicMessage) -> bool:
    """Whether this process may have what a row publishes: no Celery task without an app."""
    if row.kind != "celery":
        return True
    from celery import current_app  # noqa: PLC0415 - only where a project has Celery's tasks

    return current_app.main != "default"  # the app of a process that has made none


def _message(row: PeriodicMessage, deliver_at: datetime | None, using: str) -> Lookup:
    _check_handler(row)
    options = row.options
    id_ = publish(row.queue, row.body, type=row.target, deliver_at=deliver_at, using=using, **options)
    return Lookup("message_id", id_, may_miss=True)


def _check_handler(row: PeriodicMessage) -> None:
    handlers = registered(row.queue)
    # Where this code has none for the queue, another program may have it.
    if row.target and handlers and not any(each.type in {"", row.target} for each in handlers):
        raise TargetGone(f"No handler of the queue {row.queue!r} takes messages of the type {row.target!r}.")


def _celery_task(row: PeriodicMessage, deliver_at: datetime | None, _using: str) -> Lookup:
    task = _celery_task_of(row)
    given: dict[str, Any] = dict(row.options)
    if deliver_at is not None:
        given["eta"] = deliver_at
    if row.queue:
        given["queue"] = row.queue
    task_id = str(new_message_id())
    given["headers"] = (given.get("headers") or {}) | {TICK: True}
    result = task.apply_async(row.args, row.kwargs, task_id=task_id, **given, **{MESSAGE_ID: task_id})
    # A unique task returns the result of the first one with its key, which may have ended.
    return Lookup("correlation_id", result.id, may_miss=result.id != task_id)


def _celery_task_of(row: PeriodicMessage) -> Any:
    from celery import current_app  # noqa: PLC0415 - as above

    current_app.loader.import_default_modules()
    if row.target not in current_app.tasks:
        raise TargetGone(
            f"There is no Celery task {row.target!r}; correct the name, or delete the periodic message."
        )
    return current_app.tasks[row.target]


def _django_task(row: PeriodicMessage, deliver_at: datetime | None, _using: str) -> Lookup:
    task = _django_task_of(row)
    given: dict[str, Any] = dict(row.options)
    if row.queue:
        given["queue_name"] = row.queue
    if deliver_at is not None:
        given["run_after"] = deliver_at
    enqueue = task.using(**given).enqueue if given else task.enqueue
    return Lookup("message_id", UUID(enqueue(*row.args, **row.kwargs).id), may_miss=True)


def _django_task_of(row: PeriodicMessage) -> Any:
    try:
        task = import_string(row.target)
        backend, _ = task.get_backend(), task.enqueue
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise TargetGone(f"{row.target!r} is no Django task: {error}") from error
    if not any(each.__module__.startswith("django_mq.") for each in type(backend).__mro__):
        raise TargetGone(f"{row.target!r} has another backend than those of django_mq.")
    return task
