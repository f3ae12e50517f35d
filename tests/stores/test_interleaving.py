"""Two sessions of a server in step: one holds its transaction open while the other acts.

Where the other must wait, it acts in a thread, and the test goes on when the database
itself says that it waits.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from django_mq.delivery.follower import Follower
from django_mq.engine.decisions.arbiter import LEFT_SECONDS
from django_mq.engine.decisions.fairness import FIRST, STEP
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.engine.states import State
from django_mq.errors import DuplicateMessage, QueueFull, QueueInUse, StoreError, StoreUnavailable, UnknownQueue
from django_mq.models import FairCounter, Message, Queue
from django_mq.stores import connections
from django_mq.stores.mysql import database as mysql_database
from django_mq.stores.mysql import store as mysql
from django_mq.stores.postgresql import store as postgresql
from django_mq.stores.records import ClaimRequest, Heartbeat
from django_mq.stores.registry import private_store
from django_mq.stores.sql import deletions
from django_mq.stores.sql.claims import TRIES
from django_mq.stores.sql.declared import KNOWN_BY_ALL_SECONDS
from tests.conftest import SERVED
from tests.stores.builders import (
    DEADLINE_SECONDS,
    a_message,
    claim,
    declare,
    ids,
    look,
    open_session,
    pass_time,
    publish,
    settle,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet

    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.store import SQLStore


#: Enough for COPY.
MANY = [a_message() for _ in range(100)]
ALIVE = Heartbeat(deadline_seconds=DEADLINE_SECONDS)


#: Asks whether a connection of the server waits for a lock. MariaDB's list of transactions would not
#: do: it is not made anew while statements keep asking. It is asked whether a statement waits.
WAITS = {
    "postgresql": "SELECT cardinality(pg_blocking_pids(%s)) > 0",
    "mariadb": "SELECT variable_value > 0 FROM information_schema.global_status"
    " WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS' AND %s > 0",
}


@pytest.fixture(
    params=[
        pytest.param(alias, marks=pytest.mark.django_db(databases=[alias], transaction=True)) for alias in SERVED
    ]
)
def alias(request: pytest.FixtureRequest) -> str:
    """A database that lets two write at the same time."""
    return str(request.param)


@pytest.fixture(autouse=True)
def nobody_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a lock however long the test is kept from its next step."""
    for module in (mysql_database, connections):
        monkeypatch.setattr(module, "LOCK_SECONDS", 120)
    for database in (mysql, postgresql):
        monkeypatch.setattr(database, "DELETION_WAIT_SECONDS", 120)


@contextmanager
def a_store(alias: str) -> Iterator[SQLStore]:
    store = private_store(alias)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def first(alias: str) -> Iterator[SQLStore]:
    """The store that acts first and holds its transaction open; it has the queue ``orders``."""
    with a_store(alias) as store:
        declare(store)
        yield store


@pytest.fixture
def second(alias: str) -> Iterator[SQLStore]:
    """The store that acts meanwhile."""
    with a_store(alias) as store:
        yield store


@contextmanager
def holding_open(store: SQLStore, begin: str = "BEGIN") -> Iterator[Callable[[], None]]:
    """A transaction that commits when told to, or at the end of the block."""
    store.database.execute(begin)
    store.database.begun = True
    committed = threading.Event()

    def commit() -> None:
        store.database.execute("COMMIT")
        store.database.begun = False
        committed.set()

    try:
        yield commit
    finally:
        if not committed.is_set():
            commit()


def backend(store: SQLStore) -> int:
    """The server process of the store's connection."""
    with store.database.connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if store.alias == "postgresql" else "SELECT connection_id()")
        return int(cursor.fetchone()[0])


@contextmanager
def waiting(watcher: SQLStore, waiter: SQLStore, act: Callable[[], Any]) -> Iterator[Future[Any]]:
    """Let the waiter act in a thread; the block begins once it waits for a lock."""
    pid = backend(waiter)
    with ThreadPoolExecutor(1) as thread:
        acting = thread.submit(act)
        while not acting.done() and not is_blocked(watcher, pid):
            pass
        assert not acting.done(), "it did not wait"
        yield acting


def is_blocked(watcher: SQLStore, pid: int) -> bool:
    with watcher.database.connection.cursor() as cursor:
        cursor.execute(WAITS[watcher.alias], [pid])
        return bool(cursor.fetchone()[0])


# Claims from several queues


