"""Where the admin changes something: the store does it, then the consumers it may concern are woken.

Ids are row ids. Every function returns how many messages it changed, and raises MQError.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.admin.table import alias
from django_mq.delivery import instructing, pausing, redriving
from django_mq.delivery.hinting import hint
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from django_mq.engine.conduct import Conduct
    from django_mq.stores.base import Store

#: Messages changed by one statement, so that no transaction grows with the selection.
CHUNK = 1000
#: Dead letters sent back at a time: a page must answer.
REDRIVEN = 10_000


def release(ids: Sequence[int], queues: Iterable[str]) -> int:
    return _changed(_store().release_held, ids, wake=queues)


def move(ids: Sequence[int], target: str) -> int:
    return _changed(partial(_store().move, target=target), ids, wake=[target])


def cancel(ids: Sequence[int]) -> int:
    return _changed(_store().cancel, ids)


def deliver_now(ids: Sequence[int], queues: Iterable[str]) -> int:
    return _changed(_store().deliver_now, ids, wake=queues)


def reschedule(ids: Sequence[int], queues: Iterable[str], deliver_at: datetime) -> int:
    return _changed(partial(_store().reschedule, deliver_at=deliver_at), ids, wake=queues)


def prioritise(ids: Sequence[int], queues: Iterable[str], priority: int) -> int:
    return _changed(partial(_store().prioritise, priority=priority), ids, wake=queues)


def retry(ids: Sequence[int], queues: Iterable[str]) -> int:
    return _changed(_store().retry_dead, ids, wake=queues)


def pause(name: str, *, reason: str, seconds: float | None) -> None:
    pausing.pause(name, reason=reason, seconds=seconds, using=alias())


def resume(name: str) -> None:
    pausing.resume(name, using=alias())


def purge(name: str) -> int:
    return _store().purge(name)


def redrive(name: str) -> tuple[int, int]:
    """Send dead letters back; return how many went, and how many could not."""
    done = redriving.redrive(name, limit=REDRIVEN, using=alias())
    return done.total, done.stayed


def instruct(session_id: int, *, conduct: Conduct | None = None, credit: int | None = None) -> bool:
    """Tell a worker session; return whether it is there."""
    return instructing.instruct(session_id, conduct=conduct, credit=credit, using=alias())


def delete_queue(name: str, *, force: bool) -> int:
    return _store().delete_queue(name, force=force)


def _store() -> Store:
    return shared_store(alias())


def _changed(act: Callable[[Sequence[int]], int], ids: Sequence[int], *, wake: Iterable[str] = ()) -> int:
    changed = sum(act(ids[start : start + CHUNK]) for start in range(0, len(ids), CHUNK))
    if changed:
        hint(wake, using=alias())
    return changed
