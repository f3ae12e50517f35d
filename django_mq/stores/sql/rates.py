"""What limits by key have used, in tables."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.keyed_limits import (
    KEPT_SECONDS,
    MOST_KNOWN,
    PARKED_SECONDS,
    WAITING_SECONDS,
    Allowed,
    LimitFacts,
)
from django_mq.engine.decisions.rates import Rate, Used, lasts
from django_mq.errors import OutOfRange
from django_mq.stores.sql.database import Part
from django_mq.stores.subjects import rates as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import KeyState, LimitedKey, Slot
    from django_mq.stores.sql.database import Rows, Statement

#: Kinds of rows of facts, as in the statement.
NOW, USED, HELD, ALLOWED, RUNNING, DUE = range(6)
#: More rows than there are.
ALL = 2**31 - 1


def asking_rates(queue: str, most: int = MOST_KNOWN) -> Statement:
    """Return the statement that reads the facts of a claim: all of them if no kind has more than ``most``."""
    return "rates_facts", {"queue": queue, "limit": most + 1, "longest": WAITING_SECONDS}


def asking_keys(queue: str, keys: Collection[LimitedKey]) -> Statement:
    """Return the statement that reads the facts of these keys."""
    return "rates_of_keys", {"queue": queue, "keys": json.dumps([*keys])}


def facts_of(rows: Rows, most: int = MOST_KNOWN) -> LimitFacts:
    """Return the facts from the rows of ``rates_facts`` or ``rates_of_keys``."""
    found: dict[int, list[tuple[LimitedKey, list[Any]]]] = {kind: [] for kind in range(6)}
    for kind, limit, key, *numbers in rows:
        found[kind].append(((limit, key), [None if number is None else float(number) for number in numbers]))
    [(_, [now, next_at, *_])] = found[NOW]
    is_whole = all(len(found[kind]) <= most for kind in (USED, HELD, ALLOWED))
    keys = dict(found[USED] if is_whole else found[DUE])
    held: dict[LimitedKey, float] = {}
    for place, (until, seconds, *_) in found[HELD]:
        if lasts(until, seconds, now):
            held[place] = max(until, held.get(place, 0.0))
    running = {place: (int(count), until) for place, (count, _, until, _) in found[RUNNING]}
    waiting = {place: until for place, (_, _, until, _) in keys.items()}
    waiting |= {place: until for place, (_, until) in running.items()}
    return LimitFacts(
        now,
        {
            place: Used(free_at, seen_at)
            for place, (free_at, seen_at, until, _) in keys.items()
            if free_at > now or until is not None
        },
        held,
        {place: allowed(*numbers) for place, numbers in found[ALLOWED]},
        {place: count for place, (count, _) in running.items() if count},
        {place: until for place, until in waiting.items() if until is not None},
        is_whole,
        None if is_whole else now if len(found[DUE]) > most else next_at,
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
        statement, params = asking_rates(queue, ALL)
        return facts_of(self.rows(statement, **params), ALL)

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
        return sum(self._prune(queue, limit) for queue in self._queues())

    def _queues(self) -> Iterator[str]:
        """Yield the queues of whose keys anything is known, also those that are gone."""
        name: str | None = ""
        while name is not None:
            [[name]] = self.rows("limited_queues", after=name)
            if name is not None:
                yield name

    def _prune(self, queue: str, limit: int) -> int:
        given = {"queue": queue, "limit": limit, "kept": KEPT_SECONDS, "parked": PARKED_SECONDS}
        pruned = sum(len(self.rows(name, **given)) for name in ("prune_rates", "prune_left", "prune_holds"))
        if over := [row[0] for row in self.rows("over_slots", **given)]:
            self.rows("drop_slots", ids=over)
        return pruned + len(over)


def allowed(amount: float | None, seconds: float | None, burst: float | None, at_once: float | None) -> Allowed:
    """Return what an operator allows; nothing of what was written past the form and makes no sense."""
    rate = None
    if amount is not None and seconds is not None:
        with suppress(OutOfRange):
            rate = Rate(amount, seconds, 1.0 if burst is None else burst)
    return Allowed(rate, int(at_once) if at_once is not None and at_once >= 1 else None)
