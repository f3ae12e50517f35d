"""Tasks that do not succeed: an ``Attempt`` row for each failed run, and the retry.

Celery's messages do not say that a task failed or was retried. The signals of the process that ran it do, so the
admin can show a dead letter with the tracebacks of all its runs, which share the task id.

The row is written over a connection of its own: Celery closes Django's after each task. It stays open while
failures follow each other closely, because opening it takes longer than most tasks.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from dataclasses import dataclass
from functools import wraps
from traceback import format_exception
from typing import TYPE_CHECKING, Any, NoReturn

from celery import Task, signals
from celery.app.trace import task_has_custom
from celery.exceptions import Reject
from celery.states import REJECTED
from kombu.utils.functional import retry_over_time

from django_mq import conf
from django_mq.delivery.validation import seconds
from django_mq.errors import InvalidMessage, MQError, RateLimited, StoreError, StoreUnavailable
from django_mq.integrations.celery import attempts
from django_mq.stores.records import Failure, Write, write_all
from django_mq.stores.registry import private_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from celery import Celery

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.celery")

#: A failure within so many seconds of another keeps the connection open.
KEEP_SECONDS = 1.0


@dataclass(slots=True)
class Kept:
    """The store for the failures of a worker; a child that inherits it opens a connection of its own."""

    store: Store
    #: When a task last failed, on the monotonic clock.
    last: float = float("-inf")


#: The one of this process, once ``connect`` was called.
_kept: list[Kept] = []


def connect(alias: str) -> None:
    """Record failed and retried tasks in this process and in the children that it forks."""
    for kept in _kept:
        kept.store.close()  # of a worker that ran in this process before
    _kept[:] = [Kept(private_store(alias))]
    signals.task_failure.connect(on_failure, dispatch_uid="django_mq.failures.failure")
    signals.task_retry.connect(on_retry, dispatch_uid="django_mq.failures.retry")
    signals.task_internal_error.connect(on_failure, dispatch_uid="django_mq.failures.internal")
    signals.task_postrun.connect(on_end, dispatch_uid="django_mq.failures.rejected")


def on_retry(sender: Any, request: Any, einfo: Any, reason: Any = None, **_: Any) -> None:
    """Record a run that ended with a retry, and its reason."""
    if reason is None:
        return  # a worker that ends now has cancelled the task, which has not failed
    error = getattr(reason, "exc", None) or reason
    if not isinstance(error, RateLimited):  # which counts no attempt
        _record(sender, request, error, str(einfo))


def on_failure(sender: Any, task_id: str, exception: Any, einfo: Any, **_: Any) -> None:
    """Record a run that failed for good."""
    request = getattr(sender, "request", None)
    if request is None or request.id != task_id:
        return  # the parent reports a Reject that its child has recorded already
    _record(sender, request, exception, str(einfo))


def on_end(sender: Any, state: Any, retval: Any, **_: Any) -> None:
    """Record a run that rejected its message: there is no other signal in the process that ran it."""
    if state == REJECTED and not retval.requeue:
        error = retval.reason if isinstance(retval.reason, BaseException) else retval
        _record(sender, sender.request, error, "".join(format_exception(retval)))


def _record(task: Any, request: Any, error: Any, trace: str) -> None:
    if task.name == attempts.DELIVER:
        return  # the settlement of a handler's message records its failure
    info = request.delivery_info or {}
    failure = Failure.of(error, trace)
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
        logger.warning("The failed attempt of task %s was not recorded: %s", request.id, store_error)


def _write(failure: Failure, attempt: dict[str, Any]) -> None:
    kept, now = _kept[0], time.monotonic()
    shared = shared_store(kept.store.alias)
    if shared.database.in_transaction:  # a task called by another one: a second writer would wait for the first
        shared.settlements.record_attempt(failure, **attempt)
        return
    soon, kept.last = now - kept.last <= KEEP_SECONDS, now
    try:
        kept.store.settlements.record_attempt(failure, **attempt)
    except StoreUnavailable:  # the database was restarted since the last failure
        kept.store.close()
        kept.store.settlements.record_attempt(failure, **attempt)
    if not soon:
        kept.store.close()


# A task's retry or replacement, which must outlive the roll-back by the exception that ends the task.
#
# Where the database takes a second writer, the publisher writes these at once, on a private connection. SQLite
# takes none: the write would wait for the transaction that waits for it. So it waits for the end of the task's
# body, and with it of every transaction that the body opened.
#
# Celery acknowledges a task that asked for a retry, and only logs what a signal's receiver raises. So these writes
# are part of the body: if a retry cannot be written, the task gives its message back. So does a task that has
# succeeded while the database takes no connections, if other tasks are to follow it.

#: The options of Celery's ``task_publish_retry_policy`` that say how often and when to try again.
PATIENCE = ("max_retries", "interval_start", "interval_step", "interval_max")
#: The attribute of a covered body with the database alias.
COVERED = "_django_mq_covered"
#: What the log calls a task's retry.
ITSELF = "its retry or replacement"


class _Deferred(threading.local):
    def __init__(self) -> None:
        #: The writes that wait for the end of a task's body, with the id of the task.
        self.writes: list[tuple[str, Callable[[], None]]] = []
        #: The id of the task that is in ``self.retry()`` or ``self.replace()``.
        self.owner: str | None = None


_deferred = _Deferred()


def defer(task_id: str, write: Callable[[], None]) -> None:
    """Call ``write`` at the end of a running task's body, when the transactions that it opened have ended."""
    _deferred.writes.append((task_id, write))


