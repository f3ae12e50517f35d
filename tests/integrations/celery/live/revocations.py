"""Notes each ``task_revoked`` of a worker in the diary; a worker imports it by ``--include``."""

from __future__ import annotations

from typing import Any

from celery.signals import task_revoked

from tests.journeys.project import diary


@task_revoked.connect
def note(sender: Any, request: Any, **_: Any) -> None:
    diary.write(revoked=sender.name, id=request.id)