def test_a_limit_is_filled_beyond_messages_that_another_session_is_claiming(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "mails")
    mine, theirs = open_session(first), open_session(second, "theirs")
    orders, mails = ([publish(first, queue) for _ in range(4)] for queue in ("orders", "mails"))

    with holding_open(first):
        assert ids(claim(first, mine, credit=2)) == orders[:2]
        found = claim(second, theirs, "orders", "mails", credit=3, limits={"orders": 2, "mails": 1})

    assert sorted(ids(found)) == sorted([*orders[2:], mails[0]])


# Claims from queues with rules


def test_a_claim_waits_for_its_turn_and_sees_what_the_one_before_it_has_taken(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "grouped", grouping="shared")
    published = [publish(first, "grouped", group_key=key) for key in ("a", "a", "b", "b")]
    one, two = open_session(first), open_session(first)
    second.queues.find("grouped")  # so that it knows of the rules

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        taken = claim(first, one, "grouped", credit=1)
        with waiting(watcher, second, lambda: claim(second, two, "grouped")) as other:
            commit()

    assert (ids(taken), ids(other.result())) == (published[:1], [published[2]])


def test_two_that_claim_at_once_never_exceed_what_may_be_in_flight(first: SQLStore, second: SQLStore) -> None:
    declare(first, "few", max_in_flight=3)
    for _ in range(5):
        publish(first, "few")
    one, two = open_session(first), open_session(first)
    second.queues.find("few")

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        taken = claim(first, one, "few", credit=2)
        with waiting(watcher, second, lambda: claim(second, two, "few")) as other:
            commit()

    assert (len(taken), len(other.result())) == (2, 1)


def test_one_seat_is_given_once(first: SQLStore, second: SQLStore) -> None:
    declare(first, "sole", grouping="sole")
    for _ in range(2):
        publish(first, "sole")
    one, two = open_session(first), open_session(first)
    second.queues.find("sole")

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        taken = claim(first, one, "sole", credit=1)
        with waiting(watcher, second, lambda: claim(second, two, "sole")) as other:
            commit()

    assert (len(taken), other.result()) == (1, [])


def test_what_a_claim_took_while_its_session_was_reaped_belongs_to_nobody(
    first: SQLStore, second: SQLStore
) -> None:
    if first.alias == "mariadb":
        pytest.skip("a deletion there sees what is not committed, and waits for the claim to end")
    declare(first, "assigned", grouping="assigned")
    published = publish(first, "assigned", group_key="a")
    lost, heir = open_session(first, deadline_seconds=-1), open_session(first)
    # A server that has just started grants every session a deadline of grace.
    second.sessions.grace_seconds = -1000

    with holding_open(first):
        claim(first, lost, "assigned")
        second.sessions.reap()
    assert claim(second, heir, "assigned") == []
    second.sessions.reap()

    assert ids(claim(second, heir, "assigned")) == [published]


def test_a_publisher_into_a_limited_queue_keeps_no_claim_with_rules_waiting(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "both", grouping="shared", max_messages=10)
    published = publish(first, "both")
    session = open_session(first)

    with holding_open(first):
        first.database.rows("lock_queue", queue="both")
        assert ids(claim(second, session, "both")) == [published]


def test_maintenance_leaves_a_ring_to_a_publisher_that_has_locked_it(first: SQLStore, second: SQLStore) -> None:
    declare(first, "ring", max_messages=1, overflow="ring")
    session = open_session(first)
    first.admission.append([a_message("ring")])
    [held] = claim(first, session, "ring")
    [newest] = first.admission.append([a_message("ring")])
    settle(first, session, held, Verdict.RELEASE)

    with holding_open(first):
        first.database.rows("lock_queue", queue="ring")
        assert second.maintenance.trim() == 0

    assert (second.maintenance.trim(), ids(second.browser.browse("ring", states=[1]))) == (1, [newest])


def test_a_strict_queue_ends_at_a_message_that_an_operator_holds(first: SQLStore, second: SQLStore) -> None:
    declare(first, "strict", strict=True)
    published = [publish(first, "strict") for _ in range(3)]
    session = open_session(first)

    with holding_open(first):
        first.operations.cancel(published[1:2])
        assert ids(claim(second, session, "strict")) == published[:1]

    assert ids(claim(second, session, "strict")) == published[2:]


def test_a_claim_from_a_strict_queue_whose_head_is_locked_is_to_be_made_again_soon(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "strict", strict=True)
    published = [publish(first, "strict") for _ in range(2)]
    session = open_session(first)

    with holding_open(first):
        first.operations.cancel(published[:1])
        found = look(second, session, "strict")

    assert (found.claimed, found.next_due_seconds) == ([], LEFT_SECONDS)


