"""Celery's pools: when a task may begin, and which tasks a child process was given."""

# ruff: noqa: SLF001 - Celery's pools have no other words for their jobs and children
from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

from django_mq.errors import SessionLost, StoreError

if TYPE_CHECKING:
    from django_mq.delivery.consumer.session import Session

#: The state of a pool that runs tasks: billiard's ``RUN``, which programs that only publish need not import.
RUN = 0

# Celery's pools: a task may begin only while its lease is certain.
#
# A pool of processes is given a task by the worker's loop when a process is free, after ``before_events`` of the
# transport. A pool of threads or green threads begins a task by itself.

#: Time between two tries to have the lease confirmed, in seconds.
PAUSE_SECONDS = 0.5


def begin_if_certain(pool: Any) -> None:
    """Make a pool of threads, once, confirm the lease before each task. A pool of processes stays as it is."""
    apply = pool.on_apply
    if pool.uses_semaphore or hasattr(apply, "confirms_lease"):
        return

    def on_apply(*args: Any, accept_callback: Any = None, **options: Any) -> Any:
        # The callback is a method of Celery's request, which has the message.
        message = getattr(getattr(accept_callback, "__self__", None), "message", None)
        session: Any = getattr(message, "session", None)

        def accept(*given: Any) -> None:
            # The pool calls this right before the task, in its thread. An error keeps the task from running.
            if not _may_begin(session):
                raise SessionLost
            accept_callback(*given)

        return apply(*args, accept_callback=accept_callback if session is None else accept, **options)

    on_apply.confirms_lease = True  # type: ignore[attr-defined]
    pool.on_apply = on_apply


def _may_begin(session: Session) -> bool:
    """Wait until the lease is certain; return False if the session has given the message back meanwhile."""
    while not (session.may_begin or session.lost or session.retired):
        try:
            session.ensure_certain()
        except SessionLost:
            return False
        except StoreError:
            time.sleep(PAUSE_SECONDS)  # the heartbeat logs the outage
    return not (session.lost or session.retired)


# Celery's prefork pool: what a child has been given counts as running.
#
# When a worker stops or reconnects, Celery has its pool forget every task that no child has accepted, because the
# broker delivers it again. But a child runs a task whose bytes are in its pipe: the task would run twice, and the
# child would wait half a minute for a reader of the result before it ends. So these tasks are kept.
#
# A child that ends without reading its pipe, as with ``--max-tasks-per-child``, leaves its task to the pool, which
# gives it to another child. Until that has begun to write it, the task waits, and is forgotten like others.

#: Celery's pools of this process that ``keep_given`` has seen.
_pools: weakref.WeakSet[Any] = weakref.WeakSet()


def keep_given(pool: Any) -> None:
    """Make a prefork pool keep what its children were given when it is told to forget. Others stay as they are."""
    processes = getattr(pool, "_pool", None)
    if getattr(pool, "flush", None) is None or not hasattr(processes, "outbound_buffer"):
        return
    _pools.add(processes)
    pool.flush = lambda: _flush(processes)


def given_task_ids() -> set[str]:
    """Return the ids of tasks that a child was given and has not accepted yet."""
    jobs = ((job, processes) for processes in _pools for job in _unaccepted(processes))
    return {job.correlation_id for job, processes in jobs if _is_given(job, processes)}


def _unaccepted(processes: Any) -> list[Any]:
    return [job for job in list(processes._cache.values()) if not job._accepted]


def _is_given(job: Any, processes: Any) -> bool:
    """Whether all bytes of a job are in the pipe of a child, which runs it or leaves it to the running pool."""
    child = getattr(job, "_write_to", None)
    # Celery names a child for a job that waits for any, too, if the number of its pipe is that of an ended child.
    if child is None or job in processes.outbound_buffer or child not in processes._pool:
        return False
    if not child._is_alive() and processes._state != RUN:
        return False
    writer = getattr(job, "_writer", None)  # a weak reference to a generator
    writing = writer() if writer is not None else None
    return writing is None or writing.gi_frame is None


def _flush(processes: Any) -> None:
    """Forget as Celery does, except for the given jobs; give back the messages of the forgotten ones."""
    unaccepted = _unaccepted(processes)
    given = [(job, job._write_to) for job in unaccepted if _is_given(job, processes)]
    for job, _ in given:
        job._accepted = True  # Celery keeps accepted jobs, and does not use a pipe again that has one in it
    try:
        processes.flush()
    finally:
        for job, child in given:
            job._accepted = job._worker_pid is not None  # it may have been accepted meanwhile
            if child in processes._pool:
                processes._busy_workers.add(child.inqW_fd)
            elif not job._accepted:
                job.discard()  # the child has ended
        for job in unaccepted:
            if job._job not in processes._cache:
                _give_back(job)


def _give_back(job: Any) -> None:
    """Give back, uncounted, the message of a forgotten job, unless its channel has done so when it closed."""
    message: Any = getattr(getattr(job._accept_callback, "__self__", None), "message", None)
    if getattr(message, "claimed", None) is not None and message.channel.qos.take(str(message.delivery_tag)):
        message.session.release(message.claimed)
