"""The worker sessions, and what they consume, as of their last heartbeat: two statements."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, ExpressionWrapper, Prefetch, Q

from django_mq.models import Consumer, WorkerSession
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One consumer of a session."""

    queue: str
    handler: str
    priority: int
    state: str
    credit_used: int
    credit_limit: int
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker session. Ages are by the database's clock."""

    id: int
    name: str
    kind: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    #: Messages held at the last heartbeat, and the most it holds; 0 = no limit.
    held: int
    credit: int
    #: What it is at, of so many slots, and its memory; None where it does not say.
    busy: int | None
    slots: int | None
    memory_bytes: int | None
    #: What an operator has told it; the credit of each consumer, None for their own.
    conduct: str
    given_credit: int | None
    up_seconds: float
    heartbeat_seconds: float
    #: Past its deadline: what it held is given back by the next maintenance.
    stale: bool
    consumers: tuple[Subscription, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """How much of something is in use, of how much there is; all zero where nobody says."""

    used: int = 0
    of: int = 0

    @property
    def percent(self) -> int | None:
        """Return the share, None of nothing."""
        return round(100 * self.used / self.of) if self.of else None

    def __add__(self, other: Use) -> Use:
        return Use(self.used + other.used, self.of + other.of)


def slots_in_use(workers: Iterable[Worker]) -> Use:
    """Return how many slots of the live workers are busy, as of their last heartbeats."""
    alive = [worker for worker in workers if not worker.stale]
    return sum((Use(worker.busy or 0, worker.slots or 0) for worker in alive), Use())


def slots_of_queues(workers: Iterable[Worker]) -> dict[str, Use]:
    """Return the same for each queue, of the workers that take from it: what they do may be another queue's."""
    found: defaultdict[str, Use] = defaultdict(Use)
    for worker in workers:
        for name in worker.queues:
            found[name] += slots_in_use([worker])
    return found


def is_late(deadline: str = "deadline") -> ExpressionWrapper[Q]:
    """Return whether this deadline has passed by the database's clock, which decides for those who reap, too."""
    return ExpressionWrapper(Q(**{f"{deadline}__lt": UTCNow()}), output_field=BooleanField())


def fleet(*, using: str) -> list[Worker]:
    """Return every worker session, the newest first."""
    sessions: Any = WorkerSession.objects.using(using).annotate(stale=is_late(), seen_at=UTCNow())
    # Named, or a site's router would be asked where to read them, and may name a replica.
    consumers = Prefetch("consumers", Consumer.objects.using(using))
    return [_worker(row) for row in sessions.prefetch_related(consumers).order_by("-id")]


def _worker(row: Any) -> Worker:
    return Worker(
        id=row.pk,
        name=row.name,
        kind=row.kind,
        host=row.host,
        pid=row.pid,
        version=row.version,
        queues=tuple(row.queues),
        held=row.held,
        credit=row.credit,
        busy=row.busy,
        slots=row.slots,
        memory_bytes=row.memory_bytes,
        conduct=row.conduct,
        given_credit=row.given_credit,
        up_seconds=_seconds(row.seen_at, row.started_at),
        heartbeat_seconds=_seconds(row.seen_at, row.heartbeat_at),
        stale=bool(row.stale),
        consumers=tuple(_subscription(consumer) for consumer in row.consumers.all()),
    )


def _seconds(now: datetime, then: datetime) -> float:
    return max(0.0, (now - then).total_seconds())


def _subscription(row: Any) -> Subscription:
    return Subscription(
        queue=row.queue_name,
        handler=row.handler,
        priority=row.priority,
        state=row.state,
        credit_used=row.credit_used,
        credit_limit=row.credit_limit,
        delivered=row.delivered,
    )
