"""A task's result, from three places.

The row of the result has the outcome of the attempts. The message shows whether the task waits or runs. The
history has messages that were removed before they were handled. Nothing is written before the first attempt
ends, so that enqueueing is one statement.
"""

from __future__ import annotations

import builtins
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connections

from django_mq import conf, errors
from django_mq.delivery.codecs import decode_body
from django_mq.delivery.operator.redrives import origin_of
from django_mq.errors import CorruptMessage, MessageRemoved, UnknownTask
from django_mq.integrations.tasks import compat
from django_mq.integrations.tasks.envelope import is_envelope, time_of, unpack
from django_mq.models import Attempt, History, Message, TaskResult
from django_mq.stores.values import told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.integrations.tasks.backend import MQBackend

READY, RUNNING = compat.TaskResultStatus.READY, compat.TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = compat.TaskResultStatus.FAILED, compat.TaskResultStatus.SUCCESSFUL
#: How many errors of one task are kept, the last ones.
ERRORS = 20


def find_result(result_id: str, *, backend: MQBackend) -> Any:
    """Return the result of this id. Raises TaskResultDoesNotExist."""
    try:
        message_id = UUID(result_id)
    except (ValueError, TypeError, AttributeError):
        raise compat.TaskResultDoesNotExist(result_id) from None
    row = row_of(message_id, backend.database)
    if row is not None and row.successful:
        return _result(None, row.queue_name, SUCCESSFUL, row=row, result_id=message_id)
    # A message in a dead-letter queue has the same id.
    messages = Message.objects.using(backend.database).select_related("queue", "session")
    message = messages.filter(message_id=message_id).order_by("-id").first()
    if message is not None:
        return _waiting(message, row)
    if row is not None:
        return _result(None, row.queue_name, FAILED, row=row, result_id=message_id)
    return _removed(message_id, backend.database)


def row_of(message_id: UUID, alias: str) -> TaskResult | None:
    """Return the row of a task's result, None before the first attempt has ended."""
    return TaskResult.objects.using(alias).filter(pk=message_id).first()


def write(result: Any, envelope: Any, *, successful: bool, days: float, using: str) -> None:
    """Write the outcome of an attempt, in place of the last one."""
    end = result.finished_at or datetime.now(UTC)
    row = TaskResult(
        message_id=UUID(result.id),
        successful=successful,
        queue_name=result.task.queue_name,
        record=json.dumps(_record(result, envelope)),
        started_at=result.started_at,
        last_attempted_at=result.last_attempted_at,
        finished_at=end,
        expires_at=end + timedelta(days=days),
    )
    changing = [field.name for field in TaskResult._meta.local_fields if not field.primary_key]
    target = ["message_id"] if connections[using].features.supports_update_conflicts_with_target else None
    TaskResult.objects.using(using).bulk_create(
        [row], update_conflicts=True, update_fields=changing, unique_fields=target
    )


def _record(result: Any, envelope: Any) -> dict[str, Any]:
    errors = [
        {"exception_class_path": error.exception_class_path, "traceback": told(error.traceback)}
        for error in result.errors[-ERRORS:]
    ]
    value = result._return_value  # noqa: SLF001 - the public one raises until it has succeeded
    return {"envelope": envelope, "value": value, "errors": errors, "worker_ids": result.worker_ids}


def _waiting(message: Any, row: TaskResult | None) -> Any:
    """Return the result of a task whose message exists."""
    envelope = _decoded(message.body, message.content_type, message.content_encoding)
    home = origin_of(message.queue.name, message.headers)
    if message.state == Message.Status.DEAD or home != message.queue.name:
        return _result(envelope, home, FAILED, row=row, result_id=message.message_id, cause=message)
    status = RUNNING if message.state == Message.Status.CLAIMED else READY
    result = _result(envelope, message.queue.name, status, row=row, result_id=message.message_id)
    if status == RUNNING:
        result.worker_ids.append(message.session.name if message.session else "")
        object.__setattr__(result, "last_attempted_at", message.claimed_at)
        object.__setattr__(result, "started_at", result.started_at or message.claimed_at)
    return result


def _removed(message_id: UUID, alias: str) -> Any:
    """Return the result of a task whose message was removed before the first attempt, from the history."""
    past = History.objects.using(alias).filter(message_id=message_id).first()
    if past is None or past.outcome == History.Outcome.ACCEPTED:
        raise compat.TaskResultDoesNotExist(str(message_id))
    envelope = _decoded(past.body) if past.body is not None else None
    if not is_envelope(envelope):
        envelope = {"task": past.type, "args": [], "kwargs": {}, "priority": 0, "backend": "default"}
    result = _result(envelope, past.queue_name, FAILED, row=None, result_id=message_id)
    result.errors.append(
        error_of(MessageRemoved(f"The message was {History.Outcome(past.outcome).name.lower()}."))
    )
    object.__setattr__(result, "finished_at", past.finished_at)
    return result


def _result(
    envelope: Any, queue: str, status: Any, *, row: TaskResult | None, result_id: UUID, cause: Any = None
) -> Any:
    record = json.loads(row.record) if row else {}
    ended, worker_ids = earlier_attempts(record, result_id)
    envelope = record.get("envelope", envelope)
    try:
        task = unpack(envelope, queue=queue)
    except (UnknownTask, compat.InvalidTask) as error:
        raise compat.TaskResultDoesNotExist(f"{result_id}: {error}") from error
    result = compat.TaskResult(
        task=task,
        id=str(result_id),
        status=status,
        enqueued_at=time_of(envelope, "enqueued_at"),
        started_at=row and row.started_at,
        last_attempted_at=row and row.last_attempted_at,
        finished_at=row.finished_at if row and status in {FAILED, SUCCESSFUL} else None,
        args=envelope["args"],
        kwargs=envelope["kwargs"],
        backend=task.backend,
        errors=ended,
        worker_ids=worker_ids,
    )
    if row is not None and status == SUCCESSFUL:
        object.__setattr__(result, "_return_value", record["value"])
    if cause is not None and not result.errors:
        result.errors.append(error_of(MessageRemoved(cause.dead_reason or None)))
    return result


def earlier_attempts(record: Mapping[str, Any], message_id: UUID) -> tuple[list[Any], list[str]]:
    """Return the errors and the workers of the attempts that have ended, from the record of a result's row.

    If they wrote no row (it was rolled back, or the worker died), the failed attempts of the message have them,
    with only the name of an exception.
    """
    if record:
        return [compat.TaskError(**error) for error in record["errors"]], record["worker_ids"]
    failed = list(Attempt.objects.using(conf.load().DATABASE).filter(message_id=message_id).order_by("id"))
    found = [
        compat.TaskError(exception_class_path=_path_of(each.error), traceback=each.traceback or each.detail)
        for each in failed[-ERRORS:]
    ]
    return found, [each.worker for each in failed]


def _path_of(name: str) -> str:
    for module in (builtins, errors):
        if isinstance(getattr(module, name, None), type):
            return f"{module.__name__}.{name}"
    return f"{MessageRemoved.__module__}.{MessageRemoved.__qualname__}"


def error_of(error: BaseException, traceback: str = "") -> Any:
    """Return the error for a result."""
    kind = type(error)
    text = traceback or f"{kind.__module__}.{kind.__qualname__}: {error}\n"
    return compat.TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=text)


def _decoded(body: Any, content_type: str = "application/json", content_encoding: str = "utf-8") -> Any:
    try:
        return decode_body(bytes(body), content_type, content_encoding)
    except CorruptMessage:
        return None
