"""A task's result, from two places.

The row of the result has the outcome of the attempts. The message shows whether the task waits or runs. Nothing is
written before the first attempt ends, so that enqueueing is one statement, or before the message is removed: then
the transaction that removes it writes the row.
"""

from __future__ import annotations

import base64
import builtins
import json
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connections

from django_mq import conf, errors
from django_mq.delivery.codecs import ENCRYPTED, as_published, changed_text, decode_body, key_of
from django_mq.delivery.operator.redrives import origin_of
from django_mq.engine.decisions.ends import End
from django_mq.errors import CorruptMessage, LostKey, MessageRemoved, UnknownTask
from django_mq.integrations.tasks import compat
from django_mq.integrations.tasks.backend import result_days
from django_mq.integrations.tasks.envelope import is_envelope, time_of, unpack
from django_mq.models import Attempt, Message, TaskResult
from django_mq.seams.extension import Extension, Listening
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in, path_of, told
from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.decisions.ends import Ended
    from django_mq.stores.records import NewMessage


READY, RUNNING = compat.TaskResultStatus.READY, compat.TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = compat.TaskResultStatus.FAILED, compat.TaskResultStatus.SUCCESSFUL
#: The parts of an envelope that middleware may change.
ARGUMENTS = ("args", "kwargs")
#: The key of what middleware has changed, in a record.
ENCODED = "encoded"
#: How many errors of one task are kept, the last ones.
ERRORS = 20


def find_result(result_id: str, *, using: str) -> Any:
    """Return the result of this id. Raises TaskResultDoesNotExist."""
    try:
        message_id = UUID(result_id)
    except (ValueError, TypeError, AttributeError):
        raise compat.TaskResultDoesNotExist(result_id) from None
    row = row_of(message_id, using)
    if row is not None and row.successful:
        return _result(None, row.queue_name, SUCCESSFUL, row=row, result_id=message_id)
    # A message in a dead-letter queue has the same id.
    messages = Message.objects.using(using).select_related("queue", "session")
    message = messages.filter(message_id=message_id).order_by("-id").first()
    if message is not None:
        return _waiting(message, row)
    if row is not None:
        return _result(None, row.queue_name, FAILED, row=row, result_id=message_id)
    raise compat.TaskResultDoesNotExist(result_id)


def row_of(message_id: UUID, alias: str) -> TaskResult | None:
    """Return the row of a task's result, None before the first attempt has ended."""
    return TaskResult.objects.using(alias).filter(pk=message_id).first()


def columns_of(result: Any, envelope: Any, *, successful: bool, days: float) -> dict[str, Any]:
    """Return the row of the outcome of an attempt."""
    end = (result.finished_at or clock.now()).astimezone(UTC)
    return {
        "message_id": UUID(result.id),
        "successful": successful,
        "queue_name": result.task.queue_name,
        "record": stored_record(_record(result, envelope)),
        "started_at": result.started_at.astimezone(UTC),
        "last_attempted_at": result.last_attempted_at.astimezone(UTC),
        "finished_at": end,
        "expires_at": end + timedelta(days=days),
    }


def write(columns: Mapping[str, Any], using: str) -> None:
    """Write the outcome of an attempt, in place of the last one. Raises StoreError."""
    # One statement: Django's bulk_create() takes a transaction, two more round trips.
    store_for(connections[using]).results.write(**columns)


def write_many(store: Any, rows: list[dict[str, Any]]) -> None:
    """Write the outcomes of attempts of different tasks. Raises StoreError."""
    # A task whose message comes back at once may have two: the later one counts.
    store.results.write_many([*{columns["message_id"]: columns for columns in rows}.values()])


#: How the body of a task begins, as ``pack`` and ``encode_body`` write it. Other bodies may begin so, too.
BEGINNING = b'{"task":'


def may_be_task(message: NewMessage) -> bool:
    """Whether a message may be a task, by its first bytes. An encrypted one may; Celery's messages are none."""
    return message.body.startswith(BEGINNING) or (message.properties is None and key_of(message.body) is not None)


def write_removed(store: Any, ended: Sequence[Ended]) -> None:
    """Write the results of tasks whose messages are removed, except those that are there. Raises StoreError."""
    if not store.features.durable:
        return  # there, no task has a result
    for each in ended:
        content_encoding = "utf-8" if key_of(each.body) is None else ENCRYPTED
        try:
            envelope = _decoded(each.body, content_encoding=content_encoding)
        except LostKey:
            continue  # a message that another program has encrypted may be removed, too
        if not is_envelope(envelope):
            continue
        error = error_of(MessageRemoved(f"The message was {each.end.name.lower()}."))
        error = {"exception_class_path": error.exception_class_path, "traceback": error.traceback}
        now = clock.now()
        store.results.write_removed(
            message_id=each.message_id,
            queue_name=origin_of(each.queue, headers_in(each.headers)),
            record=stored_record({"envelope": envelope, "value": None, "errors": [error], "worker_ids": []}),
            finished_at=now,
            expires_at=now + timedelta(days=result_days(envelope["backend"])),
        )


