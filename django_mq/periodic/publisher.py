"""Publish the message of a tick, in the transaction that is open."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.module_loading import import_string

from django_mq.delivery.codecs import new_message_id
from django_mq.delivery.publisher import publish
from django_mq.errors import TargetGone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_mq.periodic.models import PeriodicMessage
    from django_mq.stores.records import NewMessage

#: The messages that this thread writes for ticks, while it does.
_written: ContextVar[list[NewMessage] | None] = ContextVar("_written", default=None)


class Published(NamedTuple):
    """What was written for a tick."""

    message_id: UUID
    queue: str


def is_tick(message: NewMessage) -> bool:
    """Whether a message that is about to be written is that of a tick, and its end is told."""
    written = _written.get()
    if written is None:
        return False
    written.append(message)
    return True


@contextmanager
def _noting() -> Iterator[Sequence[NewMessage]]:
    written: list[NewMessage] = []
    token = _written.set(written)
    try:
        yield written
    finally:
        _written.reset(token)


def publish_tick(row: PeriodicMessage, deliver_at: datetime | None, *, using: str) -> Published:
    """Publish the message of a tick; return its id and its queue.

    Raises TargetGone if the task or the queue does not exist, and what ``publish`` raises.
    """
    with _noting() as written:
        {"message": _message, "celery": _celery_task, "task": _django_task}[row.kind](row, deliver_at, using)
    if not written:
        raise TargetGone(f"{row.target!r} is not published by django_mq; its broker or backend is another one.")
    return Published(written[0].message_id, written[0].queue_name)


def _message(row: PeriodicMessage, deliver_at: datetime | None, using: str) -> None:
    publish(row.queue, row.body, type=row.target, deliver_at=deliver_at, using=using, **row.options)


def _celery_task(row: PeriodicMessage, deliver_at: datetime | None, _using: str) -> None:
    from celery import current_app  # noqa: PLC0415 - only where a project has Celery's tasks

    current_app.loader.import_default_modules()
    if row.target not in current_app.tasks:
        raise TargetGone(
            f"There is no Celery task {row.target!r}; correct the name, or delete the periodic message."
        )
    given: dict[str, Any] = dict(row.options)
    if deliver_at is not None:
        given["eta"] = deliver_at
    if row.queue:
        given["queue"] = row.queue
    current_app.tasks[row.target].apply_async(row.args, row.kwargs, task_id=str(new_message_id()), **given)


def _django_task(row: PeriodicMessage, deliver_at: datetime | None, _using: str) -> None:
    try:
        task = import_string(row.target)
        enqueue, using = task.enqueue, task.using
    except (ImportError, AttributeError) as error:
        raise TargetGone(f"{row.target!r} is no Django task: {error}") from error
    given: dict[str, Any] = dict(row.options)
    if row.queue:
        given["queue_name"] = row.queue
    if deliver_at is not None:
        given["run_after"] = deliver_at
    enqueue = using(**given).enqueue if given else enqueue
    enqueue(*row.args, **row.kwargs)
