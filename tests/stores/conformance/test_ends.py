"""Ends of claims and messages: each way in which one ends is told in its transaction, and nothing else."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.engine.decisions.ends import End, Ended, RunOutcome
from django_mq.engine.decisions.verdict import Decision, Verdict
from django_mq.errors import TransactionLost
from django_mq.seams.extension import Extension, Listening
from django_mq.stores.records import SessionInfo, Settlement
from tests.stores.builders import (
    DEADLINE_SECONDS,
    a_message,
    claim,
    declare,
    look,
    lose_worker,
    pass_time,
    publish,
    settle,
    verdict,
)
from tests.stores.conftest import IN_BOTH_WAYS, ON_DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.base import Store

INFO = SessionInfo(name="worker", kind="native", host="host", pid=1, version="1")
DONE = Decision(Verdict.ACCEPT)
KEYED = {"headers": json.dumps({"key": "a"})}


@pytest.fixture
def told() -> Iterator[list[Ended]]:
    """What a listening was told that wants every end."""
    heard: list[Ended] = []

    conf.add_extension(listening(lambda _, ended: heard.extend(ended)))
    yield heard
    conf.remove_extension("listener")


def admitted(store: Store, queue: str = "orders", **given: Any) -> int:
    return store.admission.append([a_message(queue, **given)])[0]


def claimed(store: Store, session: int, mark: dict[str, Any]) -> Any:
    declare(store, max_attempts=1)
    publish(store, **mark)
    [held] = claim(store, session)
    return held


def settled(how: Verdict) -> Callable[..., None]:
    def end(store: Store, session: int, mark: dict[str, Any]) -> None:
        assert not settle(store, session, claimed(store, session, mark), how, **mark)

    return end


def settled_by_the_caller(store: Store, session: int, mark: dict[str, Any]) -> None:
    held = claimed(store, session, mark)
    with store.database.transaction():
        settle(store, session, held, Verdict.ACCEPT, **mark)


def settled_with_the_next_claim(store: Store, session: int, mark: dict[str, Any]) -> None:
    held = claimed(store, session, mark)
    assert held.told_to == mark.get("told_to")
    result = look(store, session)
    assert not result.claimed
    done = [verdict(held, Verdict.ACCEPT, told_to=held.told_to)]
    assert not store.claims.settle_and_claim(session, done, None).void


def given_back(store: Store, session: int, mark: dict[str, Any]) -> None:
    held = claimed(store, session, mark)
    store.settlements.give_back(session, [verdict(held, Verdict.RELEASE, **mark)])


def closed(store: Store, session: int, mark: dict[str, Any]) -> None:
    claimed(store, session, mark)
    store.sessions.close(session)


def unknown_after_a_lost_answer(store: Store, session: int, mark: dict[str, Any]) -> None:
    claimed(store, session, mark)
    assert store.claims.resync(session, []) == 1


def taken_away(store: Store, session: int, mark: dict[str, Any]) -> None:
    held = claimed(store, session, mark)
    assert store.operations.release_held([held.id])


def reaped(store: Store, session: int, mark: dict[str, Any]) -> None:
    claimed(store, session, mark)
    lose_worker(store, session)


def reaped_for_good(store: Store, session: int, mark: dict[str, Any]) -> None:
    reaped(store, session, mark)
    second = store.sessions.open(INFO, deadline_seconds=DEADLINE_SECONDS)
    assert claim(store, second)
    lose_worker(store, second)


def revived(store: Store, session: int, mark: dict[str, Any]) -> None:
    held = claimed(store, session, mark)
    lose_worker(store, session)
    store.sessions.revive(session, INFO, [held.receipt], deadline_seconds=DEADLINE_SECONDS)


def settled_late(store: Store, session: int, mark: dict[str, Any]) -> None:
    held = claimed(store, session, mark)
    lose_worker(store, session)
    assert not settle(store, session, held, Verdict.ACCEPT, **mark)


def cancelled(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store)
    assert len(store.operations.cancel([publish(store, **mark)])) == 1


def purged(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store)
    publish(store, **mark)
    assert store.deletions.purge("orders") == 1


def expired(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store)
    publish(store, ttl_seconds=5, **mark)
    pass_time(store, 6)
    assert store.maintenance.expire() == 1


def sent_to_the_expiry_queue(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store, "late")
    declare(store, expiry_queue="late")
    publish(store, ttl_seconds=5, **mark)
    pass_time(store, 6)
    assert store.maintenance.expire() == 1


def driven_out_of_a_ring(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store, max_messages=1, overflow="ring")
    admitted(store, **mark)
    admitted(store)


def replaced_by_a_later_value(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store, last_value_key="key")
    admitted(store, **KEYED, **mark)
    admitted(store, **KEYED)


def after_a_later_value(decision: Verdict) -> Callable[..., None]:
    def way(store: Store, session: int, mark: dict[str, Any]) -> None:
        declare(store, last_value_key="key")
        admitted(store, **KEYED, **mark)
        [held] = claim(store, session)
        admitted(store, **KEYED)
        done = [verdict(held, decision, told_to=held.told_to)]
        assert not store.claims.settle_and_claim(session, done, None).void

    return way


def sent_to_the_dead_letters(store: Store, session: int, mark: dict[str, Any]) -> None:
    declare(store, "dead")
    declare(store, dead_letter_queue="dead")
    publish(store, **mark)
    [held] = claim(store, session)
    settle(store, session, held, Verdict.DEAD, **mark)
    assert store.deletions.purge("dead") == 1


def moved(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store)
    declare(store, "others")
    [answer] = store.operations.move([publish(store, **mark)], "others")
    assert answer.new_id is not None
    store.operations.cancel([answer.new_id])


def prioritised(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store)
    assert store.operations.prioritise([publish(store, **mark)], 9)


def values_that_are_due(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store, last_value_key="key")
    admitted(store, delay_seconds=5, **KEYED, **mark)
    pass_time(store, 6)
    store.maintenance.promote()


def queue_deleted(store: Store, _: int, mark: dict[str, Any]) -> None:
    declare(store)
    publish(store, **mark)
    store.deletions.delete_queue("orders", force=True)


#: Each way, and what is told of it, in any order: the end, the queue, and whether there is a new row.
WAYS: tuple[tuple[Callable[..., None], set[tuple[End, str, bool]]], ...] = (
    (settled(Verdict.ACCEPT), {(End.ACCEPTED, "orders", False)}),
    (settled(Verdict.RELEASE), {(End.RELEASED, "orders", False)}),
    (settled(Verdict.DECLINE), {(End.DECLINED, "orders", False)}),
    (settled(Verdict.DEAD), {(End.DEAD, "orders", False)}),
    (settled(Verdict.EXPIRE), {(End.EXPIRED, "orders", False)}),
    (settled(Verdict.CANCEL), {(End.CANCELLED, "orders", False)}),
    (settled_by_the_caller, {(End.ACCEPTED, "orders", False)}),
    (settled_with_the_next_claim, {(End.ACCEPTED, "orders", False)}),
    (given_back, {(End.GIVEN_BACK, "orders", False)}),
    (closed, {(End.GIVEN_BACK, "orders", False)}),
    (unknown_after_a_lost_answer, {(End.GIVEN_BACK, "orders", False)}),
    (taken_away, {(End.GIVEN_BACK, "orders", False)}),
    (reaped, {(End.LOST, "orders", False)}),
    (reaped_for_good, {(End.LOST, "orders", False), (End.DEAD, "orders", False)}),
    (revived, {(End.LOST, "orders", False), (End.RETAKEN, "orders", False)}),
    (
        settled_late,
        {(End.LOST, "orders", False), (End.RETAKEN, "orders", False), (End.ACCEPTED, "orders", False)},
    ),
    (cancelled, {(End.CANCELLED, "orders", False)}),
    (purged, {(End.PURGED, "orders", False)}),
    (expired, {(End.EXPIRED, "orders", False)}),
    (sent_to_the_expiry_queue, {(End.EXPIRED, "orders", False)}),
    (driven_out_of_a_ring, {(End.REPLACED, "orders", False)}),
    (replaced_by_a_later_value, {(End.REPLACED, "orders", False)}),
    (after_a_later_value(Verdict.RELEASE), {(End.RELEASED, "orders", False), (End.REPLACED, "orders", False)}),
    (after_a_later_value(Verdict.EXPIRE), {(End.REPLACED, "orders", False)}),
    (
        sent_to_the_dead_letters,
        {(End.DEAD, "orders", False), (End.DEAD_LETTERED, "orders", False), (End.PURGED, "dead", False)},
    ),
    (moved, {(End.MOVED, "orders", True), (End.CANCELLED, "others", False)}),
    (prioritised, {(End.MOVED, "orders", True)}),
    (values_that_are_due, {(End.MOVED, "orders", True)}),
    (queue_deleted, {(End.PURGED, "orders", False)}),
)


@IN_BOTH_WAYS
@pytest.mark.parametrize(("way", "expected"), WAYS)
def test_each_end_of_a_marked_message_is_told(
    store: Store, session: int, told: list[Ended], way: Callable[..., None], expected: set[tuple[End, str, bool]]
) -> None:
    way(store, session, {"told_to": "another listener"})
    assert {(ended.end, ended.queue, ended.new_row is not None) for ended in told} == expected
    assert {bytes(ended.body) for ended in told} == {b"{}"}


def ended(store: Store, session: int, held: Any) -> None:
    end = Settlement(*held.receipt, Verdict.END, told_to=held.told_to, outcome=RunOutcome.RETRIED)
    assert store.settlements.settle(session, [end]) == frozenset()


def ended_by_reaping(store: Store, session: int, held: Any) -> None:
    lose_worker(store, session)
    end = Settlement(*held.receipt, Verdict.END, told_to=held.told_to)
    assert store.settlements.settle(session, [end]) == frozenset([held.id])


def ended_by_closing(store: Store, session: int, held: Any) -> None:
    store.sessions.close(session)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [(ended, RunOutcome.RETRIED), (ended_by_reaping, RunOutcome.LOST), (ended_by_closing, RunOutcome.LOST)],
)
def test_a_message_that_is_acknowledged_when_it_begins_is_told_when_its_run_ends(
    store: Store, session: int, told: list[Ended], end: Callable[..., None], outcome: RunOutcome
) -> None:
    held = claimed(store, session, {"told_to": "another listener"})
    settle(store, session, held, Verdict.BEGIN, told_to=held.told_to)
    assert (told, store.queues.counts()["orders"].total) == ([], 0)

    end(store, session, held)
    found = [(each.end, each.outcome, each.message_id, each.queue, each.row) for each in told]
    assert found == [(End.ACCEPTED, outcome, held.message_id, "orders", held.id)]


def test_the_outcome_of_a_run_is_told_with_its_settlement(store: Store, session: int, told: list[Ended]) -> None:
    held = claimed(store, session, {"told_to": "another listener"})
    settle(store, session, held, Verdict.ACCEPT, told_to=held.told_to, outcome=RunOutcome.FAILED)

    assert [(each.end, each.outcome) for each in told] == [(End.ACCEPTED, RunOutcome.FAILED)]


def marked_while_it_is_held(store: Store, session: int, held: Any) -> None:
    store.settlements.mark(session, held.receipt, "listener")
    assert not settle(store, session, held, Verdict.DEAD, told_to="listener")


def marked_by_its_settlement(store: Store, session: int, held: Any) -> None:
    result = store.claims.settle_and_claim(
        session, [verdict(held, Verdict.DEAD, told_to="listener", marks=True)], None
    )
    assert not result.void


def marked_by_a_late_settlement(store: Store, session: int, held: Any) -> None:
    lose_worker(store, session)
    assert not settle(store, session, held, Verdict.DEAD, told_to="listener", marks=True)


def marked_before_its_worker_dies(store: Store, session: int, held: Any) -> None:
    lose_worker(store, session)
    second = store.sessions.open(INFO, deadline_seconds=DEADLINE_SECONDS)
    [suspect] = claim(store, second)
    store.settlements.mark(second, suspect.receipt, "listener")
    store.settlements.mark(session, held.receipt, "another")  # it holds the message no more
    lose_worker(store, second)


@IN_BOTH_WAYS
@pytest.mark.parametrize(
    "way",
    [
        marked_while_it_is_held,
        marked_by_its_settlement,
        marked_by_a_late_settlement,
        marked_before_its_worker_dies,
    ],
)
def test_a_message_that_its_session_marks_is_told_from_then_on(
    store: Store, session: int, told: list[Ended], way: Callable[..., None]
) -> None:
    held = claimed(store, session, {"content_type": "text/plain"})
    way(store, session, held)

    [dead] = [ended for ended in told if ended.end is End.DEAD]
    assert (dead.message_id, dead.queue, bytes(dead.body), dead.content_type, dead.content_encoding) == (
        held.message_id,
        "orders",
        b"{}",
        "text/plain",
        "utf-8",
    )


def test_no_end_of_another_message_is_told(store: Store, told: list[Ended]) -> None:
    for mark in ({}, {"told_to": "another"}):
        for way, _ in WAYS:
            session = store.sessions.open(INFO, deadline_seconds=DEADLINE_SECONDS)
            way(store, session, mark)
            store.sessions.close(session)
            for name in ("orders", "others", "dead", "late"):
                if store.queues.find(name) is not None:
                    store.deletions.purge(name)
            for name in ("orders", "others", "dead", "late"):
                if store.queues.find(name) is not None:
                    store.deletions.delete_queue(name, force=True)
    assert told == []


def listening(tell: Callable[[Any, Any], object]) -> Extension:
    """An extension that is told every end."""
    told = Listening(name="listener", ends=frozenset(End), wants=lambda _: True, tell=tell)
    return Extension(name="listener", ends=(told,))


@pytest.fixture
def added() -> Iterator[Callable[[Extension], None]]:
    """Adds an extension, for the test only."""
    yield conf.add_extension
    conf.remove_extension("listener")


@IN_BOTH_WAYS
def test_what_fails_while_it_is_told_changes_no_settlement(
    store: Store,
    session: int,
    added: Callable[[Extension], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def tell(store: Any, _: object) -> None:
        if store.features.durable:
            store.publications.append(a_message("late"))
            store.database.fetch("no statement", ())
        raise ZeroDivisionError

    declare(store, "late")
    held = claimed(store, session, {"told_to": "listener"})
    added(listening(tell))

    with caplog.at_level(logging.ERROR):
        assert not store.settlements.settle(session, [Settlement.of(held, DONE)])

    assert "The listening 'listener' failed with 1 ends" in caplog.text
    assert not claim(store, session, "late")
    assert not store.sessions.close(session)


@ON_DATABASES
def test_if_the_transaction_is_lost_while_it_is_told_nothing_is_settled(
    store: Store, session: int, added: Callable[[Extension], None]
) -> None:
    def tell(store: Any, _: object) -> None:
        store.database.execute("ROLLBACK")  # as a deadlock does
        raise ZeroDivisionError

    held = claimed(store, session, {"told_to": "listener"})
    added(listening(tell))

    with pytest.raises(TransactionLost):
        store.settlements.settle(session, [Settlement.of(held, DONE)])

    conf.remove_extension("listener")
    assert not store.settlements.settle(session, [Settlement.of(held, DONE)])
