"""What the children of a prefork pool have been given.

A worker that stops or reconnects has its pool forget every task that no child has accepted:
the broker delivers it again. A task whose bytes are in a child's pipe is among them, and the
child runs it all the same. It would run twice, nobody would read its result, and the child
would wait half a minute for a reader before it ends. So these are kept, and count as running.
"""

from __future__ import annotations

import weakref
from typing import Any

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
