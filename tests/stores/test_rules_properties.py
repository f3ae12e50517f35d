"""In any history of three workers of a queue with rules, each claim brings what a plain list says."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.records import ConsumerInfo, Heartbeat
from django_mq.stores.registry import shared_store
from tests.stores.builders import claim, declare, ids, open_session, pass_time, publish, verdict
from tests.stores.conftest import memory_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed

#: However slow the machine, it cannot lose a step; no session outlasts its deadline by them.
STEP_SECONDS = 1000
DEADLINE_SECONDS = 1000 * STEP_SECONDS
WORKERS = 3

worker = st.integers(0, WORKERS - 1)
group = st.sampled_from([None, "a", "a", "b", "c"])
ACTS = st.one_of(
    st.tuples(st.just("publish"), group),
    st.tuples(st.just("publish"), group),
    st.tuples(st.just("claim"), worker, st.integers(1, 4), st.booleans()),
    st.tuples(st.just("claim"), worker, st.integers(1, 4), st.booleans()),
    st.tuples(st.just("accept"), worker),
    st.tuples(st.just("give_back"), worker, st.integers(0, 2)),
    st.tuples(st.just("pass_time")),
    st.tuples(st.just("leave"), worker),
    st.tuples(st.just("die"), worker),
)
HISTORIES = st.lists(ACTS, min_size=15, max_size=60)
few = st.one_of(st.none(), st.integers(1, 3))
RULES = st.fixed_dictionaries(
    {
        "grouping": st.sampled_from(["none", "assigned", "balanced", "shared", "sole"]),
        "strict": st.booleans(),
        "max_in_flight": few,
        "max_consumers": few,
        "exclusive": st.sampled_from([False, False, True]),
    }
)
#: Of each worker: its consumer's priority, and its credit, 0 for no limit.
STANDINGS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=WORKERS, max_size=WORKERS)


@dataclass
class Entry:
    id: int
    group: str | None
    holder: int | None = None
    due: int = 0
    failed: bool = False
    suspect: bool = False


@dataclass
class Model:
    """The rules in a few lines; workers are numbers that are never used again."""

    rules: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    seated: set[int] = field(default_factory=set)
    owners: dict[str, int] = field(default_factory=dict)
    #: By worker, the priority and the credit of its consumer.
    standing: dict[int, tuple[int, int]] = field(default_factory=dict)
    now: int = 0

    def claim(self, worker: int, credit: int, *, in_order: bool) -> list[int]:
        chosen = self._until_a_suspect(self._first_for(worker, credit, in_order=in_order))
        for entry in chosen:
            entry.holder = worker
            self.seated.add(worker)
            if self.rules["grouping"] in {"assigned", "balanced"} and entry.group is not None:
                self.owners[entry.group] = worker
        return [entry.id for entry in chosen]

    def _first_for(self, worker: int, credit: int, *, in_order: bool) -> list[Entry]:
        """Deal the messages out, one by one, to those with a higher priority and this worker.

        If this worker runs groups in order, it then gets those that follow what it has of a group.
        """
        held = {other: sum(entry.holder == other for entry in self.entries) for other in self.standing}
        free = {other: 1000 if not most else most - held[other] for other, (_, most) in self.standing.items()}
        mine = self.standing[worker][0]
        better = [other for other, (priority, _) in self.standing.items() if priority > mine]
        better.sort(key=lambda other: (-self.standing[other][0], other))
        hands: dict[int, list[Entry]] = {other: [] for other in [*better, worker]}
        free[worker] = credit
        seated = set(self.seated)
        left = self.rules["max_in_flight"] or 1000
        left -= sum(held.values())
        runs, follow = self._run_by(worker) if in_order else set(), list[Entry]()
        owned = self._owned()
        owned[worker] |= runs
        for entry, is_first in self._ready(runs):
            if len(hands[worker]) >= credit or left <= 0 or not self._has_seat(worker, seated):
                break
            self._balance(worker, entry, owned, better)
            if not is_first():
                continue
            if entry.group in runs:
                if entry.suspect or not self._may_have(worker, entry, seated):
                    runs.discard(entry.group)
                else:
                    follow.append(entry)
                continue
            for other, hand in hands.items():
                if self._may_have(other, entry, seated) and len(hand) < free[other] and left > 0:
                    hand.append(entry)
                    seated.add(other)
                    left -= 1
                    if other == worker and in_order and not entry.suspect and self._is_grouped(entry):
                        runs.add(entry.group)
                    break
        most = min(credit - len(hands[worker]), left)
        return sorted(hands[worker] + follow[: max(0, most)], key=self.entries.index)

    def _is_grouped(self, entry: Entry) -> bool:
        return entry.group is not None and self.rules["grouping"] in {"assigned", "balanced", "shared"}

    def _run_by(self, worker: int) -> set[str | None]:
        """The groups of which this worker alone has messages, and none waits for its next attempt."""
        mine = {entry.group for entry in self.entries if entry.holder == worker and self._is_grouped(entry)}
        kept = {
            entry.group for entry in self.entries if entry.holder not in {None, worker} or entry.due > self.now
        }
        return mine - kept

    def _may_have(self, worker: int, entry: Entry, seated: set[int]) -> bool:
        if not self._has_seat(worker, seated):
            return False
        return self.owners.get(entry.group or "", worker) == worker

    def _has_seat(self, worker: int, seated: set[int]) -> bool:
        return worker in seated or len(seated) < self._seats

    @property
    def _seats(self) -> int:
        alone = self.rules["exclusive"] or self.rules["grouping"] == "sole"
        return 1 if alone else self.rules["max_consumers"] or 1000

    def _owned(self) -> defaultdict[int, set[str | None]]:
        """By worker, its groups that have ready messages."""
        owned: defaultdict[int, set[str | None]] = defaultdict(set)
        for entry in self.entries:
            if entry.holder is None and entry.due <= self.now and entry.group in self.owners:
                owned[self.owners[entry.group]].add(entry.group)
        return owned

    def _balance(
        self, worker: int, entry: Entry, owned: defaultdict[int, set[str | None]], better: list[int]
    ) -> None:
        owner = self.owners.get(entry.group or "", worker)
        if self.rules["grouping"] != "balanced" or entry.group is None or owner in {worker, *better}:
            return
        if len(owned[owner]) > len(owned[worker]) + 1:
            self.owners[entry.group] = worker
            owned[owner].discard(entry.group)
            owned[worker].add(entry.group)

    def _ready(self, runs: set[str | None]) -> Iterator[tuple[Entry, Callable[[], bool]]]:
        """Each ready message, and whether it is the first of a free group, or of a group in ``runs``."""
        busy = {entry.group for entry in self.entries if entry.holder is not None or entry.due > self.now}

        def is_first(entry: Entry) -> bool:
            if not self._is_grouped(entry) or entry.group in runs:
                return True
            first = entry.group not in busy
            busy.add(entry.group)
            return first

        for entry in self.entries:
            if entry.holder is None and entry.due <= self.now:
                yield entry, partial(is_first, entry)

    @staticmethod
    def _until_a_suspect(entries: list[Entry]) -> list[Entry]:
        if entries and entries[0].suspect:
            return entries[:1]
        return [entry for index, entry in enumerate(entries) if not any(e.suspect for e in entries[: index + 1])]

    def gone(self, worker: int, *, suspect: bool) -> None:
        for entry in self.entries:
            if entry.holder == worker:
                entry.holder = None
                entry.suspect = entry.suspect or suspect
        self.seated.discard(worker)
        del self.standing[worker]
        self.owners = {group: owner for group, owner in self.owners.items() if owner != worker}

    def entry(self, id_: int) -> Entry:
        return next(entry for entry in self.entries if entry.id == id_)


class Pair:
    """A store and the model, doing the same things."""

    def __init__(self, store: Store, rules: dict[str, Any], standings: list[tuple[int, int]]) -> None:
        # A queue that keeps places always keeps its order of arrival.
        declare(store, due_order="keep_place", max_attempts=0, **rules)
        # A server that has just started grants every session a deadline of grace.
        pass_time(store, STEP_SECONDS)
        self.store, self.model = store, Model(rules)
        self.held: dict[int, list[Claimed]] = {}
        self.standings = standings
        self.workers = [self._begin(number) for number in range(WORKERS)]

    def _begin(self, number: int) -> int:
        session = open_session(self.store, deadline_seconds=DEADLINE_SECONDS)
        self.held[session] = []
        priority, credit = self.model.standing[session] = self.standings[number]
        told = ConsumerInfo(queue_name="orders", priority=priority, credit_limit=credit)
        self.store.sessions.renew(session, Heartbeat(deadline_seconds=DEADLINE_SECONDS, consumers=(told,)))
        return session

    def publish(self, group: str | None) -> None:
        self.model.entries.append(Entry(publish(self.store, group_key=group), group))

    def claim(self, number: int, credit: int, in_order: bool = False) -> None:
        worker = self.workers[number]
        expected = self.model.claim(worker, credit, in_order=in_order)

        ordered = frozenset({"orders"} if in_order else ())
        claimed = claim(self.store, worker, credit=credit, in_order=ordered)

        assert ids(claimed) == expected
        self.held[worker] += claimed

    def _settle(self, number: int, how: Verdict, **given: Any) -> Entry | None:
        worker = self.workers[number]
        if not self.held[worker]:
            return None
        message = self.held[worker].pop(0)
        assert self.store.settlements.settle(worker, [verdict(message, how, **given)]) == frozenset()
        return self.model.entry(message.id)

    def accept(self, number: int) -> None:
        if (entry := self._settle(number, Verdict.ACCEPT)) is not None:
            self.model.entries.remove(entry)

    def give_back(self, number: int, steps: int) -> None:
        delay = float(steps * STEP_SECONDS)
        if (entry := self._settle(number, Verdict.RELEASE, counted=True, delay_seconds=delay)) is not None:
            entry.holder, entry.suspect = None, False
            entry.due = self.model.now + steps

    def finish(self) -> None:
        """Let each worker work with its own credit until no message is left."""
        self.pass_time()
        self.pass_time()
        rounds = len(self.model.entries) * WORKERS + 1
        while self.model.entries and (rounds := rounds - 1):
            for number in range(WORKERS):
                while self.held[self.workers[number]]:
                    self.accept(number)
                self.claim(number, self.standings[number][1] or 5)
        assert self.model.entries == []

    def pass_time(self) -> None:
        pass_time(self.store, STEP_SECONDS)
        self.model.now += 1

    def leave(self, number: int) -> None:
        self.store.sessions.close(self.workers[number])
        self.model.gone(self.workers[number], suspect=False)
        self.workers[number] = self._begin(number)

    def die(self, number: int) -> None:
        self.store.sessions.renew(self.workers[number], Heartbeat(deadline_seconds=-1))
        self.store.sessions.reap()
        self.model.gone(self.workers[number], suspect=True)
        self.workers[number] = self._begin(number)


def live_through(alias: str | None, rules: dict[str, Any], standings: list[Any], acts: list[Any]) -> None:
    with transaction.atomic(using=alias) if alias else nullcontext():
        pair = Pair(shared_store(alias) if alias else memory_store(), rules, standings)
        for name, *arguments in acts:
            getattr(pair, name)(*arguments)
        pair.finish()
        if alias:
            transaction.set_rollback(True, using=alias)


def lives(most: int) -> Any:
    return settings(max_examples=most, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@lives(150)
@given(rules=RULES, standings=STANDINGS, acts=HISTORIES)
def test_any_history_in_memory(rules: dict[str, Any], standings: list[Any], acts: list[Any]) -> None:
    live_through(None, rules, standings, acts)


@pytest.mark.django_db(databases=["default"])
@lives(60)
@given(rules=RULES, standings=STANDINGS, acts=HISTORIES)
def test_any_history_on_sqlite(rules: dict[str, Any], standings: list[Any], acts: list[Any]) -> None:
    live_through("default", rules, standings, acts)


@pytest.mark.once
@pytest.mark.django_db(databases=["default", "postgresql"])
@lives(15)
@given(rules=RULES, standings=STANDINGS, acts=HISTORIES)
def test_any_history_on_postgresql(rules: dict[str, Any], standings: list[Any], acts: list[Any]) -> None:
    live_through("postgresql", rules, standings, acts)


@pytest.mark.once
@pytest.mark.django_db(databases=["default", "mariadb"])
@lives(15)
@given(rules=RULES, standings=STANDINGS, acts=HISTORIES)
def test_any_history_on_mariadb(rules: dict[str, Any], standings: list[Any], acts: list[Any]) -> None:
    live_through("mariadb", rules, standings, acts)
