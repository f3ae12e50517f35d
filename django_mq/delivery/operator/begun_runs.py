"""Runs that go on after their messages are gone: tasks that were acknowledged when they began.

Only the heartbeats of their workers know of them, so a run is found when its worker has reported it. Such a task
that is stopped is lost: no message is left that could be delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django_mq.delivery.hints import tell_workers
from django_mq.models import WorkerSession
from django_mq.models.times import UTCNow
from django_mq.stores.records import running_in
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.stores.records import Running


class ReportedRun(NamedTuple):
    """What a living worker handles, as of its last heartbeat."""

    session: WorkerSession
    run: Running
    #: Until now.
    seconds: float


def reported(using: str) -> Iterator[ReportedRun]:
    """Yield what the living workers handle: one statement."""
    alive = WorkerSession.objects.using(using).filter(deadline__gte=UTCNow(), running__isnull=False)
    sessions = alive.only("name", "running", "heartbeat_at").annotate(asked_at=UTCNow())
    for session in sessions.order_by("pk"):
        since = max(0.0, (session.asked_at - session.heartbeat_at).total_seconds())
        for run in running_in(session.running):
            yield ReportedRun(session, run, run.seconds + since)


def stop(message_ids: Sequence[UUID], queue: str | None = None, *, using: str) -> dict[UUID, str]:
    """Ask workers to end the runs of these messages, in one queue or in all; return the queue of each."""
    wanted = set(map(str, message_ids))
    found = {}
    for session, run, _ in reported(using) if wanted else ():
        if run.begun is not None and run.begun.message_id in wanted and queue in (None, run.begun.queue):
            found[session.pk, run.receipt] = run.begun
    if not found:
        return {}
    asked = shared_store(using).sessions.ask_to_stop_begun([*found])
    tell_workers(using=using)
    rows = {receipt[0]: begun for (_, receipt), begun in found.items()}
    return {UUID(rows[id_].message_id): rows[id_].queue for id_ in asked}
