"""The state of all queues: three statements, however many messages there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from django.db.models import Exists, Min, OuterRef, Q, Subquery

from django_mq.engine.decisions.claim import is_paused
from django_mq.engine.states import State
from django_mq.models import Binding, Message, Queue, WorkerSession
from django_mq.models.times import UTCNow
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from django_mq.stores.records import Counts

#: The highest count of messages in a state of a queue; counting stops there.
COUNT_LIMIT = 10_000

Filled = TypeVar("Filled")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The state of a queue: depth, consumers, and what keeps it from delivering."""

    id: int
    name: str
    ready: int
    #: Without those that are retrying.
    scheduled: int
    #: Messages that failed and wait for their next attempt.
    retrying: int
    claimed: int
    dead: int
    #: Age of the oldest message that is ready, or scheduled and due; None if there is none.
    oldest_ready_seconds: float | None
    #: Live worker sessions that take from the queue.
    consumers: int
    closed: bool
    paused: bool
    paused_reason: str
    #: The end of a timed pause.
    paused_until: datetime | None
    #: The limit, None without one; what to do when the queue is full; the last count that publishers know.
    max_messages: int | None
    overflow: str
    held_messages: int | None
    #: Whether other queues send their dead letters here.
    takes_dead_letters: bool

    @property
    def rests(self) -> bool:
        """Whether this is a dead-letter queue without a worker: its ready messages wait for an operator."""
        return self.takes_dead_letters and not self.consumers

    @property
    def dead_letters(self) -> int:
        """The dead letters: those that died here, and those that other queues sent here."""
        return self.dead + (self.ready if self.rests else 0)

    @property
    def waited_seconds(self) -> float:
        """How long the oldest message has waited for a worker; 0 if none is ready or the queue rests."""
        return 0.0 if self.rests else self.oldest_ready_seconds or 0.0


def filled(cls: type[Filled], row: Any, **computed: Any) -> Filled:
    """Return a dataclass with these fields; the others are taken from the row."""
    names = {field.name for field in fields(cls)} - computed.keys()  # type: ignore[arg-type] # a dataclass
    return cls(**computed, **{name: getattr(row, name) for name in names})


def overview(names: Sequence[str] = (), *, using: str) -> list[QueueState]:
    """Return the queues of these names, or all, by name. Raises UnknownQueue."""
    counted = shared_store(using).counts(list(names) or None, limit=COUNT_LIMIT)
    missing = [name for name in names if name not in counted]
    if missing:
        raise no_such_queue(missing[0])
    consumers = live_workers(using)
    rows = with_facts(Queue.objects.using(using))
    return [
        state_of(row, counted[row.name], consumers[row.name])
        for row in rows.filter(name__in=counted).order_by("name")
    ]


def with_facts(queues: QuerySet[Queue]) -> QuerySet[Any]:
    """Return queues with what ``state_of`` needs beside their columns."""
    # A pause ends by the database's clock.
    return queues.annotate(now=UTCNow(), takes_dead_letters=takes_dead_letters())


def takes_dead_letters() -> Q:
    """Return the condition that a queue gets dead letters of others, by its name or by a binding."""
    sources = Queue.objects.filter(dead_letter_queue=OuterRef("pk"))
    exchanges = Queue.objects.values("dead_letter_exchange")
    bindings = Binding.objects.filter(queue=OuterRef("pk"), exchange__in=exchanges)
    return Exists(sources) | Exists(bindings)


def state_of(row: Any, counts: Counts, consumers: int) -> QueueState:
    """Return the state of a queue, from a row of ``with_facts``."""
    paused = is_paused(row.paused, row.paused_until, row.now)
    counted = ("ready", "retrying", "claimed", "dead", "oldest_ready_seconds")
    return filled(
        QueueState,
        row,
        **{name: getattr(counts, name) for name in counted},
        scheduled=counts.scheduled - counts.retrying,
        consumers=consumers,
        paused=paused,
        paused_reason=row.paused_reason if paused else "",
        paused_until=row.paused_until if paused else None,
    )


def oldest_claims(names: Sequence[str], *, using: str) -> dict[str, float]:
    """Return the age in seconds of the oldest claim of each of these queues that has one."""
    held = Message.objects.filter(queue=OuterRef("pk"), state=State.CLAIMED.value).order_by()
    first = held.values("queue").annotate(first=Min("claimed_at")).values("first")
    queues = Queue.objects.using(using).filter(name__in=names).annotate(first=Subquery(first))
    rows = queues.order_by().values_list("name", "first", UTCNow())
    return {name: max(0.0, (now - first).total_seconds()) for name, first, now in rows if first is not None}


def live_workers(alias: str) -> Counter[str]:
    """Count the live worker sessions of each queue."""
    alive = WorkerSession.objects.using(alias).filter(deadline__gte=UTCNow())
    return Counter(name for queues in alive.values_list("queues", flat=True) for name in queues)
