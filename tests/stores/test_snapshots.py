"""Transactions above READ COMMITTED, which see the queues of an earlier time, beside the deletion of a queue.

No message may be committed into a queue that is gone. SQLite lets no transaction write that sees an earlier
state, and the memory store has no transactions.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import QueueInUse, StoreError, StoreUnavailable, UnknownQueue
from django_mq.models import Message
from django_mq.stores.postgresql.database import WORTH_ASKING
from django_mq.stores.registry import shared_store
from tests.conftest import SERVED
from tests.stores.builders import a_message, claim, declare, open_session, publish, settle
from tests.stores.test_interleaving import MANY, a_store, holding_open, waiting, with_dedup_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.stores.sql.store import SQLStore

ISOLATIONS = {"postgresql": ["REPEATABLE READ", "SERIALIZABLE"], "mariadb": ["REPEATABLE READ"]}
PAIRS = [(alias, isolation) for alias in SERVED for isolation in ISOLATIONS[alias]]
on_postgresql = pytest.mark.django_db(databases=["postgresql"], transaction=True)


@pytest.fixture(
    params=[
        pytest.param(
            pair, marks=pytest.mark.django_db(databases=pair[:1], transaction=True), id=" ".join(pair).lower()
        )
        for pair in PAIRS
    ]
)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A database and an isolation."""
    alias, isolation = request.param
    return alias, isolation


@pytest.fixture
def first(pair: tuple[str, str]) -> Iterator[SQLStore]:
    """The store that has the isolation and the queue ``orders``."""
    alias, isolation = pair
    with a_store(alias) as store:
        declare(store)
        isolate(store, isolation)
        yield store


@pytest.fixture
def second(pair: tuple[str, str]) -> Iterator[SQLStore]:
    """A store that is READ COMMITTED."""
    with a_store(pair[0]) as store:
        yield store


def isolate(store: SQLStore, isolation: str) -> None:
    """Give the isolation to every transaction of the connection, and to every statement alone."""
    if store.alias == "postgresql":
        store.database.execute(f"SET default_transaction_isolation TO '{isolation.lower()}'")
    else:
        store.database.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")


@contextmanager
def seeing_the_past(store: SQLStore) -> Iterator[None]:
    """A transaction that sees, from here to its end, what is committed now."""
    with store.database.transaction():
        store.queues.find("orders")
        yield


def alike(store: SQLStore) -> None:
    like = a_message()
    store.publications.append_alike(like, [each.message_id.bytes for each in MANY], [b"{}" for _ in MANY])


def moved(store: SQLStore) -> None:
    store.operations.move([row.id for row in store.browser.browse("bills", states=[1])], "orders")


def buried(store: SQLStore) -> None:
    session = open_session(store)
    [message] = claim(store, session, "bills")
    settle(store, session, message, Verdict.DEAD)


WAYS: dict[str, Callable[[SQLStore], object]] = {
    "one": publish,
    "one that is due later": lambda store: publish(store, delay_seconds=10),
    "several": lambda store: store.publications.append_many([a_message() for _ in range(3)]),
    "a hundred": lambda store: store.publications.append_many(MANY),
    "a hundred alike": alike,
    "one with a duplicate id": lambda store: store.admission.append(with_dedup_id("a")),
}
MOVES: dict[str, Callable[[SQLStore], object]] = {"one that is moved": moved, "one that is dead": buried}


@pytest.mark.parametrize("publish_to", WAYS.values(), ids=WAYS)
def test_nothing_is_published_to_a_queue_that_was_deleted_after_the_snapshot(
    first: SQLStore, second: SQLStore, publish_to: Callable[[SQLStore], object]
) -> None:
    with seeing_the_past(first):
        second.deletions.delete_queue("orders")
        with pytest.raises(StoreUnavailable):
            publish_to(first)

    assert not Message.objects.using(first.alias).exists()


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_nothing_is_moved_to_a_queue_that_was_deleted_after_the_snapshot(
    first: SQLStore, second: SQLStore, move: Callable[[SQLStore], object]
) -> None:
    declare(first, "bills", dead_letter_queue="orders")
    publish(first, "bills")

    with suppress(StoreUnavailable), seeing_the_past(first):
        second.database.execute("UPDATE django_mq_queue SET dead_letter_queue_id = NULL")
        second.deletions.delete_queue("orders")
        move(first)

    assert first.queues.counts()["bills"].total == Message.objects.using(first.alias).count() == 1


