"""The task of ``our_tasks.py``."""

from __future__ import annotations

from django_mq.integrations.tasks.compat import task


@task
def nothing(n: int) -> None:
    """Do nothing."""
