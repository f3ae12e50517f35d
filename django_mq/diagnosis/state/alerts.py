"""What is wrong with which queue, from figures that are there already: it asks nothing of the database.

Of what keeps a queue from delivering one alert is told, the nearest: of a paused queue nobody needs to hear that
its workers are quiet, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from django_mq.diagnosis.state.fleet import Use, slots_of_queues
from django_mq.diagnosis.state.overview import COUNT_LIMIT
from django_mq.engine.overflow import Limits, Overflow
from django_mq.models import WorkerSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django_mq.diagnosis.state.fleet import Worker
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.series import Rates

#: Seconds a ready message may wait before its queue is late.
LATE_SECONDS = 300.0
#: Share of their slots from which workers count as busy, and of their credit from which it counts as spent.
BUSY_SHARE = 0.9
NONE = Use()


class Kind(Enum):
    """What it is, the worst first."""

    #: Ready messages, and no live worker that takes from the queue.
    UNSERVED = "unserved"
    #: Ready messages, and all its workers have been told to be quiet, or to stop.
    QUIET = "quiet"
    #: A message has waited long, though workers take from the queue.
    LATE = "late"
    #: It holds as many messages as it may, and takes no more as it should.
    FULL = "full"
    #: More attempts fail than messages are finished.
    FAILING = "failing"
    #: Worker sessions are past their deadline.
    STALE = "stale"
    #: Dead letters, dead in place or sent here by others.
    DEAD = "dead"
    #: Somebody has stopped delivery.
    PAUSED = "paused"


#: What grows while nobody looks; the others are told even when they are young.
DELIVERY = frozenset({Kind.UNSERVED, Kind.QUIET})
ORDER = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that needs a look. ``queue`` is None where it concerns workers only."""

    kind: Kind
    queue: QueueState | None = None
    #: Slots of the live workers that take from it, and credit of its live consumers; of 0 where none says.
    slots: Use = NONE
    credit: Use = NONE
    #: Messages a second that failed and that were finished.
    failed: float = 0.0
    accepted: float = 0.0
    #: Names of workers.
    workers: tuple[str, ...] = ()

    @property
    def urgent(self) -> bool:
        """Whether it harms now: not a pause, which is meant, nor what has waited for a moment only."""
        if self.kind in DELIVERY:
            return self.queue is not None and self.queue.waited_seconds > LATE_SECONDS
        return self.kind is not Kind.PAUSED

    @property
    def busy(self) -> bool:
        """Whether its workers can do hardly more: by their slots, or by their credit where no slots are known."""
        return _used_up(self.slots if self.slots.of else self.credit)

    @property
    def spent(self) -> bool:
        """Whether its consumers have used nearly all their credit."""
        return _used_up(self.credit)

    @property
    def _rank(self) -> tuple[bool, int, float, str]:
        waited = self.queue.waited_seconds if self.queue else 0.0
        delayed = self.kind in {*DELIVERY, Kind.LATE}
        return not self.urgent, -1 if delayed else ORDER[self.kind], -waited, self.queue.name if self.queue else ""


def alerts(states: Iterable[QueueState], rates: Mapping[str, Rates], workers: Sequence[Worker]) -> list[Alert]:
    """Return what needs a look, the worst first."""
    awake, slots, credit = awake_of(workers), slots_of_queues(workers), credit_of(workers)
    found = []
    for state in states:
        kind = _delivery(state, awake[state.name])
        if kind:
            use = slots[state.name], credit[state.name]
            found.append(Alert(kind=kind, queue=state, slots=use[0], credit=use[1]))
        found.extend(_besides(state, rates.get(state.name)))
    stale = tuple(worker.name for worker in workers if worker.stale)
    if stale:
        found.append(Alert(kind=Kind.STALE, workers=stale))
    return sorted(found, key=lambda alert: alert._rank)  # noqa: SLF001 - its own module


def awake_of(workers: Iterable[Worker]) -> Counter[str]:
    """Count each queue's live workers that have not been told to be quiet or to stop."""
    return Counter(name for worker in workers if _takes(worker) for name in worker.queues)


def credit_of(workers: Iterable[Worker]) -> dict[str, Use]:
    """Return the credit in use of each queue's live consumers; of a queue without any, none of none."""
    credit: defaultdict[str, Use] = defaultdict(Use)
    for consumer in (one for worker in workers if not worker.stale for one in worker.consumers):
        credit[consumer.queue] += Use(consumer.credit_used, consumer.credit_limit)
    return credit


def _used_up(use: Use) -> bool:
    return use.of > 0 and use.used >= BUSY_SHARE * use.of


def _takes(worker: Worker) -> bool:
    return not worker.stale and worker.conduct == WorkerSession.Mode.WORK


def _delivery(state: QueueState, awake: int) -> Kind | None:
    """Return what keeps the queue from delivering, or delays it."""
    if state.paused:
        return Kind.PAUSED
    if state.rests or state.oldest_ready_seconds is None:
        return None
    if not state.consumers:
        return Kind.UNSERVED
    if not awake:
        return Kind.QUIET
    return Kind.LATE if state.waited_seconds > LATE_SECONDS else None


def _besides(state: QueueState, rates: Rates | None) -> Iterator[Alert]:
    if is_full(state):
        yield Alert(kind=Kind.FULL, queue=state)
    if rates and rates.failed > rates.accepted:
        yield Alert(kind=Kind.FAILING, queue=state, failed=rates.failed, accepted=rates.accepted)
    if state.dead_letters:
        yield Alert(kind=Kind.DEAD, queue=state)


def is_full(state: QueueState) -> bool:
    """Return whether the queue has no room for a message more, and does not make it by itself, as a ring does.

    Where counting has stopped, what publishers know of it decides: that may be a moment old.
    """
    if state.overflow == Overflow.RING.value:
        return False
    counts = (state.ready, state.scheduled, state.claimed, state.dead)
    known = (state.held_messages or 0) if max(counts) >= COUNT_LIMIT else 0
    return Limits(messages=state.max_messages).exceeded_by(max(sum(counts), known) + 1, 0)
