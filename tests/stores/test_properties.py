"""In any order of calls, a store does what a plain list would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.stores.records import Heartbeat
from django_mq.stores.registry import shared_store
from tests.stores.builders import claim, declare, ids, open_session, pass_time, publish, verdict
from tests.stores.model_queue import MAX_ATTEMPTS, ModelQueue

if TYPE_CHECKING:
    from django_mq.stores.records import Claimed
    from django_mq.stores.sql.store import SQLStore

#: Times are counted in steps this long: however slow the machine, it cannot lose one.
STEP_SECONDS = 1000
#: Longer than any example lasts by the moved clock.
DEADLINE_SECONDS = 1000 * STEP_SECONDS

index = st.integers(0, 30)
counted = st.booleans()
delays = st.sampled_from([0, 0, 1, 2, 3])
ACTS = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, 9), delays),
    st.tuples(st.just("publish"), st.integers(3, 5), delays),
    st.tuples(st.just("claim"), st.integers(1, 5)),
    st.tuples(st.just("claim"), st.integers(1, 5)),
    st.tuples(st.just("accept"), index),
    st.tuples(st.just("release"), index, counted, delays),
    st.tuples(st.just("bury"), index, counted),
    st.tuples(st.just("late_verdict"), index),
    st.tuples(st.just("cancel"), index),
    st.tuples(st.just("pass_time"), st.integers(1, 2)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("lose_worker")),
    st.tuples(st.just("crash"), st.integers(1, 5)),
    st.tuples(st.just("crash"), st.integers(1, 5)),
    st.tuples(st.just("close_session")),
    st.tuples(st.just("retry")),
    st.tuples(st.just("deliver_now")),
)
HISTORIES = st.lists(ACTS, min_size=20, max_size=100)


@dataclass
class Pair:
    """A store and the model, doing the same things."""

    store: SQLStore
    model: ModelQueue
    session: int = 0
    held: list[Claimed] = field(default_factory=list)
    settled: list[tuple[int, Claimed]] = field(default_factory=list)
    #: Row ids of what a reaped session held, and the session and token of the claim that the row still carries.
    carrying: dict[int, tuple[int, int]] = field(default_factory=dict)

    def publish(self, priority: int, delay: int) -> None:
        given = {"delay_seconds": delay * STEP_SECONDS} if delay else {}
        self.model.publish(publish(self.store, priority=priority, **given), priority, delay)

    def claim(self, credit: int) -> None:
        expected = self.model.claim(credit)

        messages = claim(self.store, self.session, credit=credit)

        assert ids(messages) == expected
        for message in messages:
            self.carrying.pop(message.id, None)
            entry = self.model.entries[message.id]
            assert (message.attempts, message.suspect) == (entry.attempts - entry.suspect, entry.suspect)
        self.held += messages

    def pick(self, number: int) -> Claimed | None:
        if not self.held:
            return None
        message = self.held.pop(number % len(self.held))
        self.settled.append((self.session, message))
        return message

    def settle(self, number: int, how: Verdict, **given: Any) -> int | None:
        message = self.pick(number)
        if message is None:
            return None
        assert self.store.settlements.settle(self.session, [verdict(message, how, **given)]) == frozenset()
        return message.id

    def accept(self, number: int) -> None:
        if (id_ := self.settle(number, Verdict.ACCEPT)) is not None:
            self.model.remove(id_)

    def release(self, number: int, counted: bool, delay: int) -> None:
        given = {"counted": counted, "delay_seconds": float(delay * STEP_SECONDS)}
        if (id_ := self.settle(number, Verdict.RELEASE, **given)) is not None:
            self.model.release(id_, counted=counted, delay=delay)

    def bury(self, number: int, counted: bool) -> None:
        if (id_ := self.settle(number, Verdict.DEAD, counted=counted, reason="bad")) is not None:
            self.model.bury(id_, counted=counted)

    def late_verdict(self, number: int) -> None:
        if self.settled:
            session, message = self.settled[number % len(self.settled)]
            counts = self.carrying.get(message.id) == (session, message.claim)
            void = self.store.settlements.settle(session, [verdict(message, Verdict.ACCEPT)])
            assert void == (frozenset() if counts else {message.id})
            if counts:
                del self.carrying[message.id]
                self.model.remove(message.id)

    def cancel(self, number: int) -> None:
        waiting = [entry for entry in self.model.entries.values() if entry.state != "claimed"]
        if waiting:
            chosen = waiting[number % len(waiting)].id
            assert self.store.operations.cancel([chosen]) == [chosen]
            self.carrying.pop(chosen, None)
            self.model.remove(chosen)

    def pass_time(self, steps: int) -> None:
        pass_time(self.store, steps * STEP_SECONDS)
        self.model.now += steps

    def pause(self, paused: bool) -> None:
        self.store.queues.set_paused("orders", paused=paused)
        self.model.paused = paused

    def lose_worker(self) -> None:
        self.store.sessions.renew(self.session, Heartbeat(deadline_seconds=-1))
        self.store.sessions.reap()
        self.model.lose_worker()
        self.carrying |= {message.id: (self.session, message.claim) for message in self.held}
        self.begin_session()

    def crash(self, credit: int) -> None:
        self.claim(credit)
        self.lose_worker()

    def close_session(self) -> None:
        assert self.store.sessions.close(self.session) == len(self.held)
        self.model.close_session()
        self.begin_session()

    def begin_session(self) -> None:
        self.settled += [(self.session, message) for message in self.held]
        self.held = []
        self.session = open_session(self.store, deadline_seconds=DEADLINE_SECONDS)

    def retry(self) -> None:
        dead = [entry.id for entry in self.model.in_state("dead")]
        self.store.operations.redrive(dead)
        self.carrying = {id_: claim for id_, claim in self.carrying.items() if id_ not in dead}
        self.model.retry()

    def deliver_now(self) -> None:
        self.store.operations.deliver_now([entry.id for entry in self.model.in_state("scheduled")])
        self.model.deliver_now()

    def check(self) -> None:
        self.store.maintenance.promote()
        self.model.promote()
        for state in (State.SCHEDULED, State.READY, State.CLAIMED, State.DEAD):
            expected = [(entry.id, entry.attempts) for entry in self.model.in_state(state.name.lower())]
            seen = self.store.browser.browse("orders", states=[state.value])
            assert [(item.id, item.attempts) for item in seen] == expected, state


def live_through(alias: str, levels: int, due_order: str, acts: list[tuple[Any, ...]]) -> None:
    with transaction.atomic(using=alias):
        store = shared_store(alias)
        declare(store, levels=levels, due_order=due_order, max_attempts=MAX_ATTEMPTS)
        # A server that has just started grants every session a deadline of grace.
        pass_time(store, STEP_SECONDS)
        pair = Pair(store, ModelQueue(levels, due_order == "due_first"))
        pair.begin_session()

        for name, *arguments in acts:
            getattr(pair, name)(*arguments)

        pair.check()
        transaction.set_rollback(True, using=alias)


any_history = given(
    levels=st.integers(1, 10), due_order=st.sampled_from(["due_first", "keep_place"]), acts=HISTORIES
)


@pytest.mark.django_db(databases=["default"])
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@any_history
def test_any_history_on_sqlite(levels: int, due_order: str, acts: list[tuple[Any, ...]]) -> None:
    live_through("default", levels, due_order, acts)


@pytest.mark.once
@pytest.mark.django_db(databases=["default", "postgresql"])
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@any_history
def test_any_history_on_postgresql(levels: int, due_order: str, acts: list[tuple[Any, ...]]) -> None:
    live_through("postgresql", levels, due_order, acts)


@pytest.mark.once
@pytest.mark.django_db(databases=["default", "mariadb"])
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@any_history
def test_any_history_on_mariadb(levels: int, due_order: str, acts: list[tuple[Any, ...]]) -> None:
    live_through("mariadb", levels, due_order, acts)
