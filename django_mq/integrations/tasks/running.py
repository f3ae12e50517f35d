"""The handler of every queue of our backends: call the task, and write its result.

The result is written before the message is acknowledged. If the worker dies in between, the message is delivered
again, and the result says that the task need not run again.
"""

from __future__ import annotations

import json
import os
import socket
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_mq.delivery.consumer.handlers import consumer
from django_mq.engine.decisions.verdict import Verdict, ending_of, verdict
from django_mq.engine.options import QueueOptions
from django_mq.errors import Decline, Release
from django_mq.integrations.tasks import compat
from django_mq.integrations.tasks.backend import MQBackend
from django_mq.integrations.tasks.compat import task_backends
from django_mq.integrations.tasks.envelope import time_of, unpack
from django_mq.integrations.tasks.results import earlier_attempts, error_of, row_of, write
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from django_mq.delivery.messages import ReceivedMessage
    from django_mq.models import TaskResult

SUCCESSFUL, FAILED = compat.TaskResultStatus.SUCCESSFUL, compat.TaskResultStatus.FAILED


def run_task(message: ReceivedMessage) -> None:
    """Run the task of a message. Raises what the task raises, and UnknownTask."""
    envelope = message.body
    task = unpack(envelope, queue=message.queue)
    backend = task.get_backend()
    row = row_of(message.id, backend.database) if _is_repeated(message) else None
    if row is not None and row.successful:
        return
    result = _begun(task, message, envelope, row)
    compat.task_started.send(type(backend), task_result=result)
    try:
        value = compat.normalize_json(_call(task, result))
    except (Release, Decline):
        raise
    except BaseException as error:
        _fail(result, error, envelope, is_last=_is_last(error, message, backend))
        raise
    _set(result, status=SUCCESSFUL, finished_at=datetime.now(UTC), _return_value=value)
    write(result, envelope, successful=True, days=backend.our_options.RESULT_DAYS, using=backend.database)
    compat.task_finished.send(type(backend), task_result=result)


def _is_repeated(message: ReceivedMessage) -> bool:
    """Whether the message may have been delivered before."""
    return message.redelivered or message.attempt > 1


def _begun(task: Any, message: ReceivedMessage, envelope: Any, row: TaskResult | None) -> Any:
    now = datetime.now(UTC)
    record = json.loads(row.record) if row else {}
    errors, worker_ids = earlier_attempts(record, message.id) if _is_repeated(message) else ([], [])
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return compat.TaskResult(
        task=task,
        id=str(message.id),
        status=compat.TaskResultStatus.RUNNING,
        enqueued_at=time_of(envelope, "enqueued_at"),
        started_at=row.started_at if row else now,
        last_attempted_at=now,
        finished_at=None,
        args=envelope["args"],
        kwargs=envelope["kwargs"],
        backend=task.backend,
        errors=errors,
        worker_ids=[*worker_ids, worker],
    )


def _call(task: Any, result: Any) -> Any:
    context = [compat.TaskContext(task_result=result)] if task.takes_context else []
    return task.call(*context, *result.args, **result.kwargs)


def _fail(result: Any, error: BaseException, envelope: Any, *, is_last: bool) -> None:
    """Write the error. After the last attempt the task has failed."""
    backend = result.task.get_backend()
    result.errors.append(error_of(error, "".join(traceback.format_exception(error))))
    if is_last:
        _set(result, status=FAILED, finished_at=datetime.now(UTC))
    if not backend.our_options.TRANSACTIONAL:  # the row would be rolled back with the task's transaction
        days = backend.our_options.RESULT_DAYS
        write(result, envelope, successful=False, days=days, using=backend.database)
    if is_last:
        compat.task_finished.send(type(backend), task_result=result)


def _is_last(error: BaseException, message: ReceivedMessage, backend: Any) -> bool:
    queue = shared_store(backend.database).queue(message.queue) or QueueOptions()
    return verdict(ending_of(error), message.attempt, queue).verdict is Verdict.DEAD


def _set(result: Any, **values: Any) -> None:
    """Change a result, which is a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def serve_all() -> None:
    """Register the handler for the queues of every backend of ours. Raises ConfigurationError."""
    for alias in task_backends:
        backend = task_backends[alias]
        if not isinstance(backend, MQBackend):
            continue
        options = backend.our_options
        for queue in sorted(backend.queues):
            consumer(
                queue,
                credit=options.CREDIT,
                time_limit_seconds=options.TIME_LIMIT_SECONDS,
                transactional=options.TRANSACTIONAL,
            )(run_task)
