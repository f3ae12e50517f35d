"""Answer scrapes in time. The cost depends neither on how much is queued nor on how many servers scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from django_mq import conf
from django_mq.diagnosis.state.question import Question
from django_mq.errors import MQError
from django_mq.integrations.prometheus.figures import read, up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric


class QueueCollector(Collector):
    """Read the figures of one database alias; register it with a ``CollectorRegistry``.

    The database is read on a connection of its own, and the figures are kept for ``cache_seconds``, so that
    several scrapers cost as much as one. If it cannot be read, or has not answered after ``patience_seconds``, the
    only figure is ``django_mq_up 0``.
    """

    def __init__(
        self, alias: str | None = None, *, cache_seconds: float = 5.0, patience_seconds: float = 3.0
    ) -> None:
        self._alias = alias
        self._patience_seconds = patience_seconds
        self._figures = Question(read, keep_seconds=cache_seconds)

    def describe(self) -> list[Metric]:
        """Return nothing: registering must not read the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the figures, at most ``cache_seconds`` old."""
        try:
            alias = self._alias or conf.load().DATABASE
            return self._figures.answer(alias, patience_seconds=self._patience_seconds)
        except MQError:
            return [up(readable=False)]
