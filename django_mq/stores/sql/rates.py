"""What limits by key have used, in tables."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from django_mq.engine.decisions.rates import Rate, Used
from django_mq.errors import OutOfRange
from django_mq.stores.records import storable
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import rates as subjects
from django_mq.stores.subjects.rates import RatesFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.subjects.rates import LimitedKey

#: Kinds of rows of facts.
NOW, USED, HELD, EXCEPTION = range(4)


class Rates(Part, subjects.Rates):
    def facts(self, queue: str) -> RatesFacts:
        now = 0.0
        used: dict[LimitedKey, Used] = {}
        held: dict[LimitedKey, float] = {}
        exceptions: dict[LimitedKey, Rate] = {}
        for kind, limit, key, *numbers in self.rows("rates_facts", queue=queue):
            first, second, third = (float(number or 0) for number in numbers)
            if kind == NOW:
                now = first
            elif kind == USED:
                used[limit, key] = Used(first, second)
            elif kind == HELD:
                held[limit, key] = max(first, held.get((limit, key), first))
            elif kind == EXCEPTION:
                with suppress(OutOfRange):  # written past the form
                    exceptions[limit, key] = Rate(first, second, third or 1.0)
        return RatesFacts(now, used, held, exceptions)

    def use(self, queue: str, used: Mapping[LimitedKey, Used]) -> None:
        for (limit, key), (free_at, seen_at) in sorted(used.items()):
            self.rows("use_rate", queue=queue, limit_name=limit, limited_key=key, free_at=free_at, seen_at=seen_at)

    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        self.rows("hold_key", queue=queue, limit_name=limit, limited_key=storable(key, 255), hold_seconds=seconds)

    def allow(self, queue: str, limit: str, key: str, rate: Rate | None) -> None:
        named = {"queue": queue, "limit_name": limit, "limited_key": storable(key, 255)}
        with self.database.transaction():
            self.rows("forbid_key", **named)
            if rate is not None:
                self.rows("allow_key", **named, amount=rate.amount, in_all=rate.seconds, burst=rate.burst)

    def prune(self, limit: int) -> int:
        return sum(len(self.rows(statement, limit=limit)) for statement in ("prune_rates", "prune_holds"))
