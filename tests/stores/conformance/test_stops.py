"""An operator asks the session that holds a message to stop it, and the session hears of it with its renewal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.unusual import UsualRun
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import History, StopRequest, WorkerSession
from django_mq.stores.records import BegunRun, Heartbeat, Running, running_in
from tests.stores.builders import claim, ids, lose_worker, open_session, pass_time, publish, settle
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.base import Store
    from django_mq.stores.records import Receipt

ALIVE = Heartbeat(deadline_seconds=15)


def stops(store: Store, session: int) -> frozenset[Receipt]:
    """Renew the session, and return what it is asked to stop."""
    renewal = store.sessions.renew(session, ALIVE)
    assert renewal is not None
    return renewal.stops


def test_a_session_is_asked_to_stop_what_it_holds_until_it_has_followed(
    store: Store, orders: str, session: int
) -> None:
    other = open_session(store)
    for _ in range(3):
        publish(store)
    mine, theirs = claim(store, session, credit=2), claim(store, other)
    ready = publish(store)
    assert stops(store, session) == frozenset()

    asked = store.sessions.ask_to_stop([mine[0].id, *ids(theirs), ready, 10**9])

    assert asked == sorted([mine[0].id, *ids(theirs)])
    assert stops(store, session) == stops(store, session) == {mine[0].receipt}
    store.sessions.forget_stops(session, [mine[0].receipt])
    assert stops(store, session) == frozenset()
    assert stops(store, other) == {theirs[0].receipt}


ENDS: list[tuple[str, Callable[[Store, int], object]]] = [
    ("closed", lambda store, session: store.sessions.close(session)),
    ("reaped", lose_worker),
]


@pytest.mark.parametrize(("end"), [end for _, end in ENDS], ids=[name for name, _ in ENDS])
def test_what_a_session_was_asked_to_stop_does_not_come_back_when_it_ends(
    store: Store, orders: str, session: int, end: Callable[[Store, int], object]
) -> None:
    publish(store)
    publish(store)
    stopped, other = claim(store, session)
    store.sessions.ask_to_stop([stopped.id])

    end(store, session)

    assert ids(claim(store, open_session(store))) == [other.id]
    if store.alias != ":memory:":
        assert History.objects.using(store.alias).get().outcome == History.Outcome.CANCELLED
        assert not StopRequest.objects.using(store.alias).exists()


@ON_DATABASES
def test_what_a_session_that_is_gone_was_asked_to_stop_does_not_come_back(
    store: Store, orders: str, session: int
) -> None:
    """A transaction has locked the message while the session was reaped, so that it was not given back then."""
    publish(store)
    (held,) = claim(store, session)
    store.sessions.ask_to_stop([held.id])
    WorkerSession.objects.using(store.alias).filter(pk=session).delete()
    store.retention.prune()

    store.sessions.reap()

    assert claim(store, open_session(store)) == []
    assert History.objects.using(store.alias).get().outcome == History.Outcome.CANCELLED
    store.retention.prune()
    assert not StopRequest.objects.using(store.alias).exists()


def test_a_suspect_that_is_to_be_stopped_is_not_dead(store: Store, orders: str, session: int) -> None:
    publish(store)
    claim(store, session)
    lose_worker(store, session)
    second = open_session(store)
    (suspect,) = claim(store, second)
    store.sessions.ask_to_stop([suspect.id])

    pass_time(store, 100)
    (reaped,) = store.sessions.reap()

    assert (reaped.released, reaped.dead) == (0, 0)
    assert claim(store, open_session(store)) == []


def test_a_request_is_for_one_claim(store: Store, orders: str, session: int) -> None:
    publish(store)
    (first,) = claim(store, session)
    store.sessions.ask_to_stop([first.id])
    settle(store, session, first, Verdict.RELEASE)
    (again,) = claim(store, session)

    store.sessions.close(session)

    assert ids(claim(store, open_session(store))) == [again.id]


def test_a_session_is_asked_to_stop_a_run_whose_message_is_gone_until_it_has_followed(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    (task,) = claim(store, session)
    settle(store, session, task, Verdict.ACCEPT)

    asked = store.sessions.ask_to_stop_begun([(session, task.receipt), (session + 1, (7, 70))])

    assert asked == [task.id]
    assert stops(store, session) == stops(store, session) == {task.receipt}
    store.sessions.forget_stops(session, [task.receipt])
    assert stops(store, session) == frozenset()
    store.sessions.ask_to_stop_begun([(session, task.receipt)])
    store.sessions.close(session)
    if store.alias != ":memory:":
        assert not StopRequest.objects.using(store.alias).exists()
        assert History.objects.using(store.alias).get().outcome == History.Outcome.ACCEPTED


@ON_DATABASES
def test_a_session_shows_what_runs(store: Store, session: int) -> None:
    begun = BegunRun("01a201cd-5077-70e7-a724-ae5470e6df0b", "orders", UsualRun(20, 2.0, 3.0))
    running = [
        Running(7, 70, "shop.consumers.bill", 12.5),
        Running(8, 80, "shop.report", 0.5, begun),
        Running(9, 90, "shop.new", 0.25, begun._replace(usual=None)),
    ]

    for given in (running, []):
        store.sessions.renew(session, Heartbeat(deadline_seconds=15, running=tuple(given)))
        assert running_in(WorkerSession.objects.using(store.alias).get(pk=session).running) == given
    assert running_in([[7, 70, "shop.consumers.bill", 12.5]]) == running[:1]  # as earlier releases write it
