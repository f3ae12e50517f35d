"""What needs a look, from figures that are known already: no statement.

A queue has at most one alert about its delivery, the nearest cause: of a paused queue nothing is said about its
workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from django_mq.diagnosis.state.fleet import Supply, Use, supplies
from django_mq.engine.decisions.limiting_factor import DeliveryFacts, Factor, limited_by, stopped_by
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.formats import COUNT_LIMIT, RATE_PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.rollups.series import Rates

#: Seconds that a ready message may wait before its queue is late.
LATE_SECONDS = 300.0
NONE = Use()


class AlertKind(Enum):
    """The kinds of alerts, the worst first."""

    #: Messages are ready, and no live worker takes from the queue.
    UNSERVED = "unserved"
    #: Messages are ready, and an operator told all workers to be quiet or to stop.
    QUIET = "quiet"
    #: Messages are ready that no consumer's selector matches.
    UNWANTED = "unwanted"
    #: A message has waited for long, although workers take from the queue.
    LATE = "late"
    #: The queue is full.
    FULL = "full"
    #: More attempts fail than messages finish.
    FAILING = "failing"
    #: Worker sessions are past their deadline.
    STALE = "stale"
    #: There are dead letters that no operator has acknowledged.
    DEAD = "dead"
    #: Messages failed and wait for their next attempt.
    RETRYING = "retrying"
    #: The queue is paused.
    PAUSED = "paused"


#: These are shown at once, and urgent only when messages have waited for long.
DELIVERY = frozenset({AlertKind.UNSERVED, AlertKind.QUIET, AlertKind.UNWANTED})
ORDER = {kind: number for number, kind in enumerate(AlertKind)}
#: The kinds of alerts that name what keeps a queue from delivering.
STOPPED = {
    Factor.PAUSED: AlertKind.PAUSED,
    Factor.UNSERVED: AlertKind.UNSERVED,
    Factor.QUIET: AlertKind.QUIET,
    Factor.UNWANTED: AlertKind.UNWANTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that needs a look. ``queue`` is None if it concerns workers only."""

    kind: AlertKind
    queue: QueueState | None = None
    #: Slots of the queue's live workers, and credit of their consumers; of 0 where no worker reports it.
    slots: Use = NONE
    credit: Use = NONE
    #: Messages a second that failed and that finished.
    failed: float = 0.0
    accepted: float = 0.0
    #: How many of the first ready messages no consumer wants.
    unwanted: int = 0
    #: Names of workers.
    workers: tuple[str, ...] = ()

    @property
    def urgent(self) -> bool:
        """Whether it does harm now."""
        if self.kind in DELIVERY:
            return self.queue is not None and self.queue.waited_seconds > LATE_SECONDS
        return self.kind not in {AlertKind.PAUSED, AlertKind.RETRYING}

    @property
    def factor(self) -> Factor:
        """What limits the delivery."""
        if self.queue is None:
            return Factor.NOTHING
        of = Supply(slots=self.slots, credit=self.credit, awake=self.queue.consumers)
        return limited_by(facts_of(self.queue, of, self.unwanted))

    @property
    def rank(self) -> tuple[bool, int, float, str]:
        """The key to sort by, the worst first."""
        waited = self.queue.waited_seconds if self.queue else 0.0
        delayed = self.kind in {*DELIVERY, AlertKind.LATE}
        return not self.urgent, -1 if delayed else ORDER[self.kind], -waited, self.queue.name if self.queue else ""


def alerts(
    states: Iterable[QueueState],
    rates: Mapping[str, Rates],
    workers: Sequence[WorkerStatus],
    unwanted: Mapping[str, int] = MappingProxyType({}),
) -> list[Alert]:
    """Return the alerts, the worst first; ``unwanted`` is how many messages no consumer wants, by queue."""
    supply = supplies(workers)
    found = []
    for state in states:
        of = supply[state.name]
        left = unwanted.get(state.name, 0)
        if kind := delivery(state, of.awake, left):
            found.append(Alert(kind=kind, queue=state, slots=of.slots, credit=of.credit, unwanted=left))
        found.extend(_others(state, rates.get(state.name)))
    if stale := tuple(worker.name for worker in workers if worker.stale):
        found.append(Alert(kind=AlertKind.STALE, workers=stale))
    return sorted(found, key=lambda alert: alert.rank)


def facts_of(state: QueueState, of: Supply, unwanted: int = 0) -> DeliveryFacts:
    """Return what is known of the delivery of a queue, by what its workers have."""
    return DeliveryFacts(
        paused=state.paused,
        waits=state.oldest_ready_seconds is not None and not state.rests,
        parked=state.parked,
        workers=state.consumers,
        awake=of.awake,
        unwanted=unwanted,
        in_flight=state.claimed,
        most_in_flight=state.most_claimed,
        most_receivers=state.max_receivers,
        busy_slots=of.slots.used,
        slots=of.slots.of,
        used_credit=of.credit.used,
        credit=of.credit.of,
        grouped=state.grouped,
        strict=state.strict,
    )


def delivery(state: QueueState, awake: int, unwanted: int = 0) -> AlertKind | None:
    """Return what keeps the queue from delivering, or delays it."""
    factor = stopped_by(facts_of(state, Supply(awake=awake), unwanted))
    if factor is not None:
        return STOPPED.get(factor)
    return AlertKind.LATE if state.waited_seconds > LATE_SECONDS else None


def _others(state: QueueState, rates: Rates | None) -> Iterator[Alert]:
    if is_full(state):
        yield Alert(kind=AlertKind.FULL, queue=state)
    # As they are shown: figures that look alike are no reason.
    if rates and round(rates.failed, RATE_PLACES) > round(rates.accepted, RATE_PLACES):
        yield Alert(kind=AlertKind.FAILING, queue=state, failed=rates.failed, accepted=rates.accepted)
    if state.new_dead_letters:
        yield Alert(kind=AlertKind.DEAD, queue=state)
    if state.retrying:
        yield Alert(kind=AlertKind.RETRYING, queue=state)


def is_full(state: QueueState) -> bool:
    """Return whether the queue takes no further message. A ring is never full.

    Where counting has stopped, the count that publishers know decides. It may be a moment old.
    """
    if state.overflow == Overflow.RING.value:
        return False
    counts = (state.ready, state.scheduled + state.retrying, state.claimed, state.dead)
    known = (state.held_messages or 0) if max(counts) >= COUNT_LIMIT else 0
    return Limits(messages=state.max_messages).exceeded_by(max(sum(counts), known) + 1, 0)