def test_a_strict_queue_waits_for_no_message_of_another_queue(first: SQLStore, second: SQLStore) -> None:
    declare(first, "strict", strict=True)
    published = [publish(first, "strict") for _ in range(2)]
    others = [publish(first) for _ in range(TRIES + 1)]
    session = open_session(first)

    with holding_open(first):
        first.operations.cancel(others)
        found = [*claim(second, session, "strict", "orders", credit=2)]
        found += claim(second, session, "strict", "orders", credit=2)

    assert ids(found) == published


@pytest.mark.parametrize("options", [{"max_in_flight": 9}, {"grouping": "shared"}], ids=["in flight", "groups"])
def test_a_constrained_claim_steps_over_messages_that_an_operator_holds(
    first: SQLStore, second: SQLStore, options: dict[str, Any]
) -> None:
    declare(first, "few", **options)
    published = [publish(first, "few", group_key=key) for key in ("a", "a", "b", "c")]
    session = open_session(first)

    with holding_open(first):
        first.operations.cancel(published[:1])
        found = [*claim(second, session, "few", credit=1), *claim(second, session, "few", credit=1)]

    behind = published[2:] if "grouping" in options else published[1:3]
    assert ids(found) == behind


def test_settlements_that_a_claim_has_written_are_not_void_after_its_next_try_fails(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "few", max_in_flight=9)
    publish(first, "few")
    session = open_session(first)
    settled = [verdict(message, Verdict.ACCEPT) for message in claim(second, session, "few")]
    others = [publish(first, "few")]
    request = ClaimRequest(queues=("few",), credit=1)
    texts, second.database.text = second.database.text, lambda name, *params: failing(name) or texts(name, *params)  # type: ignore[method-assign]
    leases: list[str] = []

    def failing(name: str) -> str:
        leases.extend([name] if name == "claim_chosen" else [])
        return "SELECT no_such_column" if leases and name == "facts" else ""

    with holding_open(first):
        first.operations.cancel(others)
        try:
            result = second.claims.settle_and_claim(session, settled, request)
        except StoreError:
            leases.clear()
            result = second.claims.settle_and_claim(session, settled, None)

    assert result.void == frozenset()


def test_a_slot_is_not_taken_with_messages_that_an_operator_holds(first: SQLStore, second: SQLStore) -> None:
    declare(first, "sole", grouping="sole")
    publish(first, "sole")
    one, two = open_session(first), open_session(first)

    with holding_open(first):
        first.operations.cancel([message.id for message in first.browser.browse("sole", states=[1])])
        assert claim(second, one, "sole") == []
    another = publish(first, "sole")

    assert ids(claim(second, two, "sole")) == [another]


# Claims


@pytest.mark.parametrize("queues", [("orders",), ("orders", "bills")], ids=["one queue", "two queues"])
def test_rows_being_claimed_are_stepped_over(first: SQLStore, second: SQLStore, queues: tuple[str, ...]) -> None:
    declare(first, "bills")
    published = [publish(first) for _ in range(5)]
    sessions = [open_session(first), open_session(first)]

    with holding_open(first):
        mine = claim(first, sessions[0], *queues, credit=3)
        theirs = claim(second, sessions[1], *queues, credit=10)

    assert (ids(mine), ids(theirs)) == (published[:3], published[3:])


def test_due_rows_being_promoted_by_another_are_neither_waited_for_nor_taken_twice(
    first: SQLStore, second: SQLStore
) -> None:
    due = publish(first, delay_seconds=10)
    sessions = [open_session(first), open_session(first)]
    for store in (first, second):
        pass_time(store, 11)

    with holding_open(first):
        mine = claim(first, sessions[0])
        theirs = claim(second, sessions[1])

    assert (ids(mine), theirs) == ([due], [])


