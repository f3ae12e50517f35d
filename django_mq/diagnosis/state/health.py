"""The answer for a probe: few statements, and an answer in time even if the database hangs."""

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
    """The conditions for "well", beside a database that can be written and has the tables."""

    #: Only these queues; all without names.
    queues: Sequence[str] = ()
    #: The most seconds that a ready message may have waited for a worker, in a queue that is not paused.
    oldest_seconds: float | None = None
    #: The most dead letters in a queue.
    dead: int | None = None
    #: Whether every queue needs a live worker session.
    workers: bool = False


@dataclass(slots=True)
class Health:
    """The answer."""

    alerts: list[str] = field(default_factory=list)
    #: Why the queues could not be read; None if they were.
    error: MQError | None = None
    seconds: float = 0.0

    @property
    def well(self) -> bool:
        return not self.alerts


class Probe:
    """A reusable, thread-safe question whether the demands are met."""

    def __init__(self, demands: Demands, *, keep_seconds: float = 0.0) -> None:
        self._demands = demands
        self._question = Question(self._ask, keep_seconds=keep_seconds)

    def answer(self, *, using: str, timeout_seconds: float) -> Health:
        """Return the health after about ``timeout_seconds`` at the latest. Never raises for what it finds."""
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
        # Changes no row. A database that takes no writes, as a standby after a failover, refuses it.
        Queue.objects.using(alias).filter(pk=-1).update(paused=False)
        try:
            queues = overview(self._demands.queues, using=alias)
        except UnknownQueue as error:
            return [f"{error}{meant(error.queue, alias)}"]
        return [alert for queue in queues for alert in _alerts(queue, self._demands)]


def _alerts(queue: QueueState, demands: Demands) -> list[str]:
    alerts = []
    if demands.oldest_seconds is not None and not queue.paused:
        # A dead-letter queue without a worker has an age only if the demands name it.
        age = (queue.oldest_ready_seconds or 0.0) if queue.name in demands.queues else queue.waited_seconds
        if age > demands.oldest_seconds:
            alerts.append(f"Queue {queue.name!r}: its oldest ready message has waited {age:.0f} s.")
    if demands.dead is not None and queue.dead_letters > demands.dead:
        alerts.append(f"Queue {queue.name!r}: {queue.dead_letters} dead letters.")
    if demands.workers and not queue.consumers and not queue.takes_dead_letters:
        alerts.append(f"Queue {queue.name!r}: no live worker takes from it.")
    return alerts
