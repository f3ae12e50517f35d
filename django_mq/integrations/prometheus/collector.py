"""Turns the overview into metrics: what a scrape costs does not depend on how much is queued.

One series per queue and figure, of at most ``MOST_QUEUES`` queues: what clients name, such as
types and correlation ids, never becomes a label.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from django.db import connections
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from django_mq import conf
from django_mq.diagnosis.fleet import fleet
from django_mq.diagnosis.overview import overview
from django_mq.diagnosis.series import recent_rates
from django_mq.errors import MQError
from django_mq.stores.translation import translating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from django_mq.diagnosis.fleet import Worker
    from django_mq.diagnosis.overview import QueueState
    from django_mq.diagnosis.series import Recent

#: Queues with series of their own, those in trouble first; more would burden the server that scrapes.
MOST_QUEUES = 500


class QueueCollector(Collector):
    """Reads the figures of one database alias; register it with a ``CollectorRegistry``.

    The answer is kept for ``cache_seconds``, so that several scrapers cost as much as one.
    A database that cannot be read yields ``django_mq_up 0`` and nothing else. One that hangs
    holds the scrape that asks it as long as its driver waits; the others give up after
    ``patience_seconds`` and say the same, so a site never has more than one thread in it.
    """

    def __init__(
        self, alias: str | None = None, *, cache_seconds: float = 5.0, patience_seconds: float = 3.0
    ) -> None:
        self._alias = alias
        self._cache_seconds = cache_seconds
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._metrics: list[Metric] = []
        self._read_at = float("-inf")

    def describe(self) -> list[Metric]:
        """Return nothing: registering must not ask the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the figures as they are now, or were a moment ago."""
        if not self._lock.acquire(timeout=self._patience_seconds):
            return [_up(readable=False)]
        try:
            if time.monotonic() - self._read_at >= self._cache_seconds:
                self._metrics = self._read()
                self._read_at = time.monotonic()
            return list(self._metrics)
        finally:
            self._lock.release()

    def _read(self) -> list[Metric]:
        alias = self._alias or conf.load().DATABASE
        try:
            with translating(connections[alias]):
                found = [*_queue_metrics(overview(using=alias), recent_rates(using=alias))]
                found += _worker_metrics(fleet(using=alias))
        except MQError:
            return [_up(readable=False)]
        return [_up(readable=True), *found]


def _up(*, readable: bool) -> Metric:
    up = _gauge("up", "1 if the queues' database could be read.")
    up.add_metric([], float(readable))
    return up


def _queue_metrics(queues: Sequence[QueueState], rates: Recent) -> Iterator[Metric]:
    chosen = sorted(queues, key=_urgency, reverse=True)[:MOST_QUEUES]
    age = _gauge("oldest_ready_seconds", "Age of the oldest ready message; 0 if none is ready.", "queue")
    depth = _gauge("messages", "Messages in each state, counted up to 10,000.", "queue", "state")
    rate = _gauge("rate", "Messages a second over the newest five known minutes.", "queue", "kind")
    letters = _gauge("dead_letters", "Dead letters, dead in place or sent here by other queues.", "queue")
    role = _gauge("takes_dead_letters", "1 if other queues send their dead letters here.", "queue")
    consumers = _gauge("consumers", "Live worker sessions that take from the queue.", "queue")
    paused = _gauge("paused", "1 if the queue is paused.", "queue")
    for queue in chosen:
        age.add_metric([queue.name], queue.oldest_ready_seconds or 0.0)
        for state in ("ready", "scheduled", "claimed", "dead"):
            depth.add_metric([queue.name, state], getattr(queue, state))
        seen = rates.of(queue.name)
        for kind in () if seen is None else ("arrived", "accepted", "failed"):
            rate.add_metric([queue.name, kind], getattr(seen, kind))
        letters.add_metric([queue.name], queue.dead_letters)
        role.add_metric([queue.name], queue.takes_dead_letters)
        consumers.add_metric([queue.name], queue.consumers)
        paused.add_metric([queue.name], queue.paused)
    shown = _gauge("queues", "Queues there are, with and without series of their own.")
    shown.add_metric([], len(queues))
    yield from (age, depth, rate, letters, role, consumers, paused, shown)


def _urgency(queue: QueueState) -> tuple[float, int, int]:
    return queue.waited_seconds, queue.dead_letters, queue.ready


def _worker_metrics(workers: Sequence[Worker]) -> list[Metric]:
    sessions = _gauge("workers", "Worker sessions, alive or past their deadline.", "state")
    stale = sum(worker.stale for worker in workers)
    sessions.add_metric(["alive"], len(workers) - stale)
    sessions.add_metric(["stale"], stale)
    held = _gauge("held_messages", "Messages that worker sessions held at their last heartbeats.")
    held.add_metric([], sum(worker.held for worker in workers))
    return [sessions, held]


def _gauge(name: str, help_text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"django_mq_{name}", help_text, labels=labels)