LISTENING = Listening(
    name="tasks",
    ends=frozenset({End.EXPIRED, End.CANCELLED, End.PURGED, End.REPLACED}),
    wants=may_be_task,
    tell=write_removed,
)
#: Is added where ``TASKS`` has a backend of ours.
EXTENSION = Extension(name="tasks", ends=(LISTENING,))


def stored_record(record: dict[str, Any]) -> str:
    """Return a record as JSON; its arguments and its value as middleware changes the bodies of messages."""
    if not conf.middleware().encoders:
        return json.dumps(record)
    envelope = record["envelope"]
    secret = {name: envelope[name] for name in ARGUMENTS} | {"value": record["value"]}
    text, content_encoding = changed_text(json.dumps(secret))
    return json.dumps(
        record
        | {"envelope": {**envelope, "args": [], "kwargs": {}}, "value": None}
        | {ENCODED: text, "content_encoding": content_encoding}
    )


def record_in(text: str) -> dict[str, Any]:
    """Return the record that was stored so. Raises CorruptMessage."""
    record: dict[str, Any] = json.loads(text)
    if ENCODED not in record:
        return record
    body, _ = as_published(base64.b64decode(record.pop(ENCODED)), record.pop("content_encoding"))
    secret = json.loads(body)
    value = secret.pop("value")
    return record | {"envelope": record["envelope"] | secret, "value": value}


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
    if message.is_dead_letter:
        home = origin_of(message.queue.name, message.headers)
        return _result(envelope, home, FAILED, row=row, result_id=message.message_id, cause=message)
    status = RUNNING if message.state == Message.Status.CLAIMED else READY
    result = _result(envelope, message.queue.name, status, row=row, result_id=message.message_id)
    if status == RUNNING:
        result.worker_ids.append(message.session.name if message.session else "")
        claimed_at = conf.as_django(message.claimed_at)
        object.__setattr__(result, "last_attempted_at", claimed_at)
        object.__setattr__(result, "started_at", result.started_at or claimed_at)
    return result


def _result(
    envelope: Any, queue: str, status: Any, *, row: TaskResult | None, result_id: UUID, cause: Any = None
) -> Any:
    record = record_in(row.record) if row else {}
    is_complete = status == SUCCESSFUL
    ended, worker_ids = _recorded(record) if is_complete else earlier_attempts(record, result_id)
    envelope = record.get("envelope", envelope)
    try:
        task = unpack(envelope, queue=queue)
    except (UnknownTask, compat.InvalidTask) as error:
        raise compat.TaskResultDoesNotExist(f"{result_id}: {error}") from error
    result = compat.TaskResult(
        task=task,
        id=str(result_id),
        status=status,
        enqueued_at=conf.as_django(time_of(envelope, "enqueued_at")),
        started_at=conf.as_django(row.started_at if row else None),
        last_attempted_at=conf.as_django(row.last_attempted_at if row else None),
        finished_at=conf.as_django(row.finished_at) if row and status in {FAILED, SUCCESSFUL} else None,
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
    """Return the errors and the workers of the attempts that have ended.

    The record of a result's row has them, but not those of attempts whose row was rolled back, or whose worker
    died. If more attempts have failed than the record has, all are taken from the failed attempts of the message.
    """
    recorded = _recorded(record)
    failed = list(Attempt.objects.using(conf.load().DATABASE).filter(message_id=message_id).order_by("id"))
    if len(failed) <= len(recorded[1]):
        return recorded
    found = [
        compat.TaskError(exception_class_path=_path_of(each), traceback=each.traceback or each.detail)
        for each in failed[-ERRORS:]
    ]
    return found, [each.worker for each in failed]


def _recorded(record: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    return [compat.TaskError(**error) for error in record.get("errors", ())], list(record.get("worker_ids", ()))


def _path_of(failed: Attempt) -> str:
    """Return the path of the exception's class. Rows of earlier releases have only its name."""
    if failed.error_path:
        return failed.error_path
    for module in (builtins, errors):
        if isinstance(getattr(module, failed.error, None), type):
            return f"{module.__name__}.{failed.error}"
    return failed.error


def error_of(error: BaseException, traceback: str = "") -> Any:
    """Return the error for a result."""
    path = path_of(type(error))
    return compat.TaskError(exception_class_path=path, traceback=traceback or f"{path}: {error}\n")


def _decoded(body: Any, content_type: str = "application/json", content_encoding: str = "utf-8") -> Any:
    try:
        return decode_body(bytes(body), content_type, content_encoding)
    except LostKey:
        raise
    except CorruptMessage:
        return None
