"""How the queues stand: three statements for all of them, whatever they hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, Min, OuterRef, Subquery

from django_mq.engine.claim import is_paused
from django_mq.engine.states import State
from django_mq.models import Message, Queue, WorkerSession
from django_mq.models.times import UTCNow
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from django_mq.stores.records import Counts

#: Where counting stops, for each state of each queue.
COUNT_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue: its depth, counted up to COUNT_LIMIT, who consumes it, and what holds it up."""

    id: int
    name: str
    ready: int
    scheduled: int
    claimed: int
    dead: int
    #: How long the oldest message that is ready, or scheduled and due, has been waiting; None if there is none.
    oldest_ready_seconds: float | None
    #: Live worker sessions that take from the queue.
    consumers: int
    closed: bool
    paused: bool
    paused_reason: str
    #: When a timed pause ends; None for one that lasts, and for none.
    paused_until: datetime | None
    #: Most messages it may hold, None without a limit; what becomes of one too many; how many publishers know of.
    max_messages: int | None
    overflow: str
    held_messages: int | None
    #: Whether other queues send their dead letters here.
    takes_dead_letters: bool

    @property
    def rests(self) -> bool:
        """Whether what is ready here are letters that wait for an operator, as no worker takes from the queue."""
        return self.takes_dead_letters and not self.consumers

    @property
    def dead_letters(self) -> int:
        """Dead letters of both sorts: dead in place, and sent here by other queues."""
        return self.dead + (self.ready if self.rests else 0)

    @property
    def waited_seconds(self) -> float:
        """How long a message has been waiting for a worker; 0 if none is ready, or no worker is meant to come."""
        return 0.0 if self.rests else self.oldest_ready_seconds or 0.0


def overview(names: Sequence[str] = (), *, using: str) -> list[QueueState]:
    """Return the queues of these names, or all, by name. Raises UnknownQueue."""
    counted = shared_store(using).counts(list(names) or None, limit=COUNT_LIMIT)
    missing = [name for name in names if name not in counted]
    if missing:
        raise no_such_queue(missing[0])
    consumers = live_consumers(using)
    return [
        _state(row, counted[row.name], consumers[row.name])
        for row in _rows(using).filter(name__in=counted).order_by("name")
    ]


def oldest_claims(names: Sequence[str], *, using: str) -> dict[str, float]:
    """Return the age in seconds of the oldest claim of each of these queues of which a worker holds a message."""
    held = Message.objects.filter(queue=OuterRef("pk"), state=State.CLAIMED.value).order_by()
    first = held.values("queue").annotate(first=Min("claimed_at")).values("first")
    queues = Queue.objects.using(using).filter(name__in=names).annotate(first=Subquery(first))
    rows = queues.order_by().values_list("name", "first", UTCNow())
    return {name: max(0.0, (now - first).total_seconds()) for name, first, now in rows if first is not None}


def _rows(alias: str) -> QuerySet[Any]:
    sources = Queue.objects.filter(dead_letter_queue=OuterRef("pk"))
    rows: QuerySet[Any] = Queue.objects.using(alias).annotate(
        # A pause ends by the database's clock, which decides for claims, too.
        now=UTCNow(),
        takes_dead_letters=Exists(sources),
    )
    return rows


def _state(row: Any, counts: Counts, consumers: int) -> QueueState:
    paused = is_paused(row.paused, row.paused_until, row.now)
    return QueueState(
        id=row.pk,
        name=row.name,
        ready=counts.ready,
        scheduled=counts.scheduled,
        claimed=counts.claimed,
        dead=counts.dead,
        oldest_ready_seconds=counts.oldest_ready_seconds,
        consumers=consumers,
        closed=row.closed,
        paused=paused,
        paused_reason=row.paused_reason if paused else "",
        paused_until=row.paused_until if paused else None,
        max_messages=row.max_messages,
        overflow=row.overflow,
        held_messages=row.held_messages,
        takes_dead_letters=row.takes_dead_letters,
    )


def live_consumers(alias: str) -> Counter[str]:
    """Count the live worker sessions of each queue."""
    alive = WorkerSession.objects.using(alias).filter(deadline__gte=UTCNow())
    return Counter(name for queues in alive.values_list("queues", flat=True) for name in queues)