def test_two_workers_share_what_one_publisher_writes_without_a_double_or_a_loss(first: SQLStore) -> None:
    total = 400
    published: set[int] = set()
    done = threading.Event()

    def work() -> list[int]:
        taken: list[int] = []
        with a_store(first.alias) as store:
            session = open_session(store)
            while not (done.is_set() and not store.queues.counts()["orders"].total):
                messages = claim(store, session, credit=7)
                store.settlements.settle(session, [verdict(message, Verdict.ACCEPT) for message in messages])
                taken += ids(messages)
        return taken

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work) for _ in range(2)]
        try:
            for _ in range(total // 10):
                published.update(first.publications.append_many([a_message() for _ in range(10)]))
        finally:
            done.set()
    taken = [id_ for worker in workers for id_ in worker.result()]

    assert len(taken) == total
    assert set(taken) == published


# Settlements


# The end of a run waits for no message.
@pytest.mark.parametrize("how", [how for how in Verdict if how is not Verdict.END], ids=lambda how: how.value)
def test_a_verdict_that_waited_for_a_forced_release_is_void(
    first: SQLStore, second: SQLStore, how: Verdict
) -> None:
    publish(first)
    session = open_session(second)
    [message] = claim(second, session)

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.operations.release_held([message.id])
        with waiting(watcher, second, lambda: settle(second, session, message, how)) as settling:
            commit()
            void = settling.result(timeout=120)

    assert void == {message.id}
    assert first.queues.counts()["orders"].ready == 1


# Sessions


def test_the_reaper_leaves_what_another_session_has_claimed_since_it_began(
    first: SQLStore, second: SQLStore
) -> None:
    if first.alias != "postgresql":
        pytest.skip("elsewhere the rows are read once more when they are locked, by a statement of its own")
    publish(first)
    frozen, other = open_session(first), open_session(first)
    [held] = claim(first, frozen)
    text = second.database.text("release_held_by_expired")
    # The statement has begun, and waits before it reads the first row.
    slow = text.replace("WHERE held.state", "WHERE (SELECT pg_advisory_lock(5) IS NOT NULL) AND held.state", 1)

    def reap() -> list[Any]:
        with second.database.connection.cursor() as cursor:
            cursor.execute(slow, {"sessions": [frozen]})
            return list(cursor.fetchall())

    with a_store(first.alias) as watcher:
        first.database.execute("SELECT pg_advisory_lock(5)")
        with waiting(watcher, second, reap) as reaping:
            settle(first, frozen, held, Verdict.RELEASE)
            [again] = claim(first, other)
            first.database.execute("SELECT pg_advisory_unlock(5)")
            assert reaping.result(timeout=120) == []

    assert slow != text
    assert settle(first, other, again, Verdict.ACCEPT) == frozenset()


def test_the_reaper_leaves_a_session_that_is_just_renewing(first: SQLStore, second: SQLStore) -> None:
    publish(first)
    session = open_session(first)
    claim(first, session)
    for store in (first, second):
        pass_time(store, DEADLINE_SECONDS + 1)

    with holding_open(first):
        renewed = first.sessions.renew(session, ALIVE)
        reaped = second.sessions.reap()

    assert renewed
    assert (reaped, second.sessions.reap()) == ([], [])
    assert first.queues.counts()["orders"].claimed == 1


def test_a_renewal_that_comes_while_its_session_is_reaped_is_told_so(first: SQLStore, second: SQLStore) -> None:
    session = open_session(first)
    pass_time(first, DEADLINE_SECONDS + 1)

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        reaped = first.sessions.reap()
        with waiting(watcher, second, lambda: second.sessions.renew(session, ALIVE)) as renewing:
            commit()
            renewed = renewing.result(timeout=120)

    assert ([item.session_id for item in reaped], renewed) == ([session], None)


def test_a_claim_that_commits_after_its_session_was_reaped_is_given_back_by_the_next_round(
    first: SQLStore, second: SQLStore
) -> None:
    publish(first)
    session = open_session(first)
    pass_time(second, DEADLINE_SECONDS + 1)

    with holding_open(first):
        claimed = claim(first, session)
        reaped = second.sessions.reap()
    before = second.queues.counts()["orders"]
    second.sessions.reap()
    after = second.queues.counts()["orders"]

    assert ([item.released for item in reaped], before.claimed, after.ready) == ([0], 1, 1)
    # Nothing has become of the message since: its late verdict counts.
    assert settle(first, session, claimed[0], Verdict.ACCEPT) == frozenset()


def test_two_reapers_at_once_reap_each_session_once(first: SQLStore, second: SQLStore) -> None:
    publish(first)
    session = open_session(first)
    claim(first, session)
    for store in (first, second):
        pass_time(store, DEADLINE_SECONDS + 1)

    with holding_open(first):
        mine = first.sessions.reap()
        theirs = second.sessions.reap()

    assert ([(item.session_id, item.released) for item in mine], theirs) == ([(session, 1)], [])


# Queues


def test_a_queue_with_a_publish_under_way_is_not_deleted_under_it(first: SQLStore, second: SQLStore) -> None:
    with a_store(first.alias) as watcher, holding_open(first) as commit:
        publish(first)
        with waiting(watcher, second, lambda: second.deletions.delete_queue("orders")) as deleting:
            commit()
            error = deleting.exception(timeout=120)

    assert isinstance(error, QueueInUse)
    assert second.queues.counts()["orders"].ready == 1


def test_a_publish_that_comes_while_its_queue_is_deleted_is_refused(first: SQLStore, second: SQLStore) -> None:
    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.deletions.delete_queue("orders")
        with waiting(watcher, second, lambda: publish(second)) as publishing:
            commit()
            error = publishing.exception(timeout=120)

    assert isinstance(error, UnknownQueue)


def test_a_queue_with_a_large_publish_under_way_is_not_deleted_under_it(first: SQLStore, second: SQLStore) -> None:
    if first.alias != "postgresql":
        pytest.skip("only PostgreSQL looks the queue up before it writes")
    with a_store(first.alias) as watcher, holding_open(first) as commit:
        assert first.database.rows("copy_targets", names=["orders"], amount=1)  # what comes before the rows
        with waiting(watcher, second, lambda: second.deletions.delete_queue("orders")) as deleting:
            first.publications.append_many(MANY)
            commit()
            error = deleting.exception(timeout=120)

    assert isinstance(error, QueueInUse)
    assert second.queues.counts()["orders"].ready == len(MANY)


def test_a_large_publish_that_comes_while_its_queue_is_deleted_is_refused(
    first: SQLStore, second: SQLStore
) -> None:
    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.deletions.delete_queue("orders")
        with waiting(watcher, second, lambda: second.publications.append_many(MANY)) as publishing:
            commit()
            error = publishing.exception(timeout=120)

    assert isinstance(error, UnknownQueue)


def test_a_deletion_does_not_wait_for_ever_for_a_long_transaction(
    first: SQLStore, second: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for database in (mysql, postgresql):
        monkeypatch.setattr(database, "DELETION_WAIT_SECONDS", 1)
    with holding_open(first):
        publish(first)
        with pytest.raises(StoreUnavailable, match=r"lock timeout|Lock wait timeout"):
            second.deletions.delete_queue("orders")

    assert second.queues.counts()["orders"].ready == 1


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def unused(store: SQLStore) -> None:
    """End the only session that receives from the queue ``orders``, which then has no use."""
    Queue.objects.using(store.alias).filter(name="orders").update(auto_delete=True, used_at=datetime.now(UTC))


def test_the_end_of_an_unused_queue_waits_for_no_publisher(first: SQLStore, second: SQLStore) -> None:
    declare(first, "other")
    unused(first)
    with holding_open(first):
        publish(first, "other")
        ended = second.deletions.delete_unused()
        declare(second)
        publish(second)

    assert ended == {"orders": 0}
    assert second.queues.counts()["orders"].ready == 1


def test_what_is_published_into_a_queue_that_expires_goes_where_its_messages_go(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "failures")
    declare(first, "ending", expires_seconds=1.0, dead_letter_queue="failures")
    Queue.objects.using(first.alias).filter(name="ending").update(used_at=LONG_AGO)
    with holding_open(first):
        publish(first, "ending")
        during = second.deletions.delete_unused()
    second.deletions.delete_unused()

    assert during in ({}, {"ending": 0})  # MariaDB's publishers lock the queue, which ends after them
    [late] = second.browser.browse("failures", states=[State.READY])
    assert late.dead_reason == "queue deleted"
    assert set(second.queues.counts()) == {"orders", "failures"}


@pytest.mark.parametrize("again", [False, True], ids=["not declared again", "declared again"])
def test_what_is_published_into_an_auto_delete_queue_that_ends_stays_in_it(
    first: SQLStore, second: SQLStore, *, again: bool
) -> None:
    unused(first)
    with holding_open(first):
        publish(first)
        second.deletions.delete_unused()
        if again and first.alias == "postgresql":  # elsewhere the queue is still there
            declare(second)
    second.deletions.delete_unused()
    second.deletions.delete_unused()

    assert {name: counts.ready for name, counts in second.queues.counts().items()} == {"orders": 1}


def test_a_transaction_that_waits_for_its_second_phase_is_still_writing(first: SQLStore, second: SQLStore) -> None:
    if first.alias != "postgresql":
        pytest.skip("only PostgreSQL's claims ask for writers")
    prepared = f"proof-{uuid4().hex}"
    first.database.connection.ensure_connection()
    if first.database.fetch("SHOW max_prepared_transactions", ()) == [("0",)]:
        pytest.skip("the server takes no two-phase transactions")
    first.database.execute("BEGIN")
    publish(first)
    first.database.execute(f"PREPARE TRANSACTION '{prepared}'")
    during = second.database.rows("writers")
    first.database.execute(f"COMMIT PREPARED '{prepared}'")

    assert (len(during), second.database.rows("writers")) == (1, [])


def test_a_purge_goes_past_messages_that_others_have_locked(
    first: SQLStore, second: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "PURGE_CHUNK", 2)
    locked = [publish(first) for _ in range(3)]
    for _ in range(3):
        publish(first)
    with holding_open(first):
        first.operations.cancel(locked)
        removed = second.deletions.purge("orders")

    assert removed == 3


def test_publishers_into_a_limited_queue_wait_for_each_other(first: SQLStore, second: SQLStore) -> None:
    declare(first, "narrow", max_messages=1)

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.admission.append([a_message("narrow")])
        with waiting(watcher, second, lambda: second.admission.append([a_message("narrow")])) as appending:
            commit()
            error = appending.exception(timeout=120)

    assert isinstance(error, QueueFull)
    assert first.queues.counts()["narrow"].ready == 1


def test_a_publisher_that_is_rolled_back_takes_no_room(first: SQLStore, second: SQLStore) -> None:
    declare(first, "narrow", max_messages=1)

    with suppress(ZeroDivisionError), first.database.transaction():
        first.admission.append([a_message("narrow")])
        raise ZeroDivisionError

    assert second.admission.append([a_message("narrow")]) != [0]


def test_a_ring_drives_out_nothing_that_a_claim_has_locked(first: SQLStore, second: SQLStore) -> None:
    declare(first, "ring", max_messages=2, overflow="ring")
    session = open_session(first)
    oldest, younger = first.admission.append([a_message("ring"), a_message("ring")])

    with holding_open(first):
        assert ids(claim(first, session, "ring", credit=1)) == [oldest]
        [newest] = second.admission.append([a_message("ring")])

    assert ids(claim(first, session, "ring")) == [newest]
    assert younger not in {row.id for row in first.browser.browse("ring", states=[1, 2])}


def with_dedup_id(value: str, **given: Any) -> list[NewMessage]:
    return [a_message(dedup_id=value, **given)]


@pytest.mark.parametrize("ending", ["committed", "rolled back"])
def test_the_second_of_two_that_use_an_id_waits_for_the_first(
    first: SQLStore, second: SQLStore, ending: str
) -> None:
    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.admission.append(with_dedup_id("a"))
        with waiting(watcher, second, lambda: second.admission.append(with_dedup_id("a"))) as appending:
            if ending == "committed":
                commit()
                assert isinstance(appending.exception(timeout=120), DuplicateMessage)
            else:
                first.database.execute("ROLLBACK")
                assert appending.result(timeout=120)

    assert first.queues.counts()["orders"].ready == 1


def test_publishers_of_different_ids_never_wait(first: SQLStore, second: SQLStore) -> None:
    with holding_open(first):
        first.admission.append(with_dedup_id("a"))
        second.admission.append(with_dedup_id("b"))

    assert first.queues.counts()["orders"].ready == 2


def test_two_who_use_the_same_ids_in_another_order_do_not_lock_each_other_out(
    first: SQLStore, second: SQLStore
) -> None:
    forth, back = with_dedup_id("a") + with_dedup_id("b"), with_dedup_id("b") + with_dedup_id("a")

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.admission.append(forth[:1])
        with waiting(watcher, second, lambda: second.admission.append(back)) as appending:
            first.admission.append(forth[1:])
            commit()
            error = appending.exception(timeout=120)

    assert isinstance(error, DuplicateMessage)
    assert first.queues.counts()["orders"].ready == 2


def test_of_two_values_at_once_the_later_stays(first: SQLStore, second: SQLStore) -> None:
    declare(first, "prices", kind="last_value", last_value_key="sku")
    older, newer = (a_message("prices", headers='{"sku": "apple"}') for _ in range(2))

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.admission.append([older])
        with waiting(watcher, second, lambda: second.admission.append([newer])) as appending:
            commit()
            [id_] = appending.result(timeout=120)

    assert ids(first.browser.browse("prices", states=[1])) == [id_]


def test_a_dead_value_that_is_retried_while_a_later_one_comes_is_given_up(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "prices", kind="last_value", last_value_key="sku")
    older, newer = (a_message("prices", headers='{"sku": "apple"}') for _ in range(2))
    first.admission.append([older])
    session = open_session(first)
    [held] = claim(first, session, "prices")
    settle(first, session, held, Verdict.DEAD)

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        [id_] = first.admission.append([newer])
        with waiting(watcher, second, lambda: second.operations.redrive([held.id])) as retrying:
            commit()
            retrying.result(timeout=120)

    assert ids(first.browser.browse("prices", states=[0, 1, 2, 3])) == [id_]


def test_a_value_that_is_given_back_while_it_is_replaced_is_given_up(first: SQLStore, second: SQLStore) -> None:
    declare(first, "prices", kind="last_value", last_value_key="sku")
    older, newer = (a_message("prices", headers='{"sku": "apple"}') for _ in range(2))
    first.admission.append([older])
    session = open_session(first)
    [held] = claim(first, session, "prices")

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        settle(first, session, held, Verdict.RELEASE)
        with waiting(watcher, second, lambda: second.admission.append([newer])) as appending:
            commit()
            [id_] = appending.result(timeout=120)

    assert ids(first.browser.browse("prices", states=[1, 2])) == [id_]


def test_a_publisher_into_a_last_value_queue_keeps_no_claim_waiting(first: SQLStore, second: SQLStore) -> None:
    declare(first, "prices", kind="last_value", last_value_key="sku")
    first.admission.append([a_message("prices", headers='{"sku": "apple"}', delay_seconds=10)])
    session = open_session(first)
    for store in (first, second):
        pass_time(store, 20)

    with holding_open(first):
        first.database.rows("lock_queue", queue="prices")
        found = look(second, session, "prices")

    assert (found.claimed, found.next_due_seconds) == ([], LEFT_SECONDS)
    assert len(claim(second, session, "prices")) == 1


def test_publishers_into_an_unlimited_queue_never_wait(first: SQLStore, second: SQLStore) -> None:
    with holding_open(first):
        publish(first)
        publish(second)
        second.publications.append_many([a_message(), a_message()])

    assert first.queues.counts()["orders"].ready == 4


def test_two_publishers_of_the_same_message_make_one(first: SQLStore, second: SQLStore) -> None:
    message = a_message()

    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.publications.append(message)
        with waiting(watcher, second, lambda: second.publications.append(message, again=True)) as appending:
            commit()
            answer = appending.result(timeout=120)

    assert (answer, first.queues.counts()["orders"].ready) == (0, 1)


def test_two_large_publishers_of_the_same_message_make_one(first: SQLStore, second: SQLStore) -> None:
    with a_store(first.alias) as watcher, holding_open(first) as commit:
        first.publications.append(MANY[-1])
        with waiting(watcher, second, lambda: second.publications.append_many(MANY)) as appending:
            commit()
            error = appending.exception(timeout=120)

    assert isinstance(error, DuplicateMessage)
    assert first.queues.counts()["orders"].ready == 1


def test_a_pause_waits_for_no_publisher_and_no_publisher_for_a_pause(first: SQLStore, second: SQLStore) -> None:
    with holding_open(first):
        publish(first)
        second.queues.set_paused("orders", paused=True)
    with holding_open(first):
        first.queues.set_paused("orders", paused=False)
        publish(second)

    assert first.queues.counts()["orders"].ready == 2


# Followers


@pytest.mark.parametrize("batch", [1, 100], ids=["one", "a hundred"])
def test_a_follower_misses_nobody_who_commits_late(first: SQLStore, second: SQLStore, batch: int) -> None:
    with a_store(first.alias) as watching:
        follower = Follower(watching, "orders")
        with holding_open(first) as commit:
            late = first.publications.append_many([a_message() for _ in range(batch)])
            early = publish(second)
            # The cursor must not rise past what is not committed.
            before = [ids(list(follower.look())) for _ in range(4)]
            commit()
        after = [ids(list(follower.look())) for _ in range(3)]
        assert early > max(late)

        assert before == [[early], [], [], []]
        assert after == [late, [], []]
        assert not follower._shown  # and the floor has risen


def test_a_follower_is_not_kept_back_by_those_who_came_later(first: SQLStore, second: SQLStore) -> None:
    with a_store(first.alias) as watching:
        follower = Follower(watching, "orders")
        publish(second)
        list(follower.look())
        with holding_open(first):
            publish(first)
            shown = [ids(list(follower.look())) for _ in range(2)]

        assert shown == [[], []]
        assert not follower._shown


# Declared selectors


def cover(store: SQLStore) -> bool:
    """Let maintenance ask all messages by declared selectors; return whether claims may use the index now."""
    store.maintenance.cover()
    pass_time(store, KNOWN_BY_ALL_SECONDS + 1)
    while store.maintenance.cover():
        pass
    return (record := store.queues.find("orders")) is not None and record.declared is not None


def declare_selectors(alias: str) -> None:
    # By its key: on MariaDB, an open publish has locked its name.
    queue = Queue.objects.using(alias).get(name="orders")
    Queue.objects.using(alias).filter(pk=queue.pk).update(selectors="region = 'eu'")


@pytest.mark.parametrize(
    "publish_one", [publish, lambda store, **_: store.publications.append_many(MANY)], ids=["one", "many"]
)
def test_the_index_waits_for_publishers_that_began_before_selectors_were_declared(
    alias: str, first: SQLStore, second: SQLStore, publish_one: Callable[..., object]
) -> None:
    with holding_open(first) as commit:
        publish_one(first, headers='{"region": "eu"}')
        declare_selectors(alias)
        assert not cover(second)
        publish(second, headers='{"region": "eu"}')
        commit()

    assert cover(second) is (alias == "postgresql")
    wanted = {"orders": [Wanted(Selector("region = 'eu' OR region IS NULL"), 200)]}
    by_declared = {"orders": [Wanted(Selector("region = 'eu'"), 200)]}
    session = open_session(second)
    assert len(claim(second, session, credit=200, wanted=by_declared)) == (2 if publish_one is publish else 1)
    assert len(claim(second, session, credit=200, wanted=wanted)) == (0 if publish_one is publish else len(MANY))


def test_the_index_waits_for_messages_that_others_have_locked(
    alias: str, first: SQLStore, second: SQLStore
) -> None:
    there = [publish(first, headers='{"region": "eu"}') for _ in range(3)]
    declare_selectors(alias)
    with holding_open(first) as commit:
        first.database.rows("lock_to_ask", ids=there[:1], queue_id=first.queues.existing("orders").id)
        assert not cover(second)
        commit()

    assert cover(second) is (alias == "postgresql")
    wanted = {"orders": [Wanted(Selector("region = 'eu'"), 9)]}
    assert ids(claim(second, open_session(second), wanted=wanted)) == there


def test_selectors_are_declared_once_no_publisher_has_locked_the_queue(
    alias: str, first: SQLStore, second: SQLStore
) -> None:
    publish(first, headers='{"region": "eu"}')
    declare_selectors(alias)
    with holding_open(first) as commit:
        first.database.rows("queue_use", queue="orders")
        assert not cover(second)
        commit()

    assert cover(second) is (alias == "postgresql")


# Queues that keys share


FAIR = {"fair_by": "tenant", "due_order": "keep_place"}


def of(tenant: str) -> NewMessage:
    return a_message("fair", headers=json.dumps({"tenant": tenant}))


def places(store: SQLStore, tenant: str) -> list[int]:
    found = Message.objects.using(store.alias).filter(headers__tenant=tenant).order_by("place")
    return [(place - FIRST) // STEP for place in found.values_list("place", flat=True)]


def counters(store: SQLStore) -> QuerySet[FairCounter]:
    """Return the counters of keys, without those of levels."""
    return FairCounter.objects.using(store.alias).exclude(fair_key="")


def test_publishers_of_one_key_wait_for_nothing_and_leave_places_to_each_other(
    first: SQLStore, second: SQLStore
) -> None:
    declare(first, "fair", **FAIR)
    for tenant in "ab":
        first.admission.append([of(tenant)])
    with holding_open(first), holding_open(second):
        for store, tenants in ((first, "ab"), (second, "ba")):
            for tenant in tenants:
                store.admission.append([of(tenant)])
    for store in (second, first):
        store.admission.append([of("a")])

    assert (places(first, "a"), places(first, "b")) == ([0, 1, 2, 3, 4], [0, 1, 2])
    assert len(counters(first)) == 4


def test_a_publisher_that_sees_an_earlier_state_is_not_refused(first: SQLStore, second: SQLStore) -> None:
    declare(first, "fair", **FAIR)
    first.admission.append([of("a")])
    if first.alias == "mariadb":
        first.database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    begin = "BEGIN" if first.alias == "mariadb" else "BEGIN ISOLATION LEVEL REPEATABLE READ"
    with holding_open(first, begin):
        assert places(second, "a") == [0]
        assert first.database.rows("fair_queues") == [("fair",)]
        second.admission.append([of("a")])
        first.admission.append([of("a")])
    first.admission.append([of("a")])

    # MariaDB locks the counter as it is; PostgreSQL may not lock it, so the publisher takes another.
    assert places(first, "a") == ([0, 1, 1, 2] if first.alias == "postgresql" else [0, 1, 2, 3])


def test_counters_of_idle_keys_are_deleted(first: SQLStore, second: SQLStore) -> None:
    declare(first, "fair", **FAIR)
    session = open_session(second)
    for tenant in ("idle", "held", *"abc"):
        first.admission.append([of(tenant)])
        for message in claim(second, session, "fair"):
            settle(second, session, message, Verdict.ACCEPT)
    with holding_open(first):
        first.admission.append([of("held")])
        second.retention.prune()

    assert len(counters(first)) == 2
    second.retention.prune()
    assert len(counters(first)) == 1
    second.deletions.delete_queue("fair", force=True)
    assert not FairCounter.objects.using(first.alias).exists()
