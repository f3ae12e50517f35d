"""Suspects: what a dead worker held is delivered alone, and only such a claim counts an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.models import WorkerSession
from tests.stores.builders import (
    claim,
    declare,
    ids,
    look,
    lose_worker,
    open_session,
    publish,
    settle,
)
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def make_suspects(store: Store, count: int = 1) -> list[int]:
    """Publish messages and lose the worker that holds them."""
    published = [publish(store) for _ in range(count)]
    doomed = open_session(store, "doomed")
    claim(store, doomed)
    lose_worker(store, doomed)
    return published


def test_what_a_dead_worker_held_comes_back_suspect_and_uncounted(store: Store, orders: str) -> None:
    make_suspects(store)

    [message] = claim(store, open_session(store))

    assert (message.suspect, message.redelivered, message.attempts) == (True, True, 0)


def test_a_suspect_is_claimed_alone(store: Store, orders: str) -> None:
    suspects = make_suspects(store, 3)
    session = open_session(store)

    results = [look(store, session) for _ in range(3)]

    assert [ids(result.claimed) for result in results] == [[suspect] for suspect in suspects]
    assert [result.more for result in results] == [True, True, False]


def test_a_batch_ends_before_a_suspect(store: Store, orders: str) -> None:
    [suspect] = make_suspects(store)
    urgent = [publish(store, priority=9) for _ in range(2)]
    session = open_session(store)

    first, second = look(store, session), look(store, session)

    assert (ids(first.claimed), first.more) == (urgent, True)
    assert (ids(second.claimed), second.more) == ([suspect], False)


@pytest.mark.parametrize("queues", [("orders",), ("orders", "others")], ids=["one queue", "two queues"])
def test_a_suspect_waits_for_a_free_slot(store: Store, orders: str, queues: tuple[str, ...]) -> None:
    declare(store, "others")
    suspects = make_suspects(store)
    session = open_session(store)

    without = look(store, session, *queues, slots=0)
    with_one = look(store, session, *queues, slots=1)

    assert without.claimed == []
    assert ids(with_one.claimed) == suspects


def test_a_suspect_among_several_queues_is_claimed_alone(store: Store, orders: str) -> None:
    declare(store, "others")
    [suspect] = make_suspects(store)
    other = publish(store, "others", priority=0)
    session = open_session(store)

    first, second = (look(store, session, "orders", "others") for _ in range(2))

    assert (ids(first.claimed), first.more) == ([suspect], True)
    assert (ids(second.claimed), second.more) == ([other], False)


def test_the_claim_of_a_suspect_counts_when_its_worker_dies_again(store: Store, orders: str) -> None:
    make_suspects(store)

    for expected in (0, 1, 2):
        session = open_session(store)
        [message] = claim(store, session)
        assert message.attempts == expected
        lose_worker(store, session)


def test_a_suspect_that_kills_its_workers_ends_dead_at_the_maximum(store: Store) -> None:
    declare(store, max_attempts=2)
    [poison] = make_suspects(store)

    for _ in range(2):
        session = open_session(store)
        assert ids(claim(store, session)) == [poison]
        lose_worker(store, session)

    [dead] = store.browser.browse("orders", states=[State.DEAD.value])
    assert (dead.id, dead.attempts, dead.dead_reason) == (poison, 2, "worker lost")


def test_a_suspect_at_its_maximum_goes_to_the_dead_letter_queue(store: Store) -> None:
    declare(store, "failures")
    declare(store, max_attempts=1, dead_letter_queue="failures")
    make_suspects(store)
    session = open_session(store)
    claim(store, session)

    lose_worker(store, session)

    assert [item.dead_reason for item in store.browser.browse("failures", states=[State.READY.value])] == [
        "worker lost"
    ]


def test_each_worker_that_a_suspect_killed_leaves_a_failed_attempt(store: Store, attempts: Any) -> None:
    declare(store, max_attempts=2)
    make_suspects(store, 2)
    assert attempts() == []

    for number in (1, 2):
        session = open_session(store, f"victim {number}")
        claim(store, session)
        lose_worker(store, session)

    [message] = store.browser.browse("orders", states=[State.DEAD.value])
    found = [(row.message_id, row.number, row.error, row.worker) for row in attempts()]
    assert found == [(message.message_id, n, "WorkerLost", f"victim {n}") for n in (1, 2)]


@ON_DATABASES
def test_a_suspect_without_a_session_that_is_known_leaves_a_failed_attempt(store: Store, attempts: Any) -> None:
    declare(store)
    make_suspects(store)
    session = open_session(store)
    claim(store, session)
    WorkerSession.objects.using(store.alias).filter(pk=session).delete()

    store.sessions.reap()

    assert [(row.error, row.worker) for row in attempts()] == [("WorkerLost", f"session {session}")]


def test_with_no_maximum_a_suspect_is_tried_for_ever(store: Store) -> None:
    declare(store, max_attempts=0)
    suspects = make_suspects(store)

    for _ in range(15):
        session = open_session(store)
        assert ids(claim(store, session)) == suspects
        lose_worker(store, session)


def test_ten_deaths_of_a_prefetched_message_that_was_never_started_do_not_dead_letter_it(store: Store) -> None:
    declare(store, max_attempts=3)
    started, *prefetched = make_suspects(store, 5)

    for _ in range(9):
        session = open_session(store)
        claim(store, session)
        lose_worker(store, session)

    dead = store.browser.browse("orders", states=[State.DEAD.value])
    alive = store.browser.browse("orders", states=[State.READY.value])
    assert {item.id for item in dead} == {started, *prefetched[:2]}
    assert [(item.id, item.attempts) for item in alive] == [(id_, 0) for id_ in prefetched[2:]]


def test_a_death_while_not_suspect_never_dead_letters_even_past_the_maximum(
    store: Store, edit_queue: object, orders: str
) -> None:
    publish(store)
    session = open_session(store)
    for _ in range(3):
        [message] = claim(store, session)
        settle(store, session, message, Verdict.RELEASE, counted=True)
    edit_queue(orders, max_attempts=1)  # type: ignore[operator]
    claim(store, session)

    lose_worker(store, session)

    assert store.queues.counts()[orders].ready == 1


def test_a_suspect_released_uncounted_stays_suspect_and_keeps_its_count(store: Store, orders: str) -> None:
    make_suspects(store)
    session = open_session(store)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.RELEASE)

    [again] = claim(store, session)
    assert (again.suspect, again.attempts) == (True, 0)


def test_a_suspect_that_failed_is_counted_once_and_no_longer_suspect(store: Store, orders: str) -> None:
    make_suspects(store)
    session = open_session(store)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.RELEASE, counted=True)

    [again] = claim(store, session)
    assert (again.suspect, again.attempts) == (False, 1)


def test_a_suspect_s_session_that_closes_gives_it_back_uncounted(store: Store, orders: str) -> None:
    make_suspects(store)
    session = open_session(store)
    claim(store, session)

    store.sessions.close(session)

    [again] = claim(store, open_session(store))
    assert (again.suspect, again.attempts) == (True, 0)


@pytest.mark.parametrize("counted", [True, False])
def test_a_dead_suspect_counts_its_last_delivery_as_told(store: Store, orders: str, counted: bool) -> None:
    make_suspects(store)
    session = open_session(store)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.DEAD, counted=counted, reason="bad")

    [dead] = store.browser.browse(orders, states=[State.DEAD.value])
    assert dead.attempts == int(counted)
