"""What an operator does to single messages: the store does it, then the consumers it may concern are woken.

Ids are row ids; of the messages in another state than an act is for, none is changed. Every function returns
how many messages it changed, and raises MQError.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.delivery import redriving
from django_mq.delivery.hinting import hint
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

#: Messages changed by one statement, so that no transaction grows with the selection.
CHUNK = 1000


def release(ids: Sequence[int], queues: Iterable[str], *, using: str) -> int:
    """Take claimed messages from their workers; what these report later is ignored."""
    return _changed(shared_store(using).release_held, ids, wake=queues, using=using)


def move(ids: Sequence[int], target: str, *, using: str) -> int:
    """Move messages that nobody holds to the tail of another queue; their attempts start again."""
    return _changed(partial(shared_store(using).move, target=target), ids, wake=[target], using=using)


def cancel(ids: Sequence[int], *, using: str) -> int:
    """Remove messages that nobody holds."""
    return _changed(shared_store(using).cancel, ids, wake=(), using=using)


def deliver_now(ids: Sequence[int], queues: Iterable[str], *, using: str) -> int:
    """Make scheduled messages ready."""
    return _changed(shared_store(using).deliver_now, ids, wake=queues, using=using)


def reschedule(ids: Sequence[int], queues: Iterable[str], deliver_at: datetime, *, using: str) -> int:
    """Give scheduled or ready messages another time; one that has passed means at once."""
    act = partial(shared_store(using).reschedule, deliver_at=deliver_at)
    return _changed(act, ids, wake=queues, using=using)


def prioritise(ids: Sequence[int], queues: Iterable[str], priority: int, *, using: str) -> int:
    """Give ready or scheduled messages another priority, 0 to 9."""
    act = partial(shared_store(using).prioritise, priority=priority)
    return _changed(act, ids, wake=queues, using=using)


def retry(ids: Sequence[int], *, using: str) -> int:
    """Make dead messages ready in their old place, and send those of dead-letter queues where they came from."""
    return redriving.send_back(ids, using=using).total


def _changed(act: Callable[[Sequence[int]], int], ids: Sequence[int], *, wake: Iterable[str], using: str) -> int:
    changed = sum(act(ids[start : start + CHUNK]) for start in range(0, len(ids), CHUNK))
    if changed:
        hint(wake, using=using)
    return changed
