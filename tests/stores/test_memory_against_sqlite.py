"""The same random history in memory and in SQLite: everything that can be seen is the same.

Each rule acts on both stores and compares what they answer; after each, every queue is
browsed in both. Messages are told apart by their ids as published, since row ids may differ.
Times are far apart, so that no machine is slow enough to make them cross.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from django_mq.engine.states import State
from django_mq.engine.verdict import Verdict
from django_mq.errors import MQError
from django_mq.models import Attempt, History
from django_mq.stores.memory.store import MemoryStore
from django_mq.stores.records import Failure, Heartbeat
from django_mq.stores.registry import shared_store
from tests.stores.builders import a_message, declare, look, open_session, pass_time, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed, Claimed, Counts, Exchange

#: Two stores' answers to one question.
Both = tuple[Any, Any]

QUEUES = {
    "failures": {},
    "orders": {"dead_letter_queue": "failures", "max_attempts": 2, "ttl_seconds": 1250.0},
    "line": {"kind": "fifo", "history_days": 0},
    "coarse": {"levels": 3, "due_order": "keep_place", "max_attempts": 1},
}
ALL_STATES = [State.SCHEDULED, State.READY, State.CLAIMED, State.DEAD]
DEADLINE_SECONDS = 350.0

names = st.sampled_from(sorted(QUEUES))
picks = st.integers(min_value=0, max_value=50)
several = st.lists(picks, max_size=3)
priorities = st.integers(min_value=0, max_value=9)
seconds = st.sampled_from([None, None, 150.0, 350.0])


class Twins(RuleBasedStateMachine):
    """Two stores that are told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.stores: tuple[Store, Store] = (MemoryStore(str(uuid4())), shared_store("default"))
        self.published: list[UUID] = []
        self.sessions: list[Both] = []
        #: Every delivery there ever was, with its session: some are settled late, or twice.
        self.deliveries: list[tuple[Both, tuple[Claimed, Claimed]]] = []

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    def both(self, act: Callable[[Store, int], Any]) -> Both:
        """Act on each store (given with its number), an error being an answer as good as any."""

        def answer(index: int) -> Any:
            try:
                return act(self.stores[index], index)
            except MQError as error:
                return type(error), str(error)

        return answer(0), answer(1)

    def same(self, act: Callable[[Store, int], Any]) -> Any:
        """Act on each store, and insist on one answer."""
        in_memory, in_sqlite = self.both(act)
        assert in_memory == in_sqlite
        return in_memory

    def ids(self, store: Store, chosen: list[int]) -> list[int]:
        """The row ids in one store of the messages chosen by number."""
        wanted = {self.published[pick % len(self.published)] for pick in chosen if self.published}
        return [item.id for item in self.browse(store) if item.message_id in wanted]

    def browse(self, store: Store) -> list[Browsed]:
        return [item for name in QUEUES for item in store.browse(name, states=ALL_STATES, limit=1000)]

    # Time, and what comes with it.

    @initialize()
    def begin(self) -> None:
        for name, options in QUEUES.items():
            self.same(lambda store, _, name=name, options=options: declare(store, name, **options))
        self.open()

    @rule(hundreds=st.integers(min_value=1, max_value=5))
    def wait(self, hundreds: int) -> None:
        for store in self.stores:
            pass_time(store, 100.0 * hundreds)

    @rule(duty=st.sampled_from(["promote", "expire"]))
    def upkeep(self, duty: str) -> None:
        self.same(lambda store, _: getattr(store, duty)())

    @rule()
    def reap(self) -> None:
        self.same(lambda store, _: [(item.name, item.released, item.dead) for item in store.reap()])

    # Publishing and consuming.

    @rule(queue=names, priority=priorities, delay=seconds, ttl=seconds)
    def publish(self, queue: str, priority: int, delay: float | None, ttl: float | None) -> None:
        message_id = uuid4()
        message = a_message(
            queue,
            message_id=message_id,
            priority=priority,
            delay_seconds=delay,
            ttl_seconds=ttl,
            headers='{"a": 1}',
        )
        for store in self.stores:
            store.append(message)
        self.published.append(message_id)

    @rule(queue=names, pick=picks, again=st.booleans())
    def publish_again(self, queue: str, pick: int, again: bool) -> None:
        """Publish a message where it is, or anew if it is gone; never a second copy, whose moves could collide."""
        if not self.published:
            return
        message_id = self.published[pick % len(self.published)]
        there = [item.queue_name for item in self.browse(self.stores[0]) if item.message_id == message_id]
        message = a_message(there[0] if there else queue, message_id=message_id)
        self.same(lambda store, _: positive(store.append(message, again=again)))

    @rule()
    def open(self) -> None:
        name = f"worker {len(self.sessions)}"
        self.sessions.append(
            self.both(lambda store, _: open_session(store, name, deadline_seconds=DEADLINE_SECONDS))
        )

    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        session, alive = self.session(pick), Heartbeat(deadline_seconds=DEADLINE_SECONDS)
        self.same(lambda store, index: store.renew(session[index], alive))

    @rule(pick=picks)
    def close(self, pick: int) -> None:
        session = self.session(pick)
        self.same(lambda store, index: store.close_session(session[index]))

    @rule(pick=picks, known=several)
    def resync(self, pick: int, known: list[int]) -> None:
        session = self.session(pick)
        self.same(lambda store, index: store.resync(session[index], self.ids(store, known)))

    def session(self, pick: int) -> Both:
        return self.sessions[pick % len(self.sessions)]

    @rule(
        pick=picks,
        queues=st.lists(names, min_size=1, max_size=3, unique=True),
        credit=st.integers(min_value=1, max_value=4),
        slots=st.integers(min_value=0, max_value=1),
        listed=st.booleans(),
    )
    def claim(self, pick: int, queues: list[str], credit: int, slots: int, listed: bool) -> None:
        session = self.session(pick)

        results = self.both(
            lambda store, index: look(store, session[index], *queues, credit=credit, slots=slots, listed=listed)
        )

        assert seen_of(results[0]) == seen_of(results[1])
        if not isinstance(results[0], tuple):
            self.deliveries += [(session, pair) for pair in zip(*(each.claimed for each in results), strict=True)]
        # A store that finds nothing to claim may leave what is due in a paused queue as it is.
        for store in self.stores:
            store.promote()

    @rule(
        pick=picks,
        how=st.sampled_from(Verdict),
        counted=st.booleans(),
        delay=st.sampled_from([0.0, 0.0, 150.0]),
        failed=st.booleans(),
    )
    def settle(self, pick: int, how: Verdict, counted: bool, delay: float, failed: bool) -> None:
        if not self.deliveries:
            return
        session, messages = self.deliveries[pick % len(self.deliveries)]
        more = {
            "counted": counted,
            "delay_seconds": delay,
            "reason": "no",
            "failure": Failure("f") if failed else None,
        }
        self.same(lambda store, index: len(settle(store, session[index], messages[index], how, **more)))

    # Steering.

    @rule(chosen=several, how=st.sampled_from(["cancel", "release_held", "deliver_now", "retry_dead"]))
    def steer(self, chosen: list[int], how: str) -> None:
        self.same(lambda store, _: getattr(store, how)(self.ids(store, chosen)))

    @rule(chosen=several, queue=names)
    def move(self, chosen: list[int], queue: str) -> None:
        self.same(lambda store, _: store.move(self.ids(store, chosen), queue))

    @rule(chosen=several, priority=priorities)
    def prioritise(self, chosen: list[int], priority: int) -> None:
        self.same(lambda store, _: store.prioritise(self.ids(store, chosen), priority))

    @rule(queue=names, paused=st.booleans(), ends_after=st.sampled_from([None, 150.0]))
    def pause(self, queue: str, paused: bool, ends_after: float | None) -> None:
        for store in self.stores:
            store.set_paused(queue, paused=paused, seconds=ends_after)

    @rule(queue=names)
    def purge(self, queue: str) -> None:
        self.same(lambda store, _: store.purge(queue))

    @rule(queue=names, force=st.booleans())
    def delete_and_declare(self, queue: str, force: bool) -> None:
        self.same(lambda store, _: store.delete_queue(queue, force=force))
        self.same(lambda store, _: declare(store, queue, **QUEUES[queue]))

    # What can be seen.

    @invariant()
    def the_queues_look_the_same(self) -> None:
        self.same(lambda store, _: [looks(item) for item in self.browse(store)])
        self.same(lambda store, _: {name: counted(counts) for name, counts in store.counts().items()})

    @invariant()
    def the_past_looks_the_same(self) -> None:
        memory = self.stores[0].broker  # type: ignore[attr-defined]

        assert sorted(map(over, memory.history)) == sorted(map(over, History.objects.all()))
        assert sorted(map(failed, memory.attempts)) == sorted(map(failed, Attempt.objects.all()))


