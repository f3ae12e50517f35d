"""Have workers give back what they have prefetched and not begun, so that an operator's act reaches it.

A worker gives back what it can of a paused queue, and then shows its consumer of the queue as paused.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from django_mq.delivery.hints import hint, tell_workers
from django_mq.engine.states import CLAIMED
from django_mq.errors import StoreError
from django_mq.models import Consumer, Message, Queue, WorkerSession
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

#: The most seconds that an act waits for workers, which read a queue every five seconds if they hear no hints.
WAIT_SECONDS = 8.0
#: Time between two looks whether they have given back, in seconds.
LOOK_SECONDS = 0.05
#: The pause ends by itself after so many seconds, if the act has no end.
PAUSE_SECONDS = 30.0
#: The reason of the pause, by which it is known again.
REASON = "messages that workers have not begun are taken back"


def purge(queue: str, *, using: str) -> int:
    """Remove the queue's messages that no worker has begun, without later arrivals; return how many."""
    with recalled([queue], using=using):
        return shared_store(using).deletions.purge(queue)


@contextmanager
def recalled(queues: Collection[str], *, using: str) -> Iterator[None]:
    """Pause the queues, wait until workers give back what they have not begun, and resume at the end.

    Nothing happens if workers hold nothing of the queues, and in a transaction, which they do not see. What
    is not given back in time stays with its worker.
    """
    paused: dict[int, str] = {}
    if queues and not shared_store(using).database.in_transaction:
        # An act that cannot reach these messages is better than none.
        with suppress(StoreError):
            _take_back(queues, paused, using)
    try:
        yield
    finally:
        if paused:
            with suppress(StoreError):
                _resume(paused, using)


def _resume(paused: Mapping[int, str], using: str) -> None:
    """Let the queues deliver, unless an operator has paused them meanwhile."""
    with shared_store(using).database.transaction():
        mine = Queue.objects.using(using).filter(pk__in=paused, paused_reason=REASON)
        mine.update(paused=False, paused_reason="", paused_until=None)
        hint(paused.values(), using=using)


def _take_back(queues: Collection[str], paused: dict[int, str], using: str) -> None:
    """Pause the queues that deliver, adding them to ``paused``, and wait for their workers."""
    if not _are_held(queues, using):
        return
    since = Queue.objects.using(using).values_list(UTCNow(), flat=True)[0]
    rows = Queue.objects.using(using)
    pause = {"paused": True, "paused_reason": REASON, "paused_until": UTCNow() + timedelta(seconds=PAUSE_SECONDS)}
    with shared_store(using).database.transaction():
        found = list(rows.filter(name__in=queues).values("pk", "name", "paused", "paused_until"))
        resting = shared_store(using).queues.paused(list(queues))
        # By all that was read: an operator may have paused it since.
        paused |= {
            row["pk"]: row["name"]
            for row in found
            if row["name"] not in resting and rows.filter(**row).update(**pause)
        }
        hint(queues, using=using)
        tell_workers(using=using)
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end and _are_held(queues, using, since):
        time.sleep(LOOK_SECONDS)


def _are_held(queues: Collection[str], using: str, since: datetime | None = None) -> bool:
    """Whether living workers hold messages of the queues; after ``since``, that they may give back yet."""
    living = WorkerSession.objects.using(using).filter(deadline__gte=UTCNow())
    heartbeats = dict(living.values_list("id", "heartbeat_at"))
    held = Message.objects.using(using).filter(
        queue__name__in=queues, state=CLAIMED.value, session_id__in=heartbeats
    )
    consumers = Consumer.objects.using(using).filter(queue_name__in=queues).exclude(state=Consumer.Status.PAUSED)
    delivering = set(consumers.values_list("session_id", "queue_name"))
    return any(
        since is None or heartbeats[session] < since or (session, queue) in delivering
        for session, queue in held.values_list("session_id", "queue__name").distinct()
    )