@pytest.mark.parametrize("write", (WAYS | MOVES).values(), ids=WAYS | MOVES)
def test_a_queue_that_was_changed_after_the_snapshot_is_written_to(
    first: SQLStore, second: SQLStore, write: Callable[[SQLStore], object]
) -> None:
    declare(first, "bills", dead_letter_queue="orders")
    publish(first, "bills")

    with seeing_the_past(first):
        second.queues.set_paused("orders", paused=True)
        write(first)

    assert first.queues.counts()["orders"].total


def test_a_queue_that_was_changed_and_deleted_after_the_snapshot_is_not_written_to(
    first: SQLStore, second: SQLStore
) -> None:
    with seeing_the_past(first):
        second.queues.set_paused("orders", paused=True)
        second.deletions.delete_queue("orders")
        with pytest.raises(StoreUnavailable):
            publish(first)

    assert not Message.objects.using(first.alias).exists()


def test_a_publish_alone_that_waits_for_the_deletion_of_its_queue_writes_nothing(
    first: SQLStore, second: SQLStore
) -> None:
    with a_store(first.alias) as watcher, holding_open(second) as commit:
        second.deletions.delete_queue("orders")
        with waiting(watcher, first, lambda: publish(first)) as publishing:
            commit()
            error = publishing.exception(timeout=120)

    assert isinstance(error, (StoreUnavailable, UnknownQueue))
    assert not Message.objects.using(first.alias).exists()


@on_postgresql
def test_a_prepared_statement_of_the_projects_own_connection_writes_nothing_either() -> None:
    site = shared_store("postgresql")
    declare(site)
    for _ in range(WORTH_ASKING):
        publish(site)
    site.deletions.purge("orders")

    with a_store("postgresql") as second, transaction.atomic("postgresql"):
        site.database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        site.queues.find("orders")
        second.deletions.delete_queue("orders")
        with pytest.raises(StoreUnavailable):
            publish(site)

    assert not Message.objects.using("postgresql").exists()


def locked(store: SQLStore) -> bool:
    """Whether a transaction has locked the queue's row."""
    with store.database.connection.cursor() as cursor:
        cursor.execute("SELECT xmax::text <> '0' FROM django_mq_queue WHERE name = 'orders'")
        return bool(cursor.fetchone()[0])


@on_postgresql
def test_a_publish_that_is_read_committed_locks_no_queue() -> None:
    with a_store("postgresql") as store:
        declare(store)
        publish(store)
        plain = locked(store)
        isolate(store, "REPEATABLE READ")
        publish(store)

        assert (plain, locked(store)) == (False, True)


# Deletions


def test_a_deletion_sees_what_was_published_while_it_waited(first: SQLStore, second: SQLStore) -> None:
    with a_store(first.alias) as watcher, holding_open(second) as commit:
        publish(second)
        with waiting(watcher, first, lambda: first.deletions.delete_queue("orders")) as deleting:
            commit()
            error = deleting.exception(timeout=120)

    assert isinstance(error, QueueInUse)
    assert first.queues.counts()["orders"].ready == 1


@on_postgresql
def test_a_deletion_in_a_transaction_that_sees_the_past_is_refused() -> None:
    with a_store("postgresql") as first:
        declare(first)
        isolate(first, "REPEATABLE READ")
        with pytest.raises(StoreError, match="READ COMMITTED"), seeing_the_past(first):
            first.deletions.delete_queue("orders")

        assert first.queues.find("orders")
