"""Why tasks failed: every failed run of a task from our queues becomes an ``Attempt`` row.

Retries and failures are Celery's own affair, and its messages say nothing of them. The
signals of the process that ran the task do, so the admin can show a dead letter with the
tracebacks of all its runs: they share the task id, which is the correlation id.

The row is written over a connection of its own: Celery closes Django's after each task. It is kept
while failures follow each other closely, because to open one takes longer than most tasks.
"""

from __future__ import annotations

import logging
import socket
import time
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from celery import signals
from celery.states import REJECTED

from django_mq.errors import StoreError, StoreUnavailable
from django_mq.stores.records import Failure
from django_mq.stores.registry import private_store, shared_store

if TYPE_CHECKING:
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.celery")


#: The database alias of the worker's queues.
_alias: list[str] = []
#: Alias to the store kept for failures; one that a child inherits opens a connection of its own.
_kept: dict[str, Store] = {}
#: Alias to the time of the last failure, on the monotonic clock.
_last: dict[str, float] = {}
#: A failure that comes so soon after another, in seconds, keeps the connection open.
KEEP_SECONDS = 1.0


def connect(alias: str) -> None:
    """Listen to failed and retried tasks in this process and in the children it will fork."""
    _alias[:] = [alias]
    _kept[alias] = private_store(alias)
    signals.task_failure.connect(on_failure, dispatch_uid="django_mq.failures.failure")
    signals.task_retry.connect(on_retry, dispatch_uid="django_mq.failures.retry")
    signals.task_internal_error.connect(on_failure, dispatch_uid="django_mq.failures.internal")
    signals.task_postrun.connect(on_end, dispatch_uid="django_mq.failures.rejected")


def forget(alias: str) -> None:
    """Close the connection kept for failures."""
    _kept.pop(alias).close()
    _last.pop(alias, None)


def on_retry(sender: Any, request: Any, reason: Any, einfo: Any, **_: Any) -> None:
    """Record a run that asked to be repeated, with what made it ask."""
    error = getattr(reason, "exc", None) or reason
    _record(sender, request, error, str(einfo))


def on_failure(sender: Any, task_id: str, exception: Any, einfo: Any, **_: Any) -> None:
    """Record a run that failed for good."""
    request = getattr(sender, "request", None)
    if request is None or request.id != task_id:
        return  # the parent reports the Reject of a child that has recorded it already
    _record(sender, request, exception, str(einfo))


def on_end(sender: Any, state: Any, retval: Any, **_: Any) -> None:
    """Record a run that rejected its message: the process that ran it has no other signal for that."""
    if state == REJECTED and not retval.requeue:
        error = retval.reason if isinstance(retval.reason, BaseException) else retval
        _record(sender, sender.request, error, "".join(format_exception(retval)))


def _record(task: Any, request: Any, error: Any, trace: str) -> None:
    if task.name == "django_mq.deliver":
        return  # a handler's failures are recorded with their settlement
    info = request.delivery_info or {}
    failure = Failure(error=type(error).__name__, detail=str(error), traceback=trace)
    attempt = {
        "queue_name": str(info.get("routing_key") or ""),
        "number": (request.retries or 0) + 1,
        "worker": request.hostname or socket.gethostname(),
        "correlation_id": request.id,
        "type": task.name,
    }
    try:
        _write(failure, attempt)
    except StoreError as store_error:
        # The task's own outcome stands; only its story is incomplete.
        logger.warning("The failed attempt of task %s was not recorded: %s", request.id, store_error)


def _write(failure: Failure, attempt: dict[str, Any]) -> None:
    shared = shared_store(_alias[0])
    if shared.in_transaction:  # a task called by another one: a second writer would wait for the first
        shared.record_attempt(failure, **attempt)
        return
    store, last, now = _kept[_alias[0]], _last.get(_alias[0], float("-inf")), time.monotonic()
    _last[_alias[0]] = now
    try:
        store.record_attempt(failure, **attempt)
    except StoreUnavailable:  # the database was restarted since the last failure
        store.close()
        store.record_attempt(failure, **attempt)
    if now - last > KEEP_SECONDS:
        store.close()
