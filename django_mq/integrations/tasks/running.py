"""The handler of every queue of our backends: call the task, and write its result.

The result is written before the message is acknowledged, together with other results where a worker settles many
messages. If the worker dies in between, the message is delivered again, and the result says that the task need not
run again.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
import traceback
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections, transaction

from django_mq import conf, outages
from django_mq.delivery.consumer.handlers import add, consumer, registered
from django_mq.engine.decisions.dead_letters import ORIGIN_QUEUE
from django_mq.errors import ConfigurationError, ResultNotSerialisable, StoreUnavailable
from django_mq.integrations.tasks import compat
from django_mq.integrations.tasks.backend import AGREE, our_backends
from django_mq.integrations.tasks.envelope import own_options, time_of, unpack
from django_mq.integrations.tasks.results import (
    columns_of,
    earlier_attempts,
    error_of,
    record_in,
    row_of,
    write,
    write_many,
)
from django_mq.stores.clock import clock
from django_mq.stores.records import Write
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.models import TaskResult

T = TypeVar("T")

#: How long the outcome of a task is written again while the database is away, in seconds.
PATIENCE_SECONDS = 10.0
#: What becomes of a message after an attempt that leaves no trace in the result, and after a last attempt.
UNCOUNTED, LAST = ("released", "declined"), ("dead", "cancelled")
SUCCESSFUL, FAILED = compat.TaskResultStatus.SUCCESSFUL, compat.TaskResultStatus.FAILED


def run_task(message: ReceivedMessage) -> Any:
    """Run the task of a message, and return its value. Raises what the task raises, and UnknownTask."""
    result = _begin(message)
    if result is None:
        return _earlier_value(message)
    task, backend = result.task, result.task.get_backend()
    if backend.our_options.TRANSACTIONAL:
        # After the commit, with the result as it is then, and before the task's own functions, which may raise.
        transaction.on_commit(partial(_tell_finished, result, backend), using=backend.database, robust=True)
    try:
        _tell_started(result, backend)
        value = _serialisable(task.call(*_context(result, message), *result.args, **result.kwargs), task)
    except BaseException as error:
        _fail(result, error, message, backend)
        raise
    _succeed(result, value, message, backend)
    return value


async def arun_task(message: ReceivedMessage) -> Any:
    """Run the task of a message on the event loop, and return its value. Raises as ``run_task``."""
    result = await sync_to_async(_begin)(message) if _is_repeated(message) else _begin(message)
    if result is None:
        return await sync_to_async(_earlier_value)(message)
    task, backend = result.task, result.task.get_backend()
    try:
        # In any thread: the attempt is not to keep one while the task waits.
        await sync_to_async(_tell_started, thread_sensitive=False)(result, backend)
        value = _serialisable(await task.acall(*_context(result, message), *result.args, **result.kwargs), task)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        await sync_to_async(_fail)(result, error, message, backend)
        raise
    await sync_to_async(_succeed)(result, value, message, backend)
    return value


def _begin(message: ReceivedMessage) -> Any:
    """Return the result of a task that is to run, None if it has succeeded before. Raises UnknownTask."""
    envelope = message.body
    task = unpack(envelope, queue=message.queue)
    is_repeated = _is_repeated(message)
    row = row_of(message.id, task.get_backend().database) if is_repeated else None
    if row is not None and row.successful:
        return None
    return _begun(task, message, row, is_repeated=is_repeated)


def _earlier_value(message: ReceivedMessage) -> Any:
    """Return what a task has returned that has succeeded before."""
    task = unpack(message.body, queue=message.queue)
    row = row_of(message.id, task.get_backend().database)
    return None if row is None else record_in(row.record)["value"]


def _is_repeated(message: ReceivedMessage) -> bool:
    """Whether the message may have been delivered before, here or in the queue in which it died."""
    return message.redelivered or message.attempt > 1 or ORIGIN_QUEUE in message.headers


def _now() -> Any:
    return conf.as_django(clock.now())


def _begun(task: Any, message: ReceivedMessage, row: TaskResult | None, *, is_repeated: bool) -> Any:
    envelope, now = message.body, _now()
    record = record_in(row.record) if row else {}
    errors, worker_ids = earlier_attempts(record, message.id) if is_repeated else ([], [])
    return compat.TaskResult(
        task=task,
        id=str(message.id),
        status=compat.TaskResultStatus.RUNNING,
        enqueued_at=conf.as_django(time_of(envelope, "enqueued_at")),
        started_at=conf.as_django(row.started_at) if row and row.started_at else now,
        last_attempted_at=now,
        finished_at=None,
        args=envelope["args"],
        kwargs=envelope["kwargs"],
        backend=task.backend,
        errors=errors,
        worker_ids=[*worker_ids, _worker_of(os.getpid())],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext(compat.TaskContext):  # type: ignore[misc] # it is Django's, or the package's
    """What a task that takes the context gets: Django's, and the message, which knows when the task has to end."""

    message: ReceivedMessage


