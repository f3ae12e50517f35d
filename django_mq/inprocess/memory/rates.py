"""What limits by key have used, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.inprocess.memory.part import Part, locked
from django_mq.stores.records import storable
from django_mq.stores.subjects import rates as subjects
from django_mq.stores.subjects.rates import RatesFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.engine.decisions.rates import Rate, Used
    from django_mq.stores.subjects.rates import LimitedKey


class Rates(Part, subjects.Rates):
    @locked
    def facts(self, queue: str) -> RatesFacts:
        now, rates = self.broker.now().timestamp(), self.broker.rates
        return RatesFacts(
            now,
            {key[1:]: used for key, used in rates.used.items() if key[0] == queue and used.free_at > now},
            {key[1:]: until for key, until in rates.held.items() if key[0] == queue and until > now},
            {key[1:]: rate for key, rate in rates.exceptions.items() if key[0] == queue},
        )

    @locked
    def use(self, queue: str, used: Mapping[LimitedKey, Used]) -> None:
        self.broker.rates.used |= {(queue, *key): each for key, each in used.items()}

    @locked
    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        held, place = self.broker.rates.held, (queue, limit, storable(key, 255))
        held[place] = max(self.broker.now().timestamp() + seconds, held.get(place, 0.0))

    @locked
    def allow(self, queue: str, limit: str, key: str, rate: Rate | None) -> None:
        place = (queue, limit, storable(key, 255))
        self.broker.rates.exceptions.pop(place, None)
        if rate is not None:
            self.broker.rates.exceptions[place] = rate

    @locked
    def prune(self, limit: int) -> int:  # noqa: ARG002 - all at once
        now, rates = self.broker.now().timestamp(), self.broker.rates
        over = [key for key, used in rates.used.items() if used.free_at < now - 60]
        ended = [key for key, until in rates.held.items() if until < now]
        for key in over:
            del rates.used[key]
        for key in ended:
            del rates.held[key]
        return len(over) + len(ended)
