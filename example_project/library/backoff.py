"""How long a failed Celery task waits: as its queue says, and as native messages of that queue would."""

from __future__ import annotations

from django_mq.engine.verdict import Backoff
from django_mq.models import Queue


def backoff_of(queue_name: str) -> Backoff:
    """Return the backoff of a queue, as its row has it now: an operator may have changed it in the admin."""
    queue = Queue.objects.get(name=queue_name)
    return Backoff(
        base_seconds=queue.backoff_seconds,
        multiplier=queue.backoff_multiplier,
        cap_seconds=queue.backoff_cap_seconds,
        jitter=queue.backoff_jitter,
    )