def seen_of(answer: Exchange | tuple[Any, ...]) -> Any:
    """What a claim brought, as far as it does not depend on the store."""
    if isinstance(answer, tuple):
        return answer
    due = answer.next_due_seconds
    return [delivered(item) for item in answer.claimed], answer.more, None if due is None else round(due / 50)


def delivered(item: Claimed) -> Any:
    return (
        (item.message_id, item.queue_name, item.level, item.priority, item.attempts, item.redelivered),
        (item.suspect, item.expired, sign(item.place), json.loads(item.headers).get("x-origin-attempts")),
    )


def looks(item: Browsed) -> Any:
    headers = json.loads(item.headers) | {"x-dead-at": None}
    place = (item.queue_name, item.state, item.level, sign(item.place), item.priority)
    return item.message_id, place, item.attempts, item.dead_reason, headers, item.deliver_at is None


def counted(counts: Counts) -> Any:
    age = counts.oldest_ready_seconds
    in_states = counts.scheduled, counts.ready, counts.claimed, counts.dead
    return in_states, None if age is None else round(age / 50)


def over(row: Any) -> Any:
    was_held = row.session_id is not None, row.claimed_at is not None
    waited = (row.ready_at - row.published_at) // timedelta(seconds=50)
    return str(row.message_id), row.queue_name, int(row.outcome), row.attempts, row.priority, was_held, waited


def failed(row: Any) -> Any:
    return str(row.message_id), row.queue_name, row.number, row.error


def positive(number: int) -> bool:
    return number > 0


def sign(place: int) -> int:
    return (place > 0) - (place < 0)


@pytest.mark.django_db(databases=["default"])
def test_no_history_tells_the_store_in_memory_from_sqlite() -> None:
    run_state_machine_as_test(
        Twins,
        settings=settings(
            max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
