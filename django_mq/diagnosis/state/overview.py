"""The state of all queues: four statements, or five if there are dead letters, however many messages there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db.models import Count, F, Min, OuterRef, Q, Subquery

from django_mq.diagnosis.state.acknowledged import acknowledged_counts
from django_mq.engine.decisions.arbiter import OPTIONS
from django_mq.engine.decisions.claim import is_paused
from django_mq.engine.decisions.dead_letters import EXPIRED, sends_on, targets_of
from django_mq.engine.options import QueueOptions
from django_mq.engine.states import State
from django_mq.formats import COUNT_LIMIT
from django_mq.models import Message, Queue, WorkerSession
from django_mq.models.message import in_state
from django_mq.models.queue import takes_dead_letters
from django_mq.models.times import UTCNow
from django_mq.stores.errors import no_such_queue
from django_mq.stores.records import RETRYING_READ
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from django_mq.stores.records import Counts


#: The options that say whether what waits in a queue goes on by itself, and where to, but for its expiry queue.
LIFETIME = ("ttl_seconds", "max_ttl_seconds", "no_expiry", "dead_letter_exchange", "dead_letter_routing_key")

#: What ``with_facts`` adds to a queue.
FACTS = ("now", "takes_dead_letters", "expires_to")

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
    #: Messages that wait until their key is freed, or for a time.
    parked: int
    claimed: int
    dead: int
    #: How long the oldest message has been ready, or scheduled and due; None if there is none.
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
    #: What the queue itself allows: messages in flight over all workers, and workers that receive; None = all.
    max_in_flight: int | None
    max_receivers: int | None
    #: Whether messages of a group, or all, wait for those before them.
    grouped: bool
    strict: bool
    #: Whether other queues send their dead or expired messages here, and how many of the ready ones are such.
    #: Where workers take from the queue, these are their work, and are not counted.
    takes_dead_letters: bool
    dead_letters_of_others: int
    #: Whether what waits here goes on by itself when it expires, to be retried or to a worker.
    sends_on: bool
    #: Whether the age of the oldest message is exact; else it has waited at least so long.
    is_oldest_exact: bool = True
    #: Dead letters that an operator has acknowledged.
    acknowledged: int = 0

    @property
    def most_claimed(self) -> int:
        """How many messages the queue allows in flight over all workers; 0 if it has no limit."""
        return self.max_in_flight or 0

    @property
    def is_retrying_cut(self) -> bool:
        """Whether more messages may be retrying: only the scheduled ones that are due first are looked at."""
        return self.scheduled + self.retrying > RETRYING_READ

    @property
    def rests(self) -> bool:
        """Whether no worker takes from the queue, and none need to: its messages are dead letters, or go on."""
        waits_for_operator = self.takes_dead_letters and self.unserved == 0
        return not self.consumers and (self.sends_on or waits_for_operator)

    @property
    def unserved(self) -> int:
        """How many ready messages are there for a worker: all but the dead letters."""
        return self.ready - self.dead_letters_of_others

    @property
    def dead_letters(self) -> int:
        """The dead letters: those that died here, and those that other queues sent here."""
        return self.dead + self.dead_letters_of_others

    @property
    def new_dead_letters(self) -> int:
        """The dead letters that no operator has acknowledged. Where counting has stopped, there are some."""
        most = self.acknowledged if max(self.dead, self.dead_letters_of_others) < COUNT_LIMIT else 0
        return max(0, self.dead_letters - most)

    @property
    def held(self) -> int:
        """How many messages the queue holds, in any state."""
        return self.ready + self.scheduled + self.retrying + self.parked + self.claimed + self.dead

    @property
    def waited_seconds(self) -> float:
        """How long the oldest message has waited for a worker; 0 if none is ready or the queue rests."""
        return 0.0 if self.rests else self.oldest_ready_seconds or 0.0


def filled(cls: type[Filled], row: Any, **computed: Any) -> Filled:
    """Return a dataclass with these fields; the others are taken from the row."""
    names = _names(cls)  # type: ignore[arg-type] # a class can be hashed
    given = {name: getattr(row, name) for name in names if name not in computed}
    return cls(**computed, **given)


@cache
def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


def overview(names: Sequence[str] = (), *, using: str) -> list[QueueState]:
    """Return the queues of these names, or all, by name. Raises UnknownQueue."""
    counted = shared_store(using).queues.counts(list(names) or None, limit=COUNT_LIMIT)
    missing = [name for name in names if name not in counted]
    if missing:
        raise no_such_queue(missing[0])
    consumers = live_workers(using)
    # No rows of the model: with all their columns, they would take most of the time.
    rows = with_facts(Queue.objects.using(using)).order_by("name").values_list(*_columns(), *FACTS, named=True)
    return states_of([row for row in rows if row.name in counted], counted, consumers, using=using)


@cache
def _columns() -> list[str]:
    """Return the columns of a queue that states are made of."""
    names = {*OPTIONS, *LIFETIME, *_names(QueueState)}
    return [field.name for field in Queue._meta.concrete_fields if field.name in names]


def with_facts(queues: QuerySet[Queue]) -> QuerySet[Any]:
    """Return queues with what ``states_of`` needs beside their columns."""
    # A pause ends by the database's clock.
    facts = (UTCNow(), takes_dead_letters(), F("expiry_queue__name"))
    return queues.annotate(**dict(zip(FACTS, facts, strict=True)))


def states_of(
    rows: Sequence[Any], counts: Mapping[str, Counts], consumers: Counter[str], *, using: str
) -> list[QueueState]:
    """Return the states of queues, from rows of ``with_facts``."""
    resting = {
        row.id: counts[row.name].ready for row in rows if row.takes_dead_letters and not consumers[row.name]
    }
    others = _dead_letters_of_others(resting, using)
    states = [_state_of(row, counts[row.name], consumers, others.get(row.id, 0), using) for row in rows]
    if not any(state.dead_letters for state in states):
        return states
    known = acknowledged_counts(using=using)
    return [replace(state, acknowledged=known[state.id]) if state.id in known else state for state in states]


def _dead_letters_of_others(ready: Mapping[int, int], alias: str) -> dict[int, int]:
    """Count the dead letters of other queues among the ready messages of these queues, up to the limit.

    One statement counts in all queues that have fewer ready messages than the limit.
    """
    rows = Message.objects.using(alias).filter(in_state(State.READY))
    small = [queue for queue, number in ready.items() if 0 < number < COUNT_LIMIT]
    sent = rows.filter(~Q(dead_reason=""), queue_id__in=small).order_by().values("queue_id")
    found = dict(sent.annotate(number=Count("pk")).values_list("queue_id", "number")) if small else {}
    for queue, number in ready.items():
        if number >= COUNT_LIMIT:
            first = rows.filter(queue_id=queue).order_by("-level", "place", "pk")[:COUNT_LIMIT]
            found[queue] = first.aggregate(number=Count("pk", filter=~Q(dead_reason="")))["number"]
    return found


def _state_of(
    row: Any, counts: Counts, consumers: Counter[str], dead_letters_of_others: int, alias: str
) -> QueueState:
    paused = is_paused(row.paused, row.paused_until, row.now)
    # Without the names of other queues, each of which would be a statement.
    options = _options(row.expires_to, *(getattr(row, name) for name in (*OPTIONS, *LIFETIME)))
    counted = ("ready", "retrying", "parked", "claimed", "dead", "oldest_ready_seconds", "is_oldest_exact")
    return filled(
        QueueState,
        row,
        **{name: getattr(counts, name) for name in counted},
        scheduled=counts.scheduled - counts.retrying,
        dead_letters_of_others=dead_letters_of_others,
        acknowledged=0,
        consumers=consumers[row.name],
        sends_on=sends_on(options)
        and (row.takes_dead_letters or _leads_to_worker(row.name, options, consumers, alias)),
        max_receivers=options.slots,
        grouped=options.has_groups,
        paused=paused,
        paused_reason=row.paused_reason if paused else "",
        paused_until=row.paused_until if paused else None,
    )


@lru_cache(1000)
def _options(expiry_queue: str | None, *values: Any) -> QueueOptions:
    """Return these options, which many queues have alike."""
    return QueueOptions(**dict(zip((*OPTIONS, *LIFETIME), values, strict=True)), expiry_queue=expiry_queue)


def _leads_to_worker(name: str, options: QueueOptions, consumers: Counter[str], alias: str) -> bool:
    """Whether a worker takes what expires in a queue; else the queue may have lost its own."""
    targets = targets_of(name, options, EXPIRED, shared_store(alias).exchanges.find)
    return any(consumers[target] for target in targets)


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
