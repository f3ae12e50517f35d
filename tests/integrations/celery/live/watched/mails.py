"""A task of Django's."""

from __future__ import annotations

from django_mq.integrations.tasks.compat import task
from tests.journeys.project import diary


@task(queue_name="mails")
def mail(to: str) -> str:
    """Note that it ran, or fail for one address."""
    diary.write(name=f"mail {to}")
    if to == "unknown":
        raise ValueError("no such address")
    return to
