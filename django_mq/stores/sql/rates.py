"""What limits by key have used, in tables."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import astuple
from typing import TYPE_CHECKING

from django_mq.engine.decisions.keyed_limits import Allowed, LimitFacts
from django_mq.engine.decisions.rates import Rate, Used
from django_mq.errors import OutOfRange
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import rates as subjects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import KeyState, LimitedKey, Slot
    from django_mq.stores.sql.database import Rows, Statement

#: Kinds of rows of facts, as in the statement.
NOW, USED, HELD, ALLOWED, RUNNING = range(5)


def facts_of(rows: Rows) -> LimitFacts:
    """Return the facts from the rows of ``rates_facts``."""
    found: dict[int, dict[LimitedKey, list[float | None]]] = {kind: {} for kind in range(5)}
    for kind, limit, key, *numbers in rows:
        found[kind][limit, key] = [None if number is None else float(number) for number in numbers]
    [[now, *_]] = found[NOW].values()
    used, held = found[USED], found[HELD]
    return LimitFacts(
        now or 0.0,
        {place: Used(free_at or 0.0, seen_at or 0.0) for place, (free_at, seen_at, *_) in used.items()},
        {place: until for place, (until, *_) in held.items() if until is not None},
        {place: allowed(*numbers) for place, numbers in found[ALLOWED].items()},
        {place: int(count or 0) for place, (count, *_) in found[RUNNING].items()},
        {place: until for place, (_, _, until, _) in used.items() if until is not None},
    )


def using(queue: str, states: Mapping[LimitedKey, KeyState], slots: Sequence[Slot]) -> list[Statement]:
    """Return the statements that write what keys have used."""
    found: list[Statement] = [("end_slots", {"queue": queue})]
    if states:
        keys = [[*place, *state.used, state.waiting_until] for place, state in sorted(states.items())]
        found.append(("use_limits", {"queue": queue, "states": json.dumps(keys)}))
    if slots:
        found.append(("add_slots", {"queue": queue, "slots": json.dumps(slots)}))
    return found


class Rates(Part, subjects.Rates):
    def facts(self, queue: str) -> LimitFacts:
        return facts_of(self.rows("rates_facts", queue=queue))

    def running(self, queue: str) -> Mapping[LimitedKey, int]:
        return {(limit, key): int(count) for limit, key, count in self.rows("running_keys", queue=queue)}

    def use(self, queue: str, states: Mapping[LimitedKey, KeyState], slots: Sequence[Slot]) -> None:
        self.database.each(using(queue, states, slots))

    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        self.rows("hold_key", queue=queue, limit_name=limit, limited_key=key, hold_seconds=seconds)

    def allow(self, queue: str, limit: str, key: str, given: Allowed) -> None:
        named = {"queue": queue, "limit_name": limit, "limited_key": key}
        if given == Allowed():
            self.rows("forbid_key", **named)
            return
        amount, in_all, burst = (None, None, None) if given.rate is None else astuple(given.rate)
        self.rows("allow_key", **named, amount=amount, in_all=in_all, burst=burst, at_once=given.at_once)

    def prune(self, limit: int) -> int:
        return sum(len(self.rows(statement, limit=limit)) for statement in ("prune_rates", "prune_holds"))


def allowed(amount: float | None, seconds: float | None, burst: float | None, at_once: float | None) -> Allowed:
    """Return what an operator allows; nothing of what was written past the form and makes no sense."""
    rate = None
    if amount is not None and seconds is not None:
        with suppress(OutOfRange):
            rate = Rate(amount, seconds, 1.0 if burst is None else burst)
    return Allowed(rate, int(at_once) if at_once is not None and at_once >= 1 else None)