@cache
def _worker_of(process_id: int) -> str:
    return f"{socket.gethostname()}:{process_id}"


def _context(result: Any, message: ReceivedMessage) -> list[Any]:
    """Return what a task gets before its own arguments."""
    return [MessageContext(task_result=result, message=message)] if result.task.takes_context else []


def _serialisable(value: Any, task: Any) -> Any:
    """Return a return value as JSON has it. Raises ResultNotSerialisable."""
    try:
        plain = compat.normalize_json(value)
        json.dumps(plain)
    except Exception as error:  # a value may raise anything while it is read
        raise ResultNotSerialisable(
            f"{task.module_path} has run, but JSON cannot express its return value, of type"
            f" {type(value).__name__}: {error}. Return numbers, texts, lists and dictionaries."
        ) from error
    return plain


def _tell_started(result: Any, backend: Any) -> None:
    """Send task_started. If a receiver fails, the task does not run."""
    compat.task_started.send(type(backend), task_result=result)


def _tell_finished(result: Any, backend: Any) -> None:
    """Send task_finished. A receiver that fails is logged: the outcome of the task does not change."""
    compat.task_finished.send_robust(type(backend), task_result=result)


def _succeed(result: Any, value: Any, message: ReceivedMessage, backend: Any) -> None:
    """Write what the task has returned."""
    _set(result, status=SUCCESSFUL, finished_at=_now(), _return_value=value)
    _write(result, message, backend, successful=True)
    if not backend.our_options.TRANSACTIONAL:
        _tell_finished(result, backend)


def _fail(result: Any, error: BaseException, message: ReceivedMessage, backend: Any) -> None:
    """Write the error of an attempt that counts. After the last attempt the task has failed."""
    outcome = "" if message.delivery is None else message.delivery.outcome(error)
    if outcome in UNCOUNTED:
        return
    is_last = outcome in LAST
    # As in Django's own backends, the error of such a value is that of JSON.
    shown = error.__cause__ if isinstance(error, ResultNotSerialisable) and error.__cause__ else error
    result.errors.append(error_of(shown, "".join(traceback.format_exception(error))))
    if is_last:
        _set(result, status=FAILED, finished_at=_now())
    if not backend.our_options.TRANSACTIONAL:  # the row would be rolled back with the task's transaction
        _write(result, message, backend, successful=False)
    if is_last:
        _tell_finished(result, backend)


def _write(result: Any, message: ReceivedMessage, backend: Any, *, successful: bool) -> None:
    """Write the outcome, at once if a receiver hears of it, otherwise with others before they are settled."""
    delivery = message.delivery
    columns = columns_of(result, message.body, successful=successful, days=backend.our_options.RESULT_DAYS)
    is_alone = backend.our_options.TRANSACTIONAL or compat.is_heard(compat.task_finished, type(backend))
    if delivery is not None and delivery.is_settled_later and not is_alone:
        delivery.first = Write(write_many, columns)
    else:
        _over_new_connections(partial(write, columns, backend.database), backend.database)


def _over_new_connections(function: Callable[[], T], alias: str) -> T:
    """Call the function, again if the connection is lost: the task has run, and would be repeated.

    In a transaction, the task's own writes are lost with the connection.
    """
    store, end = shared_store(alias), time.monotonic() + PATIENCE_SECONDS
    for failures in count():
        try:
            return function()
        except (StoreUnavailable, OperationalError, InterfaceError):
            is_lost = not store.database.in_transaction and (
                store.database.reconnect() or connections[alias].connection is None
            )
            if not is_lost or time.monotonic() > end:
                raise
        if failures:  # the server may be starting
            time.sleep(outages.pause_seconds(failures - 1))
    raise AssertionError  # the loop has no end


def _set(result: Any, **values: Any) -> None:
    """Change a result, which is a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def serve_all() -> None:
    """Register the handler for the queues of every backend of ours. Raises ConfigurationError."""
    for backend in our_backends():
        if contradiction := backend.contradiction():
            raise ConfigurationError(f"TASKS[{backend.alias!r}]: {contradiction}. {AGREE}")
        options = backend.our_options.of_handler
        for queue in sorted(backend.queues):
            consumer(queue, **options)(arun_task if backend.our_options.ASYNC else run_task)
            add(replace(registered(queue)[-1], for_message=own_options))
