"""The delay of a failed Celery task, from the options of its queue."""

from __future__ import annotations

from django_mq.engine.decisions.backoff import Backoff
from django_mq.models import Queue


def backoff_of(queue_name: str) -> Backoff:
    """Return the current backoff of a queue, which an operator may have changed in the admin."""
    queue = Queue.objects.get(name=queue_name)
    return Backoff(
        base_seconds=queue.backoff_seconds,
        multiplier=queue.backoff_multiplier,
        cap_seconds=queue.backoff_cap_seconds,
        jitter=queue.backoff_jitter,
    )