def owner() -> str | None:
    """Return the id of the task that is publishing its retry or replacement now."""
    return _deferred.owner


def is_continuing(headers: Mapping[str, Any]) -> bool:
    """Whether a task that is published continues its own run: as its retry, or as its replacement."""
    return bool(headers.get("retries")) or (_deferred.owner is not None and headers.get("id") == _deferred.owner)


def write_deferred(task_id: str, **_: Any) -> None:
    """Make the writes that wait for the end of this task; then raise the first error, if there was one.

    Those of other tasks stay: a task that the body calls or applies may end inside a transaction of the body.
    """
    errors = []
    waiting = _deferred.writes
    _deferred.writes = [each for each in waiting if each[0] != task_id]
    for write in [write for owner, write in waiting if owner == task_id]:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - the next write must be made
            errors.append(error)
    if errors:
        raise errors[0]


# For a task that is not covered, because it was registered after its worker had started.
signals.task_postrun.connect(write_deferred, dispatch_uid="django_mq.retries")


def cover_all(app: Celery, alias: str) -> None:
    """Cover all tasks of an app. Call it before a worker prepares to run them."""
    for task in app.tasks.values():
        cover(task, alias)


def cover(task: Any, alias: str) -> None:
    """Make a task give its message back if its retry, or what follows it, cannot be published.

    A task that was acknowledged when it began has no message: it fails.
    """
    if task_has_custom(task, "__call__"):
        _cover(type(task), "__call__", lambda args: args[0], alias)  # other tasks may have this class, too
    else:
        _cover(task, "run", lambda _: task, alias)
    for name in ("retry", "replace"):
        _note_owner(task, name)


def _note_owner(task: Any, name: str) -> None:
    """Let ``owner`` say that a method of the task publishes its retry: not every header does."""
    publish = getattr(task, name)
    if hasattr(publish, COVERED):
        return

    @wraps(publish)
    def noting(*args: Any, **options: Any) -> Any:
        request = task.request
        if request.is_eager or request.called_directly:
            return publish(*args, **options)  # it publishes nothing, and other tasks may run in it
        _deferred.owner, before = request.id, _deferred.owner
        try:
            return publish(*args, **options)
        finally:
            _deferred.owner = before

    setattr(noting, COVERED, True)
    setattr(task, name, noting)


