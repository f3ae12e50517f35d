"""One look at the queues and the workers, or the error that prevented it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from django.db import connections

from django_mq.alerts.observed import EXTENSION, of_alerts, of_findings
from django_mq.diagnosis.state.acknowledged import snoozed
from django_mq.diagnosis.state.alerts import alerts
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.diagnosis.state.fleet import fleet
from django_mq.diagnosis.state.flow import Flow
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.running import running_now, usual_runs
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.errors import StoreUnavailable
from django_mq.rollups.series import recent_rates
from django_mq.seams.findings import Level
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django_mq.alerts.observed import Observation
    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.flow import Rates
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.running import RunningMessage

T = TypeVar("T")

#: How long figures are kept that change from minute to minute.
KEEP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look, or the error that prevented it."""

    queues: Sequence[QueueState] = ()
    workers: Sequence[WorkerStatus] = ()
    rates: Rates = None
    unwanted: Mapping[str, int] = field(default_factory=dict)
    #: What runs, if asked for.
    running: Sequence[RunningMessage] | None = None
    #: What needs a look, if asked for, the worst first.
    observations: Sequence[Observation] = ()
    error: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of workers, and of the messages that they hold."""
        stale = sum(worker.stale for worker in self.workers)
        held = sum(worker.held for worker in self.workers)
        return {"alive": len(self.workers) - stale, "stale": stale, "held": held}

    @property
    def done_per_second(self) -> float | None:
        """The messages of these queues that finish a second; None after the first look."""
        rates = self.rates
        return None if rates is None else sum(rates.get(queue.name, 0.0) for queue in self.queues)


def glance(alias: str, names: Sequence[str], flow: Flow) -> Look:
    """Look at these queues, or at all, and at the workers."""
    rates = flow.look()
    queues = sorted(overview(names, using=alias), key=urgency, reverse=True)
    workers = fleet(using=alias)
    return Look(queues, workers, rates, unwanted(workers, using=alias))


def urgency(queue: QueueState) -> tuple[float, int, int]:
    """Return the key to sort by: the queue whose messages have waited longest is the largest."""
    return queue.waited_seconds, queue.dead_letters, queue.ready


def attempted(alias: str, look: Callable[[], Look]) -> Look:
    """Return the look, or one with the error if the database cannot be used now."""
    try:
        with translating(connections[alias]):
            return look()
    except StoreUnavailable as error:
        connections[alias].close()  # the next look connects anew
        return Look(error=str(error))


class Remembered(Generic[T]):
    """A function of an alias whose answer is given again for a while."""

    def __init__(self, ask: Callable[[str], T], keep_seconds: float = KEEP_SECONDS) -> None:
        self._ask = ask
        self._keep_seconds = keep_seconds
        self._known: tuple[float, T] | None = None

    def __call__(self, alias: str) -> T:
        now = time.monotonic()
        if self._known is None or now - self._known[0] >= self._keep_seconds:
            self._known = now, self._ask(alias)
        return self._known[1]


class Watch:
    """Looks again and again, and keeps what changes slowly."""

    def __init__(self, alias: str, names: Sequence[str] = ()) -> None:
        self.alias = alias
        self._names = names
        self._flow = Flow(alias)
        self._usual = Remembered(usual_runs)
        self._rates = Remembered(lambda using: recent_rates(using=using).rates)
        self._snoozed = Remembered(lambda using: snoozed(using=using))
        self._found = Remembered(self._findings)

    def look(self, *, running: bool) -> Look:
        """Look at the queues, the workers and what needs a look; with ``running`` also at what runs."""
        return attempted(self.alias, lambda: self._look(running=running))

    def _look(self, *, running: bool) -> Look:
        alias = self.alias
        look = glance(alias, self._names, self._flow)
        found = alerts(look.queues, self._rates(alias), look.workers, look.unwanted)
        known = self._snoozed(alias)
        observed = [one for one in (*of_alerts(found), *self._found(alias)) if one.identity not in known]
        return replace(
            look,
            observations=sorted(observed, key=lambda one: one.level != Level.PROBLEM.value),
            running=running_now(usual=self._usual, using=alias) if running else None,
        )

    def _findings(self, alias: str) -> list[Observation]:
        # Without what concerns the whole site if only some queues are watched.
        found = [] if self._names else found_by_extensions(using=alias)
        return list(of_findings(EXTENSION, (one.finding for one in found)))
