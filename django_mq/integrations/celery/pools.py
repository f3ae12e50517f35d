"""A pool of threads or green threads begins a task by itself: not before its lease is certain.

A pool of processes is given a task by the worker's loop when a process is free: ``loops.before_events``.
"""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING, Any

from django_mq.errors import SessionLost, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.session import Session

logger = logging.getLogger("django_mq.celery")

#: Time between two tries to have the lease confirmed, in seconds.
PAUSE_SECONDS = 0.5


def begin_if_certain(pool: Any) -> None:
    """Have the pool ask before each task; once for the pool's life. One of processes is left alone."""
    if pool.uses_semaphore or isinstance(pool.on_apply, _Apply):
        return
    pool.on_apply = _Apply(pool.on_apply)


class _Apply:
    """The pool's way to run a task in a slot of its own, with a question in front."""

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply = apply

    def __call__(self, *args: Any, accept_callback: Any = None, **options: Any) -> Any:
        session = getattr(_message_of(accept_callback), "session", None)
        if session is None:
            return self._apply(*args, accept_callback=accept_callback, **options)

        def accept(*given: Any) -> None:
            # The pool calls this in the slot, right before the task; an error keeps the task from running.
            if not _may_begin(session):
                raise SessionLost
            accept_callback(*given)

        return self._apply(*args, accept_callback=accept, **options)


def _may_begin(session: Session) -> bool:
    """Wait until the lease is certain; False if the messages that had not begun were given back meanwhile."""
    while not (session.certainty.holds or session.lost or session.retired):
        try:
            session.certainty.ensure()
        except SessionLost:
            return False
        except StoreError as error:
            logger.warning("A message waits for its lease to be confirmed: %s", error)
            time.sleep(PAUSE_SECONDS)
    return not (session.lost or session.retired)


def _message_of(accept_callback: Any) -> Any:
    """Return the message of the request whose method this is, None of any other callable."""
    request = getattr(accept_callback, "__self__", None)
    return getattr(request, "message", None)


# What the children of a prefork pool have been given.
#
# A worker that stops or reconnects has its pool forget every task that no child has accepted:
# the broker delivers it again. A task whose bytes are in a child's pipe is among them, and the
# child runs it all the same. It would run twice, its result would not be read, and the child
# would wait half a minute for a reader before it ends. So these are kept, and count as running.

#: Celery's pools of this process that ``keep_given`` has seen.
_pools: weakref.WeakSet[Any] = weakref.WeakSet()


def keep_given(pool: Any) -> None:
    """Have a Celery pool keep, when it is told to forget, what a child has been given; others stay as they are."""
    processes = getattr(pool, "_pool", None)
    if getattr(pool, "flush", None) is None or not hasattr(processes, "outbound_buffer"):
        return
    _pools.add(processes)
    pool.flush = lambda: _flush(processes)


def given_task_ids() -> set[str]:
    """Return the ids of tasks that a child has been given and has not accepted yet."""
    return {job.correlation_id for processes in _pools for job in _given(processes).values()}


def _given(processes: Any) -> dict[int, Any]:
    cache: dict[int, Any] = processes._cache  # noqa: SLF001 - Celery's pool has no other word for it
    return {number: job for number, job in list(cache.items()) if _is_given(job)}


def _is_given(job: Any) -> bool:
    """Whether all bytes of a job are in a living child's pipe, and the child has said nothing of it yet."""
    process = getattr(job, "_write_to", None)
    if process is None or job._accepted or not process._is_alive():  # noqa: SLF001 - as above
        return False
    writer = getattr(job, "_writer", None)  # a weak reference to a generator
    writing = writer() if writer is not None else None
    return writing is None or writing.gi_frame is None


def _flush(processes: Any) -> None:
    """Forget as Celery does, but for what was given: that is out of sight meanwhile."""
    cache, given = processes._cache, _given(processes)  # noqa: SLF001 - as above
    for number in given:
        del cache[number]
    try:
        processes.flush()
    finally:
        # One whose child has died meanwhile is the broker's again.
        kept = {number: job for number, job in given.items() if _is_given(job)}
        cache.update(kept)
        processes._busy_workers.update(job._write_to.inqW_fd for job in kept.values())  # noqa: SLF001 - as above
