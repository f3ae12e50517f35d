"""Operations in the background that somebody wants to end, wherever they run."""

from __future__ import annotations

from django_mq.models import Operation


def stop(pk: int, *, using: str) -> bool:
    """Stop after the batch that runs; return whether it was running."""
    running = Operation.objects.using(using).filter(pk=pk, status=Operation.Status.RUNNING)
    return bool(running.update(status=Operation.Status.STOPPED, runner=None))
