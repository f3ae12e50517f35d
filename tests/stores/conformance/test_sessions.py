"""Worker sessions: opened, renewed, closed, reaped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.recall import FreeSlots
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.errors import SessionLost
from django_mq.models import Consumer, WorkerSession
from django_mq.stores.records import ConsumerInfo, Heartbeat, Reaped, SessionInfo, WorkerCommand
from tests.stores.builders import (
    DEADLINE_SECONDS,
    claim,
    declare,
    ids,
    look,
    lose_worker,
    open_session,
    pass_time,
    publish,
)
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from django_mq.stores.base import Store

ALIVE = Heartbeat(deadline_seconds=DEADLINE_SECONDS)
#: A slow machine needs seconds between two statements, and never a hundred of them.
FOR_LONG = Heartbeat(deadline_seconds=1000)


def test_no_session_id_is_used_twice(store: Store) -> None:
    first = open_session(store)
    store.sessions.close(first)

    assert open_session(store) != first


def test_a_worker_may_be_called_what_no_database_can_store(store: Store) -> None:
    id_ = open_session(store, "\udcff\x00" + "w" * 300)

    shown = replace(ALIVE, consumers=(ConsumerInfo(queue_name="orders", handler="shop." + "h" * 300),))
    assert store.sessions.renew(id_, shown) is not None


@ON_DATABASES
def test_a_session_shows_what_the_worker_says_of_itself(store: Store) -> None:
    info = SessionInfo(name="w@h", kind="celery", host="h", pid=42, version="1.2", queues=("a", "b"), credit=7)

    id_ = store.sessions.open(info, deadline_seconds=20)

    row = WorkerSession.objects.using(store.alias).get(pk=id_)
    assert (row.name, row.kind, row.host, row.pid, row.version) == ("w@h", "celery", "h", 42, "1.2")
    assert (row.queues, row.credit, row.held) == (["a", "b"], 7, 0)
    assert row.started_at == row.heartbeat_at
    assert (row.deadline - row.started_at).total_seconds() == 20


@ON_DATABASES
def test_a_heartbeat_moves_the_deadline_and_shows_the_consumers(store: Store, session: int) -> None:
    consumer = ConsumerInfo(queue_name="a", handler="h", priority=-3, credit_limit=5, credit_used=2, delivered=9)
    pass_time(store, 5)

    renewed = store.sessions.renew(
        session, Heartbeat(deadline_seconds=30, held=2, queues=("a",), credit=5, consumers=(consumer,))
    )

    row = WorkerSession.objects.using(store.alias).get(pk=session)
    shown = Consumer.objects.using(store.alias).get()
    assert renewed
    assert (row.held, row.queues, row.credit) == (2, ["a"], 5)
    assert (row.deadline - row.heartbeat_at).total_seconds() == 30
    assert (shown.session_id, shown.queue_name, shown.handler, shown.priority) == (session, "a", "h", -3)
    assert (shown.state, shown.credit_limit, shown.credit_used, shown.delivered) == ("interested", 5, 2, 9)


@ON_DATABASES
def test_each_heartbeat_replaces_the_consumers_of_the_last(store: Store, session: int) -> None:
    for name in ("a", "b"):
        store.sessions.renew(session, Heartbeat(deadline_seconds=30, consumers=(ConsumerInfo(queue_name=name),)))

    assert [row.queue_name for row in Consumer.objects.using(store.alias).all()] == ["b"]


def test_a_renewed_session_keeps_its_messages_however_long(store: Store, orders: str, session: int) -> None:
    publish(store)
    claim(store, session)

    for _ in range(20):
        assert store.sessions.renew(session, FOR_LONG)
        pass_time(store, 900)
        assert store.sessions.reap() == []

    assert store.queues.counts()[orders].claimed == 1


def test_the_eldest_session_that_lives_is_told_so(store: Store) -> None:
    first, second = open_session(store, "first"), open_session(store, "second")
    for session in (first, second):
        store.sessions.renew(session, FOR_LONG)

    assert [leader(store, session) for session in (first, second)] == [True, False]
    store.sessions.close(first)
    assert leader(store, second)


def test_a_session_that_has_expired_is_nobodys_elder(store: Store) -> None:
    open_session(store, "expired")
    young = open_session(store, "young", deadline_seconds=1000)
    pass_time(store, DEADLINE_SECONDS + 1)

    assert leader(store, young)


@ON_DATABASES
def test_a_session_that_is_only_prolonged_is_nobodys_elder(store: Store) -> None:
    silent = open_session(store, "silent")
    young = open_session(store, "young", deadline_seconds=5000)
    pass_time(store, DEADLINE_SECONDS - 1)
    assert store.sessions.prolong(silent, deadline_seconds=5000)
    assert not leader(store, young)

    pass_time(store, 1000)

    assert leader(store, young)


def test_a_prolonged_session_lives_from_one_deadline_to_the_next(store: Store, session: int) -> None:
    store.sessions.renew(session, FOR_LONG)
    pass_time(store, 900)
    assert store.sessions.prolong(session, deadline_seconds=1000)
    pass_time(store, 900)
    assert store.sessions.reap() == []
    pass_time(store, 101)

    assert not store.sessions.prolong(session, deadline_seconds=1000)

    assert [reaped.session_id for reaped in store.sessions.reap()] == [session]
    assert not store.sessions.prolong(session, deadline_seconds=1000)


@ON_DATABASES
def test_heartbeats_that_show_the_same_consumers_keep_them(store: Store, session: int) -> None:
    beat = Heartbeat(deadline_seconds=30, consumers=(ConsumerInfo(queue_name="a"),))
    store.sessions.renew(session, beat)
    [before] = Consumer.objects.using(store.alias).values_list("pk", flat=True)

    assert store.sessions.renew(session, beat)

    assert list(Consumer.objects.using(store.alias).values_list("pk", flat=True)) == [before]


def test_a_session_is_reaped_only_after_its_deadline(store: Store, session: int) -> None:
    store.sessions.renew(session, FOR_LONG)
    pass_time(store, 900)
    early = store.sessions.reap()
    pass_time(store, 101)
    late = store.sessions.reap()

    assert early == []
    assert late == [Reaped(session_id=session, name="worker", released=0, dead=0)]


def test_a_reaped_session_cannot_be_renewed(store: Store, session: int) -> None:
    lose_worker(store, session)

    assert not store.sessions.renew(session, ALIVE)
    assert not store.sessions.renew(
        session, Heartbeat(deadline_seconds=9, consumers=(ConsumerInfo(queue_name="a"),))
    )


def test_a_closed_session_cannot_be_renewed(store: Store, session: int) -> None:
    store.sessions.close(session)

    assert not store.sessions.renew(session, ALIVE)


def test_closing_a_session_gives_everything_back_uncounted(store: Store, orders: str, session: int) -> None:
    published = [publish(store) for _ in range(3)]
    claim(store, session)

    assert store.sessions.close(session) == 3

    again = claim(store, open_session(store))
    assert ids(again) == published
    assert {(item.attempts, item.suspect, item.redelivered) for item in again} == {(0, False, True)}


def test_closing_a_session_leaves_the_messages_of_others(store: Store, orders: str, session: int) -> None:
    publish(store)
    claim(store, session)

    assert store.sessions.close(open_session(store, "other")) == 0
    assert store.queues.counts()[orders].claimed == 1


def test_a_closed_session_claims_nothing(store: Store, orders: str, session: int) -> None:
    publish(store)
    store.sessions.close(session)

    with pytest.raises(SessionLost):
        look(store, session)


def test_closing_twice_is_harmless(store: Store, session: int) -> None:
    store.sessions.close(session)

    assert store.sessions.close(session) == 0


def test_reaping_gives_everything_back_in_its_old_place(store: Store, orders: str, session: int) -> None:
    published = [publish(store) for _ in range(2)]
    claim(store, session)
    latest = publish(store)

    pass_time(store, DEADLINE_SECONDS + 1)
    reaped = store.sessions.reap()

    heir = open_session(store)
    order = [ids(claim(store, heir)) for _ in range(3)]
    assert reaped == [Reaped(session_id=session, name="worker", released=2, dead=0)]
    assert order == [[published[0]], [published[1]], [latest]]


def test_reaping_takes_only_the_expired_sessions(store: Store, orders: str) -> None:
    expired, alive = open_session(store, "expired"), open_session(store, "alive", deadline_seconds=60)
    for session in (expired, alive):
        publish(store)
        claim(store, session)

    pass_time(store, DEADLINE_SECONDS + 1)

    assert [item.session_id for item in store.sessions.reap()] == [expired]
    assert (store.queues.counts()[orders].claimed, store.queues.counts()[orders].ready) == (1, 1)


def test_whoever_reaps_spares_the_session_in_whose_name(store: Store, orders: str) -> None:
    mine, other = open_session(store, "mine"), open_session(store, "other")
    for session in (mine, other):
        publish(store)
        claim(store, session)
    pass_time(store, DEADLINE_SECONDS + 1)

    assert [item.session_id for item in store.sessions.reap(spare=mine)] == [other]
    assert (store.queues.counts()[orders].claimed, store.queues.counts()[orders].ready) == (1, 1)
    assert store.sessions.renew(mine, FOR_LONG)


def test_reaping_reports_every_session_with_what_it_held(store: Store, orders: str) -> None:
    sessions = [open_session(store, name) for name in ("a", "b")]
    for _ in range(3):
        publish(store)
    claim(store, sessions[1], credit=3)
    pass_time(store, DEADLINE_SECONDS + 1)

    assert store.sessions.reap() == [
        Reaped(session_id=sessions[0], name="a", released=0, dead=0),
        Reaped(session_id=sessions[1], name="b", released=3, dead=0),
    ]


def test_reaping_twice_is_harmless(store: Store, orders: str, session: int) -> None:
    publish(store)
    claim(store, session)
    lose_worker(store, session)

    assert store.sessions.reap() == []
    assert store.queues.counts()[orders].ready == 1


@ON_DATABASES
def test_what_is_held_in_the_name_of_a_vanished_session_is_given_back(
    store: Store, orders: str, session: int
) -> None:
    publish(store)
    claim(store, session)
    WorkerSession.objects.using(store.alias).filter(pk=session).delete()

    assert store.sessions.reap() == []

    [message] = claim(store, open_session(store))
    assert (message.suspect, message.redelivered) == (True, True)


def test_reaping_counts_what_a_session_killed_for_good(store: Store, orders: str, edit_queue: object) -> None:
    edit_queue(orders, max_attempts=1)  # type: ignore[operator]
    publish(store)
    publish(store)
    lose = open_session(store)
    claim(store, lose)
    lose_worker(store, lose)
    session = open_session(store)
    claim(store, session)
    pass_time(store, DEADLINE_SECONDS + 1)

    [reaped] = store.sessions.reap()

    assert (reaped.session_id, reaped.released, reaped.dead) == (session, 0, 1)
    assert (store.queues.counts()[orders].ready, store.queues.counts()[orders].dead) == (1, 1)


@pytest.mark.parametrize("delay_seconds", [None, 5.0])
def test_a_renewal_says_whether_something_waits(store: Store, delay_seconds: float | None) -> None:
    name = declare(store)
    session = open_session(store)
    beat = Heartbeat(deadline_seconds=30, queues=(name,))
    looks = store.features.looks_when_renewed
    assert ready(store, session, beat) is not looks

    publish(store, name, delay_seconds=delay_seconds)
    pass_time(store, 10)

    assert ready(store, session, beat)
    assert ready(store, session, replace(beat, queues=("another",))) is not looks
    assert ready(store, session, replace(beat, look=False)) is not looks
    store.queues.set_paused(name, paused=True)
    assert ready(store, session, beat) is not looks


def leader(store: Store, session: int) -> bool:
    renewal = store.sessions.renew(session, FOR_LONG)
    assert renewal is not None
    return renewal.leader


def ready(store: Store, session: int, beat: Heartbeat) -> bool:
    renewal = store.sessions.renew(session, beat)
    assert renewal is not None
    return renewal.ready


def test_a_session_is_told_at_its_next_heartbeat_what_an_operator_wants(store: Store, session: int) -> None:
    before = store.sessions.renew(session, ALIVE)

    assert store.sessions.send_command(session, mode=WorkerMode.QUIET)
    assert store.sessions.send_command(session, credit=7)
    quiet = store.sessions.renew(session, ALIVE)
    assert store.sessions.send_command(session, mode=WorkerMode.WORK, credit=0)
    after = store.sessions.renew(session, ALIVE)

    assert before
    assert quiet
    assert after
    assert before.command == after.command == WorkerCommand()
    assert quiet.command == WorkerCommand(WorkerMode.QUIET, 7)


def test_a_session_that_is_gone_is_told_nothing(store: Store, session: int) -> None:
    store.sessions.close(session)

    assert not store.sessions.send_command(session, mode=WorkerMode.STOP)


def test_only_the_session_that_is_meant_is_told(store: Store, session: int) -> None:
    other = open_session(store, "other")

    store.sessions.send_command(other, mode=WorkerMode.STOP)

    told = store.sessions.renew(session, ALIVE)
    assert told
    assert told.command.mode is WorkerMode.WORK


@ON_DATABASES
def test_a_heartbeat_says_how_busy_the_worker_is(store: Store, session: int) -> None:

    store.sessions.renew(session, Heartbeat(deadline_seconds=30, busy=3, slots=4, memory_bytes=5 * 2**30))

    row = WorkerSession.objects.using(store.alias).get(pk=session)
    assert (row.busy, row.slots, row.memory_bytes) == (3, 4, 5 * 2**30)


@ON_DATABASES
def test_a_word_of_a_newer_version_is_ignored_and_said_once(
    store: Store, session: int, caplog: pytest.LogCaptureFixture
) -> None:
    store.sessions.send_command(session, mode=WorkerMode.QUIET, credit=3)
    store.sessions.renew(session, ALIVE)
    WorkerSession.objects.using(store.alias).filter(pk=session).update(conduct="drain")

    told = [renewed.command for _ in range(2) if (renewed := store.sessions.renew(session, ALIVE)) is not None]

    assert told == [WorkerCommand(WorkerMode.QUIET, 3)] * 2
    assert [record.message for record in caplog.records if "'drain'" in record.message] == [
        "The version of this worker does not know the command 'drain', and ignores it"
    ]


# Free slots


def test_free_slots_are_those_of_other_living_workers_that_work(store: Store, orders: str) -> None:
    mine, free, full, quiet, silent = (
        open_session(store, name) for name in ("me", "free", "full", "quiet", "silent")
    )
    told = (ConsumerInfo(queue_name=orders),)
    for session, busy in ((mine, 0), (free, 1), (full, 4), (quiet, 0), (silent, 0)):
        seconds = -1.0 if session == silent else 1000.0
        store.sessions.renew(session, Heartbeat(deadline_seconds=seconds, consumers=told, busy=busy, slots=4))
    store.sessions.send_command(quiet, mode=WorkerMode.QUIET)

    assert store.sessions.free_slots(mine, [orders, "letters"]) == {orders: [FreeSlots(3)]}
    assert store.sessions.free_slots(mine, ["letters"]) == {}


def test_free_slots_are_told_with_the_selectors_of_the_consumers(store: Store, orders: str) -> None:
    mine, other = open_session(store, "me"), open_session(store, "other")
    told = tuple(ConsumerInfo(queue_name=orders, selector=text) for text in ("a = 1", "b = 1"))
    store.sessions.renew(other, Heartbeat(deadline_seconds=1000.0, consumers=told, busy=1, slots=4))

    assert store.sessions.free_slots(mine, [orders]) == {orders: [FreeSlots(3, frozenset({"a = 1", "b = 1"}))]}


def test_a_worker_that_counts_no_slots_has_none_free(store: Store, orders: str) -> None:
    mine, other = open_session(store, "me"), open_session(store, "other")
    store.sessions.renew(other, Heartbeat(deadline_seconds=1000.0, consumers=(ConsumerInfo(queue_name=orders),)))

    assert store.sessions.free_slots(mine, [orders]) == {}
