"""Is it well? A probe's question: few statements, and an answer in time whatever hangs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django_mq.diagnosis.messages.queue_names import meant
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.question import Question
from django_mq.errors import MQError, UnknownQueue
from django_mq.models import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.diagnosis.state.overview import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What counts as well, beyond a database that answers, takes writes and has the tables."""

    #: Only these queues; all without names.
    queues: Sequence[str] = ()
    #: Most seconds that a ready message may have waited: of a queue that is not paused, and for a worker,
    #: not in a dead-letter queue from which none takes.
    oldest_seconds: float | None = None
    #: Most dead letters in a queue, dead in place or sent there by others.
    dead: int | None = None
    #: Whether every queue must have a live worker session.
    workers: bool = False


@dataclass(slots=True)
class Health:
    """The answer: well if there are no alerts."""

    alerts: list[str] = field(default_factory=list)
    #: Why the queues could not be looked at; None if they were.
    error: MQError | None = None
    seconds: float = 0.0

    @property
    def well(self) -> bool:
        return not self.alerts


class Probe:
    """A question about what is demanded; it may be asked as often, and by as many, as one likes."""

    def __init__(self, demands: Demands, *, keep_seconds: float = 0.0) -> None:
        self._demands = demands
        self._question = Question(self._ask, keep_seconds=keep_seconds)

    def answer(self, *, using: str, timeout_seconds: float) -> Health:
        """Ask, and answer in about ``timeout_seconds`` at the latest; never raises for what it finds."""
        began = time.monotonic()
        health = Health()
        try:
            health.alerts = list(self._question.answer(using, patience_seconds=timeout_seconds))
        except MQError as error:
            health.error = error
            health.alerts = [str(error)]
        health.seconds = time.monotonic() - began
        return health

    def _ask(self, alias: str) -> list[str]:
        # Changes nothing, and is refused by a database that takes no writes, as a standby after a failover.
        Queue.objects.using(alias).filter(pk=-1).update(paused=False)
        try:
            queues = overview(self._demands.queues, using=alias)
        except UnknownQueue as error:
            return [f"{error}{meant(error.queue, alias)}"]
        return [alert for queue in queues for alert in _alerts(queue, self._demands)]


def _alerts(queue: QueueState, demands: Demands) -> list[str]:
    alerts = []
    if demands.oldest_seconds is not None and not queue.paused:
        # Of a dead-letter queue that is asked about by its name the age is meant, too.
        age = (queue.oldest_ready_seconds or 0.0) if queue.name in demands.queues else queue.waited_seconds
        if age > demands.oldest_seconds:
            alerts.append(f"Queue {queue.name!r}: its oldest ready message has waited {age:.0f} s.")
    if demands.dead is not None and queue.dead_letters > demands.dead:
        alerts.append(f"Queue {queue.name!r}: {queue.dead_letters} dead letters.")
    if demands.workers and not queue.consumers and not queue.takes_dead_letters:
        alerts.append(f"Queue {queue.name!r}: no live worker takes from it.")
    return alerts