def _cover(owner: Any, name: str, task_of: Callable[[tuple[Any, ...]], Any], alias: str) -> None:
    """Replace a body, once: another worker of the process, or a class that inherits it, finds it covered."""
    body = getattr(owner, name)
    if getattr(body, COVERED, None) == alias:
        return

    @wraps(body)
    def run(*args: Any, **options: Any) -> Any:
        task = task_of(args)
        try:
            try:
                # With the middleware inside: it has ended what it began when a deferred write is made.
                has_middleware = conf.middleware().attempts and task.name != attempts.DELIVER
                result = attempts.call(body, task, args, options) if has_middleware else body(*args, **options)
            except RateLimited as limited:
                raise _later(task, limited, alias) from limited
            finally:
                _write_or_refuse(task)
        except Reject as reject:
            error = _unpublished(reject)
            if error is None:
                raise
            _refuse(task, error, ITSELF)
        if task.acks_late and _is_followed(task.request):
            _look_or_refuse(task, alias)
        return result

    setattr(run, COVERED, alias)
    setattr(owner, name, run)


def _later(task: Any, limited: RateLimited, alias: str) -> BaseException:
    """Publish a task again that its service limits, as a retry that is not counted; return what ends its body.

    Its keys are held before. A task that runs without a message ends with the error itself.
    """
    request = task.request
    if request.called_directly or request.is_eager:
        return limited
    try:
        delay = seconds(limited.retry_after_seconds, "retry_after_seconds")
    except InvalidMessage as error:
        logger.warning("Task %s is tried again after its default_retry_delay: %s", request.id, error)
        delay = task.default_retry_delay
    if isinstance(limited.first, Write):
        write_all(shared_store(alias), [limited.first])
    request.retries -= 1
    try:
        again: BaseException = task.retry(exc=limited, countdown=delay, throw=False)
    finally:
        request.retries += 1
    return again


def _is_followed(request: Any) -> bool:
    """Whether Celery publishes other tasks when the body has succeeded."""
    return bool(request.callbacks or request.chain or request.chord) and not request.is_eager


def _look_or_refuse(task: Any, alias: str) -> None:
    """Check that the database can be reached, with as many tries as Celery makes when it publishes.

    If Celery cannot publish what follows, the task has failed and is acknowledged: the chain ends. Django
    keeps the connection that this check may open until Celery has published.
    """
    store = shared_store(alias)
    policy = task.app.conf.task_publish_retry_policy if task.app.conf.task_publish_retry else {}
    limits = {"max_retries": 0, "interval_start": 0} | {name: policy[name] for name in PATIENCE if name in policy}
    try:
        retry_over_time(lambda: _look(store), StoreUnavailable, **limits)
    except StoreError as error:
        _refuse(task, error, "what follows it")


def _look(store: Store) -> None:
    try:
        store.queues.find("")
    except StoreUnavailable:
        store.database.reconnect()  # for the next try
        raise


def _write_or_refuse(task: Any) -> None:
    try:
        write_deferred(task.request.id)
    except Exception as error:  # noqa: BLE001 - the body ends with it
        _refuse(task, error, ITSELF)


def _unpublished(reject: Reject) -> Exception | None:
    """Return why ``self.retry()`` could not publish; None if it never can, or if the task itself rejects."""
    error: Any = getattr(reject, "reason", None)
    cause = error if isinstance(error, MQError) else getattr(error, "__cause__", None)
    passing = isinstance(cause, MQError) and not isinstance(cause, InvalidMessage)
    return error if passing and _raised_by_retry(reject) else None


def _raised_by_retry(reject: Reject) -> bool:
    trace = reject.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is Task.retry.__code__


def _refuse(task: Any, error: Exception, what: str) -> NoReturn:
    """End the body of a task that could not publish something: its message goes back, or the task fails."""
    outcome = "its message goes back" if task.acks_late else "it was acknowledged when it began, and has failed"
    logger.error("Task %s could not publish %s: %s; %s.", task.request.id, what, error, outcome)
    if task.acks_late:
        raise Reject(error, requeue=True) from error
    raise error  # with the cause that it has
