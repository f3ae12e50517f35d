"""The worker sessions and their consumers, as of their last heartbeats: two statements."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, ExpressionWrapper, Prefetch, Q

from django_mq.diagnosis.state.overview import filled
from django_mq.models import Consumer, WorkerSession
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """A consumer of a worker session."""

    queue: str
    handler: str
    priority: int
    state: str
    credit_used: int
    credit_limit: int
    delivered: int
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker session. Ages are in seconds, by the database's clock."""

    id: int
    name: str
    kind: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    #: Messages that the worker holds, and the most it may hold; 0 = no limit.
    held: int
    credit: int
    #: Busy slots, all slots, and memory; None where the worker does not report them.
    busy: int | None
    slots: int | None
    memory_bytes: int | None
    #: The mode that an operator set, and the credit of each consumer; None = each consumer's own.
    conduct: str
    given_credit: int | None
    up_seconds: float
    heartbeat_seconds: float
    #: Whether the deadline has passed: the next maintenance gives its messages back.
    stale: bool
    consumers: tuple[ConsumerStatus, ...]

    @property
    def is_leaving(self) -> bool:
        """Whether the worker ends by itself, and takes no new work."""
        return self.conduct == WorkerSession.Mode.WORK and self.is_shown_as(Consumer.Status.STOPPING)

    def is_shown_as(self, state: str) -> bool:
        """Whether the worker reported this state of itself: it stops, or its loop stands still."""
        return any(consumer.state == state for consumer in self.consumers)


@dataclass(frozen=True, slots=True)
class Use:
    """How much is in use, of how much; both 0 where no worker reports it."""

    used: int = 0
    of: int = 0

    @property
    def percent(self) -> int | None:
        return round(100 * self.used / self.of) if self.of else None

    def __add__(self, other: Use) -> Use:
        return Use(self.used + other.used, self.of + other.of)


@dataclass(slots=True)
class Supply:
    """What the live workers of a queue have: slots, credit of their consumers, and how many of them may claim."""

    slots: Use = Use()
    credit: Use = Use()
    awake: int = 0


def slots_in_use(workers: Iterable[WorkerStatus]) -> Use:
    """Return how many slots of the live workers are busy."""
    return sum((Use(one.busy or 0, one.slots or 0) for one in workers if not one.stale), Use())


def supplies(workers: Iterable[WorkerStatus]) -> defaultdict[str, Supply]:
    """Return the supply of each queue. A slot counts for each queue of its worker."""
    found: defaultdict[str, Supply] = defaultdict(Supply)
    for worker in workers:
        if worker.stale or worker.is_leaving:
            continue
        for name in worker.queues:
            found[name].slots += slots_in_use([worker])
            found[name].awake += worker.conduct == WorkerSession.Mode.WORK
        for consumer in worker.consumers:
            found[consumer.queue].credit += Use(consumer.credit_used, consumer.credit_limit)
    return found


def is_late(deadline: str = "deadline") -> ExpressionWrapper[Q]:
    """Return the expression for a deadline that has passed, by the database's clock."""
    return ExpressionWrapper(Q(**{f"{deadline}__lt": UTCNow()}), output_field=BooleanField())


def fleet(*, using: str) -> list[WorkerStatus]:
    """Return every worker session, the newest first."""
    sessions: Any = WorkerSession.objects.using(using).annotate(stale=is_late(), seen_at=UTCNow())
    # With an alias, or a site's router may send this query to a replica.
    consumers = Prefetch("consumers", Consumer.objects.using(using))
    return [_worker(row) for row in sessions.prefetch_related(consumers).order_by("-id")]


def _worker(row: Any) -> WorkerStatus:
    return filled(
        WorkerStatus,
        row,
        queues=tuple(row.queues),
        up_seconds=_seconds(row.seen_at, row.started_at),
        heartbeat_seconds=_seconds(row.seen_at, row.heartbeat_at),
        stale=bool(row.stale),
        consumers=tuple(filled(ConsumerStatus, one, queue=one.queue_name) for one in row.consumers.all()),
    )


def _seconds(now: datetime, then: datetime) -> float:
    return max(0.0, (now - then).total_seconds())
