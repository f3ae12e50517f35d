"""A worker session: what it claims it holds, and what it gives back when it ends or is lost."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from django_mq.api import publish
from django_mq.delivery.consumer import heartbeat
from django_mq.delivery.consumer.heartbeat import HeartbeatThread
from django_mq.delivery.consumer.lease import Driver
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import SessionLost, StoreUnavailable
from django_mq.models import History, Message, Queue, WorkerSession
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest, ClaimResult, Settlement
from django_mq.stores.registry import private_store, shared_store
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.records import Claimed

    Open = Callable[[], Session]

pytestmark = pytest.mark.on("sqlite", once="postgresql")

STATUS = Message.Status


@pytest.fixture
def alias(committed_database: str) -> str:
    """A database with a queue ``orders`` on which workers have connections of their own."""
    declare(shared_store(committed_database), "orders")
    return committed_database


@pytest.fixture
def open_session(alias: str) -> Iterator[Open]:
    """Opens sessions that are closed in the end."""
    opened: list[tuple[Session, Wake]] = []

    def make() -> Session:
        wake = Wake()
        opened.append((Session(alias, kind="native", wake=wake), wake))
        return opened[-1][0]

    yield make
    for session, wake in opened:
        session.close()
        session.store.close()
        wake.close()


@pytest.fixture
def idle_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat writes nothing that the driver has left lying, however slow the driver."""
    monkeypatch.setattr(heartbeat, "STALE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def absent_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat does nothing: the driver does everything."""
    monkeypatch.setattr(heartbeat, "ROUND_SECONDS", PATIENCE_SECONDS)


def claim(session: Session, credit: int = 10, slots: int = 1) -> list[Claimed]:
    return session.settle_and_claim(ClaimRequest(queues=("orders",), credit=credit, slots=slots)).claimed


def states(alias: str) -> list[int]:
    return list(Message.objects.using(alias).order_by("id").values_list("state", flat=True))


def test_a_session_opens_with_its_first_claim(alias: str, open_session: Open) -> None:
    session = open_session()
    assert not WorkerSession.objects.using(alias).exists()

    claim(session)

    assert WorkerSession.objects.using(alias).get().name == session.name


@pytest.mark.usefixtures("idle_heartbeat")
def test_what_is_claimed_is_held_until_it_is_settled(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (message,) = claim(session)
    assert (session.held, states(alias)) == (1, [STATUS.CLAIMED])

    session.accept(message)
    session.flush()

    assert (session.held, states(alias)) == (0, [])


@pytest.mark.usefixtures("idle_heartbeat")
def test_settlements_travel_with_the_next_claim(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (message,) = claim(session)
    session.accept(message)

    claim(session)

    assert states(alias) == []


def test_the_heartbeat_writes_what_the_driver_leaves_lying(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (message,) = claim(session)

    session.accept(message)

    wait_until(lambda: states(alias) == [])


def test_closing_writes_what_waits_and_gives_back_the_rest_uncounted(alias: str, open_session: Open) -> None:
    for number in range(3):
        publish("orders", number)
    session = open_session()
    first, *_ = claim(session)
    session.accept(first)

    session.close()

    rows = Message.objects.using(alias).order_by("id").values_list("state", "attempts")
    assert list(rows) == [(STATUS.READY, 0), (STATUS.READY, 0)]
    assert History.objects.using(alias).count() == 1
    assert not WorkerSession.objects.using(alias).exists()


def test_closing_writes_more_settlements_than_one_statement_takes(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (message,) = claim(session)
    for number in range(1000):
        session.settlements.add(Settlement(-number - 1, 0, Verdict.ACCEPT))
    session.settlements.add(Settlement(message.id, message.claim, Verdict.ACCEPT))

    session.close()

    assert states(alias) == []


def test_closing_twice_is_harmless(open_session: Open) -> None:
    session = open_session()
    claim(session)

    session.close()
    session.close()


@pytest.mark.usefixtures("idle_heartbeat")
def test_a_retired_session_claims_no_more_and_ends_with_its_last_message(alias: str, open_session: Open) -> None:
    publish("orders", "runs")
    publish("orders", "waits")
    session = open_session()
    runs, waits = claim(session)

    session.retire([waits])
    assert states(alias) == [STATUS.CLAIMED, STATUS.READY]
    assert WorkerSession.objects.using(alias).exists()

    session.accept(runs)
    wait_until(lambda: not WorkerSession.objects.using(alias).exists())
    assert states(alias) == [STATUS.READY]


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_retired_session_that_holds_nothing_ends_at_once(alias: str, open_session: Open) -> None:
    session = open_session()
    claim(session)

    session.retire()

    assert not WorkerSession.objects.using(alias).exists()


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_reaped_sessions_late_verdict_is_void(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    slow, other = open_session(), open_session()
    (late,) = claim(slow)
    reap(alias, slow)
    (again,) = claim(other)

    slow.accept(late)
    slow.flush()

    assert states(alias) == [STATUS.CLAIMED]
    other.accept(again)
    other.flush()
    assert states(alias) == []


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_verdict_that_comes_after_the_session_was_reaped_counts(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    slow = open_session()
    (late,) = claim(slow)
    reap(alias, slow)

    slow.accept(late)
    slow.flush()

    assert states(alias) == []


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_reaped_session_goes_on_with_what_nobody_else_has_claimed(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    publish("orders", 2)
    session = open_session()
    held = claim(session)
    name = session.id
    reap(alias, session)

    assert claim(session) == []

    assert (session.lost, session.id, session.held) == (False, name, 2)
    assert states(alias) == [STATUS.CLAIMED] * 2
    for message in held:
        session.accept(message)
    session.flush()
    assert states(alias) == []


@pytest.mark.usefixtures("absent_heartbeat")
@pytest.mark.parametrize("ask", [claim, lambda session: session.subscribe("orders")], ids=["claim", "subscribe"])
def test_a_reaped_session_is_lost_when_another_has_claimed_its_messages(
    alias: str, open_session: Open, ask: Callable[[Session], object]
) -> None:
    publish("orders", 1)
    publish("orders", 2)
    session, other = open_session(), open_session()
    mine = claim(session)
    reap(alias, session)
    (taken,) = claim(other)

    with pytest.raises(SessionLost):
        ask(session)

    assert session.lost
    assert session.wake.wait(0)
    # What is left may still be settled.
    assert session.held == 1
    session.retire([])
    session.accept(mine[0] if mine[0].id != taken.id else mine[1])
    assert states(alias) == [STATUS.CLAIMED]


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_session_that_was_reaped_claims_at_once_as_it_was_asked_to(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (held,) = claim(session, credit=1)
    reap(alias, session)
    publish("orders", 2)

    (claimed,) = claim(session)

    assert session.receipts == {(held.id, held.claim), (claimed.id, claimed.claim)}


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_claim_whose_session_was_reaped_before_its_answer_was_read_brings_nothing_that_others_have(
    alias: str, open_session: Open
) -> None:
    publish("orders", 1)
    session = open_session()
    session.settle_and_claim(None)
    taken: list[Claimed] = []

    class Paused(type(session.store.claims)):  # type: ignore[misc]
        def settle_and_claim(self, *args: Any) -> Any:
            result = super().settle_and_claim(*args)
            session.store.claims.__class__ = whole
            reap(alias, session)
            taken.extend(claim(open_session()))
            # The heartbeat wakes up before the driver has read the answer.
            assert session.heartbeat
            session.heartbeat.renew()
            return result

    whole = type(session.store.claims)
    session.store.claims.__class__ = Paused
    mine = claim(session)

    assert (len(taken), mine, session.held) == (1, [], 0)
    assert session.state.record.revivals == 1


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_verdict_that_a_revival_has_overtaken_is_written_again(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (message,) = claim(session)

    class Overtaken(type(session.store.claims)):  # type: ignore[misc]
        def settle_and_claim(self, *args: Any) -> Any:
            # The statement waits for the row until another worker has reaped the session: it finds nothing. Before
            # the driver reads that, the heartbeat has taken the message again.
            session.store.claims.__class__ = whole
            reap(alias, session)
            assert session.heartbeat
            session.heartbeat.renew()
            return ClaimResult(void=frozenset({message.id}))

    whole = type(session.store.claims)
    session.store.claims.__class__ = Overtaken
    session.accept(message)
    session.settle_and_claim(None)
    assert (session.held, states(alias)) == (1, [STATUS.CLAIMED])

    session.settle_and_claim(None)

    assert (session.held, states(alias)) == (0, [])


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_reaped_session_begins_nothing_of_a_queue_whose_seat_is_another_sessions(
    alias: str, open_session: Open
) -> None:
    Queue.objects.using(alias).update(exclusive=True)
    publish("orders", 1)
    session, other = open_session(), open_session()
    (held,) = claim(session)
    reap(alias, session)
    publish("orders", "urgent", priority=9)
    assert len(claim(other, credit=1)) == 1

    with pytest.raises(SessionLost):
        claim(session)
    assert states(alias) == [STATUS.CLAIMED] * 2  # the message may be running
    session.retire([held])

    assert states(alias) == [STATUS.READY, STATUS.CLAIMED]


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_session_whose_revival_had_no_answer_begins_nothing_that_others_have(
    alias: str, open_session: Open
) -> None:
    publish("orders", 1)
    session, other = open_session(), open_session()
    (held,) = claim(session)
    reap(alias, session)
    assert len(claim(other)) == 1
    assert session.heartbeat
    kept = session.heartbeat.store.sessions

    class Breaking(type(kept)):  # type: ignore[misc]
        def revive(self, *args: Any, **more: Any) -> None:
            super().revive(*args, **more)
            raise StoreUnavailable("the connection broke")

    whole = type(kept)
    kept.__class__ = Breaking
    with pytest.raises(StoreUnavailable):
        session.heartbeat.renew()
    kept.__class__ = whole
    session.heartbeat.renew()

    assert session.lost
    session.retire([held])
    assert (session.held, states(alias)) == (0, [STATUS.CLAIMED])


def test_the_heartbeat_notices_that_the_session_was_reaped(alias: str, open_session: Open, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 2, "MAINTENANCE_SECONDS": 60}
    publish("orders", 1)
    session = open_session()
    claim(session)
    reap(alias, session)

    wait_until(lambda: session.state.record.revivals)
    assert states(alias) == [STATUS.CLAIMED]


@pytest.mark.usefixtures("absent_heartbeat")
def test_two_workers_share_no_session_though_the_tables_were_flushed(alias: str, open_session: Open) -> None:
    sessions = first, second = open_session(), open_session()
    for session in sessions:
        call_command("flush", database=alias, interactive=False, verbosity=0)
        declare(shared_store(alias), "orders")
        claim(session)
    claim(first)

    assert first.id != second.id
    assert set(WorkerSession.objects.using(alias).values_list("pk", flat=True)) == {first.id, second.id}


@pytest.mark.usefixtures("absent_heartbeat")
def test_the_connection_stands_for_the_session_from_the_first_instant(alias: str, open_session: Open) -> None:
    session = open_session()

    claim(session)

    [row] = WorkerSession.objects.using(alias).all()
    assert row.guarded is session.store.features.notices_ends


def test_the_heartbeat_renews_the_session(alias: str, open_session: Open, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 2}
    session = open_session()
    claim(session)
    first = WorkerSession.objects.using(alias).get().deadline

    wait_until(lambda: WorkerSession.objects.using(alias).get().deadline > first)


def expire_all(alias: str, session: Session) -> HeartbeatThread:
    """Let every deadline pass; return the heartbeat of one session, which reaps before it renews."""
    WorkerSession.objects.using(alias).update(deadline="2001-01-01T00:00:00Z")
    kept = session.heartbeat
    assert isinstance(kept, HeartbeatThread)
    kept._state.renew_at = float("inf")
    # A server that has just started grants every session a deadline of grace.
    kept.store.sessions.grace_seconds = -1000.0  # type: ignore[attr-defined]
    return kept


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_heartbeat_that_comes_late_reaps_the_others_and_never_its_own_session(
    alias: str, open_session: Open
) -> None:
    mine, other = open_session(), open_session()
    claim(mine)
    claim(other)

    expire_all(alias, mine)._round()

    assert [row.pk for row in WorkerSession.objects.using(alias).all()] == [mine.id]


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_heartbeat_that_wakes_late_says_so_and_reaps_nobody_for_a_while(
    alias: str, open_session: Open, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = open_session(), open_session()
    claim(mine)
    claim(other)
    kept = expire_all(alias, mine)
    kept._deadline_seconds = -1.0  # half of it is over after any sleep

    kept._sleep(0)
    assert "The heartbeat was late" in caplog.text
    kept._round()

    assert {row.pk for row in WorkerSession.objects.using(alias).all()} == {mine.id, other.id}


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_heartbeat_whose_renewal_took_long_reaps_nobody_for_a_while(alias: str, open_session: Open) -> None:
    mine, other = open_session(), open_session()
    claim(mine)
    claim(other)
    kept = expire_all(alias, mine)
    kept._deadline_seconds = -1.0  # half of it is over after any renewal

    kept._round()

    assert {row.pk for row in WorkerSession.objects.using(alias).all()} == {mine.id, other.id}


def test_after_a_round_trip_of_unknown_outcome_nothing_stays_claimed_by_nobody(
    alias: str, open_session: Open
) -> None:
    publish("orders", 1)
    session = open_session()
    claim(session, credit=1)
    publish("orders", 2)
    lost_on_the_way(session)
    assert states(alias) == [STATUS.CLAIMED, STATUS.CLAIMED]

    session.settle_and_claim(None)

    assert states(alias) == [STATUS.CLAIMED, STATUS.READY]
    assert session.held == 1


def lost_on_the_way(session: Session) -> None:
    """Claim in the session's name on a connection that breaks after the commit, before the answer."""

    class Breaking(type(session.store.claims)):  # type: ignore[misc]
        def settle_and_claim(self, *args: Any) -> Any:
            super().settle_and_claim(*args)
            raise StoreUnavailable("the connection broke")

    whole = type(session.store.claims)
    session.store.claims.__class__ = Breaking
    with pytest.raises(StoreUnavailable):
        claim(session)
    session.store.claims.__class__ = whole


@pytest.mark.usefixtures("idle_heartbeat")
def test_what_could_not_be_written_is_written_later(alias: str, open_session: Open) -> None:
    publish("orders", 1)
    session = open_session()
    (message,) = claim(session)
    session.accept(message)
    lost_on_the_way(session)
    assert len(session.settlements) == 1

    session.settle_and_claim(None)

    assert (states(alias), session.held) == ([], 0)


def test_a_heartbeat_that_writes_while_the_session_closes_loses_nothing(alias: str, open_session: Open) -> None:
    for number in range(50):
        publish("orders", number)
    session = open_session()
    messages = claim(session, credit=50)
    accepting = threading.Thread(target=lambda: [session.accept(message) for message in messages])
    flushing = threading.Thread(target=lambda: [session.flush() for _ in range(20)])

    accepting.start()
    flushing.start()
    accepting.join()
    session.close()
    flushing.join()

    assert states(alias) == []


@pytest.mark.usefixtures("absent_heartbeat")
def test_a_message_that_is_claimed_again_while_the_heartbeat_gives_it_back_is_held(
    alias: str, open_session: Open
) -> None:
    publish("orders", 1)
    session = open_session()
    (first,) = claim(session)
    kept = session.heartbeat
    assert isinstance(kept, HeartbeatThread)
    again: list[Claimed] = []

    class Overtaken(type(kept.store.claims)):  # type: ignore[misc]
        def settle_and_claim(self, *args: Any) -> Any:
            result = super().settle_and_claim(*args)
            again.extend(claim(session))
            return result

    kept.store.claims.__class__ = Overtaken
    session.settlements.add(Settlement(first.id, first.claim, Verdict.RELEASE))
    session.flush()

    assert [message.id for message in again] == [first.id]
    assert session.held == 1


def test_a_heartbeat_survives_a_defect(alias: str, open_session: Open, caplog: pytest.LogCaptureFixture) -> None:
    session = open_session()
    claim(session)
    thread = session.heartbeat
    assert isinstance(thread, HeartbeatThread)

    def broken() -> Any:
        raise ZeroDivisionError

    session.row.driver = Driver(describe=broken)
    session.renew_soon()
    wait_until(lambda: "The heartbeat failed, and goes on" in caplog.text)
    session.row.driver = Driver()

    first = WorkerSession.objects.using(alias).get().heartbeat_at
    wait_until(lambda: WorkerSession.objects.using(alias).get().heartbeat_at > first)


def reap(alias: str, session: Session) -> None:
    """Give the session's messages back from a store with a clock ahead: its own heartbeat cannot come first."""
    with closing(private_store(alias)) as store:
        store.database.clock_offset = timedelta(days=1)
        # A session that is just being renewed is left for the next look.
        assert [reaped.session_id for reaped in wait_until(store.sessions.reap)] == [session.id]


def test_a_heartbeat_that_ends_after_its_session_leaves_no_connection(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat, "ROUND_SECONDS", 0.01)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(PATIENCE_SECONDS)

    wake = Wake()
    session = Session(alias, kind="native", wake=wake, driver=Driver(on_round=hang))
    claim(session)
    kept = session.heartbeat
    assert isinstance(kept, HeartbeatThread)
    hangs.wait(PATIENCE_SECONDS)

    session.close()
    goes_on.set()

    kept._thread.join(PATIENCE_SECONDS)
    connection: Any = kept.store.database
    assert connection.connection.connection is None
    wake.close()
