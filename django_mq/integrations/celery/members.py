"""The members of a chord are written many by one statement: Celery publishes them one by one.

    apply_chord ──> ``collect`` ── each member that is published waits here ── set_chord_size ──> ``flush``

Celery announces the size of a chord right before it publishes the last member. Only messages of the group wait, so
if the publisher fails between the two calls, nothing else is kept back: then no member is published.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.integrations.celery.publisher import Batch

#: How many members one statement writes.
MANY: Final = 200


class _Collected(threading.local):
    def __init__(self) -> None:
        #: The batches of chords that this thread begins now, by group: one may begin within another.
        self.batches: dict[str, Batch | None] = {}


_collected: Final = _Collected()


def collect(group_id: str, body: Any) -> None:
    """Keep the messages of this group that this thread publishes, until ``flush``, or until the body is gone."""
    _collected.batches[group_id] = None
    finalize(body, _collected.batches.pop, group_id, None).atexit = False


def waiting_members(headers: Mapping[str, Any], make: Callable[[], Batch]) -> Batch | None:
    """Return the batch that a message waits in; None if it is to be written at once."""
    batches, group_id = _collected.batches, headers.get("group")
    if not batches or group_id not in batches:
        return None
    batch = batches[group_id]
    if batch is None:
        batch = batches[group_id] = make()
    return batch


def flush(group_id: str) -> None:
    """Write what is left of this group. Raises as ``publish`` does."""
    batch = _collected.batches.get(group_id)
    if batch is not None:
        batch.flush()
    _collected.batches.pop(group_id, None)
