"""What this package uses of Celery, Kombu and billiard that they do not promise to keep.

No other file uses a private name of theirs. ``tests/integrations/celery/test_internals.py`` looks each name up,
and says which one a release no longer has. The last table has the releases with which it passed.

======================================  ==================  =================================================
of                                      name                what for
======================================  ==================  =================================================
celery.concurrency.prefork.TaskPool     _pool               the processes of a pool
celery.concurrency.asynpool.AsynPool    outbound_buffer     the jobs that wait for a child
celery.concurrency.asynpool.AsynPool    _busy_workers       the children that are given nothing more
billiard.pool.Pool                      _cache              the jobs that have not ended
billiard.pool.Pool                      _pool               the children
billiard.pool.Pool                      _state              whether the pool runs tasks
billiard.process.BaseProcess            inqW_fd             which pipe a child reads
billiard.process.BaseProcess            _is_alive           whether a child has ended
billiard.pool.ApplyResult               _job                the number of a job
billiard.pool.ApplyResult               _accepted           whether a child has begun a job
billiard.pool.ApplyResult               _worker_pid         the child that has begun a job
billiard.pool.ApplyResult               _write_to           the child that a job is written to
billiard.pool.ApplyResult               _writer             whether all of a job is written
billiard.pool.ApplyResult               _accept_callback    the request, and so the message, of a job
billiard.common                         _should_have_exited whether the parent has ended this child
kombu.asynchronous.semaphore.LaxBoundedSemaphore  _waiting  the tasks that wait for a process
kombu.messaging.Consumer                _receive_callback   what a channel calls with a message
celery.result.AsyncResult               _maybe_set_cache    the result of a task that was waited for
======================================  ==================  =================================================

======  ======  ========
Celery  Kombu   billiard
======  ======  ========
5.5.0   5.5.2   4.2.1
5.6.3   5.7.0   4.3.2
5.7.0   5.7.0   4.3.2
======  ======  ========
"""

# ruff: noqa: SLF001 - Celery's pools have no other words for their jobs and children
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, MutableSequence

#: The state of a pool that runs tasks: billiard's ``RUN``, which programs that only publish need not import.
RUN = 0

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


# Smaller needs.


def waiting_for_process(semaphore: Any) -> MutableSequence[Any]:
    """Return the functions that wait for a process of a pool, each with its arguments, the request first."""
    return [] if semaphore is None else semaphore._waiting  # pools of threads have no semaphore


def receiver_of(consumer: Any) -> Callable[[Any], Any]:
    """Return what Kombu's consumer gives to its channel, to be called with each message."""
    return consumer._receive_callback  # type: ignore[no-any-return]


def keep_meta(result: Any, meta: dict[str, Any]) -> None:
    """Let a result know what is stored of its task, as Celery's own backends do."""
    result._maybe_set_cache(meta)


def is_ended_by_parent() -> bool:
    """Whether the pool has ended this child."""
    from billiard import common  # noqa: PLC0415 - programs that only publish have no pool

    return bool(common._should_have_exited[0])  # type: ignore[attr-defined]
