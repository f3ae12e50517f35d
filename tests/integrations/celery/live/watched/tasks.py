"""A task of Celery's."""

from __future__ import annotations

from celery import shared_task


@shared_task(name="watched.fail")
def fail() -> None:
    """Fail as the handler does."""
    raise ValueError("a task of Celery's")
