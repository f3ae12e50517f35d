"""The health check of probes: few statements, and an answer in time even if the database hangs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django_mq.delivery.queues import explained
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.question import Question
from django_mq.errors import MQError, UnknownQueue
from django_mq.formats import PLAIN, counted
from django_mq.models import Queue
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.diagnosis.state.overview import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a healthy database must meet, besides having the tables and accepting writes."""

    #: Only these queues; if empty, all queues.
    queues: Sequence[str] = ()
    #: The maximum time that a ready message may have waited for a worker, in a queue that is not paused.
    oldest_seconds: float | None = None
    #: The maximum number of dead letters in a queue that no operator has acknowledged; with None, these are only
    #: warnings.
    dead: int | None = None
    #: Whether every queue needs a live worker session.
    workers: bool = False


class Health(NamedTuple):
    """The result of a health check."""

    alerts: list[str]
    #: Findings that do not break a demand.
    warnings: list[str]
    #: Why the queues could not be read; None if they were.
    error: MQError | None = None
    seconds: float = 0.0

    @property
    def well(self) -> bool:
        return not self.alerts


class Probe:
    """A reusable, thread-safe check whether the demands are met."""

    def __init__(self, demands: Demands, *, keep_seconds: float = 0.0) -> None:
        self._demands = demands
        self._question = Question(self._ask, keep_seconds=keep_seconds)

    def answer(self, *, using: str, timeout_seconds: float) -> Health:
        """Return the health within about ``timeout_seconds``. Problems are alerts, not exceptions."""
        began = time.monotonic()
        try:
            health = self._question.answer(using, patience_seconds=timeout_seconds)
        except MQError as error:
            health = Health([str(error)], [], error)
        return health._replace(seconds=time.monotonic() - began)

    def _ask(self, alias: str) -> Health:
        # Changes no row, but fails if the database takes no writes, as a standby after a failover.
        Queue.objects.using(alias).filter(pk=-1).update(paused=False)
        try:
            queues = overview(self._demands.queues, using=alias)
        except UnknownQueue as error:
            return Health([explained(error, alias)], [])
        alerts = [alert for queue in queues for alert in _alerts(queue, self._demands)]
        warnings = [_dead_letters(queue) for queue in queues if self._warns_of(queue)]
        # A probe of some queues is not for the rest of the site.
        for _, found in [] if self._demands.queues else found_by_extensions(using=alias):
            if found.level is not Level.OK:
                (alerts if found.level is Level.PROBLEM else warnings).append(f"{found.about}: {found.sentence}")
        return Health(alerts, warnings)

    def _warns_of(self, queue: QueueState) -> bool:
        return self._demands.dead is None and queue.new_dead_letters > 0


def _alerts(queue: QueueState, demands: Demands) -> list[str]:
    alerts = []
    if demands.oldest_seconds is not None and not queue.paused:
        # The age of a dead-letter queue without a worker counts only if the demands name the queue.
        age = (queue.oldest_ready_seconds or 0.0) if queue.name in demands.queues else queue.waited_seconds
        if age > demands.oldest_seconds:
            waited = PLAIN.age(age, is_exact=queue.is_oldest_exact)
            alerts.append(f"Queue {queue.name!r}: its oldest ready message has waited {waited}.")
    if demands.dead is not None and queue.new_dead_letters > demands.dead:
        alerts.append(_dead_letters(queue))
    if demands.workers and not queue.consumers and not queue.takes_dead_letters:
        alerts.append(f"Queue {queue.name!r}: no live worker takes from it.")
    return alerts


def _dead_letters(queue: QueueState) -> str:
    return f"Queue {queue.name!r}: {counted(queue.new_dead_letters, 'dead letter')}."
