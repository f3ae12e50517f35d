"""What is peculiar to the store in memory: its handles, its process, its clock."""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import DuplicateMessage, QueueDeleted, QueueFull, SessionLost, StoreError
from django_mq.inprocess.memory.broker import broker_named, empty_brokers
from django_mq.inprocess.memory.row import MOST_REMEMBERED
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.stores.registry import MEMORY, has_store, private_store, shared_store
from tests.stores.builders import a_message, claim, declare, ids, open_session, pass_time, publish, settle
from tests.support.forking import exit_code_of_child

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store


@pytest.fixture
def store() -> Iterator[Store]:
    empty_brokers()
    yield shared_store(MEMORY)
    empty_brokers()


def test_every_handle_of_a_name_sees_the_same_queues(store: Store) -> None:
    declare(store)
    published = publish(store)
    store.close()
    worker = private_store(MEMORY)

    assert ids(claim(worker, open_session(worker))) == [published]


def test_names_keep_brokers_apart(store: Store) -> None:
    declare(store)

    assert MemoryStore("another").queues.find("orders") is None
    assert broker_named(MEMORY) is not broker_named("another")


def test_the_name_stands_where_a_database_alias_could(store: Store) -> None:
    assert store.alias == MEMORY
    assert [has_store(name) for name in (MEMORY, "default", "nowhere")] == [True, True, False]


def test_the_clock_is_moved_for_every_handle(store: Store) -> None:
    declare(store)
    publish(store, delay_seconds=60)

    pass_time(store, 61)

    worker = private_store(MEMORY)
    assert worker.database.now_skew_seconds() == 61
    assert len(claim(worker, open_session(worker))) == 1


def test_all_duties_of_maintenance_are_always_to_do(store: Store) -> None:
    assert store.maintenance.due_duties() == {"take_over": False, "cover": False}  # which it does not have


def test_messages_of_a_transaction_come_with_its_commit(store: Store) -> None:
    declare(store)
    called: list[int] = []

    with store.database.transaction():
        shared_store(MEMORY).publications.append(a_message())
        store.database.after_commit(lambda: called.append(store.queues.counts()["orders"].ready))
        assert (shared_store(MEMORY).database.in_transaction, private_store(MEMORY).database.in_transaction) == (
            True,
            False,
        )
        assert (store.queues.counts()["orders"].ready, called) == (0, [])

    assert (store.database.in_transaction, store.database.last_after_commit(), called) == (False, None, [1])
    assert not store.database.reconnect()


def test_a_transaction_inside_another_is_taken_back_alone(store: Store) -> None:
    declare(store, dedup_count=5)
    called: list[str] = []

    with store.database.transaction():
        store.admission.append([a_message(dedup_id="once")])
        with suppress(ZeroDivisionError), store.database.transaction():
            store.publications.append(a_message())
            store.database.after_commit(lambda: called.append("inner"))
            _ = 1 / 0
        with store.database.transaction():
            store.publications.append(a_message())
        with pytest.raises(DuplicateMessage):
            store.admission.append([a_message(dedup_id="once")])

    assert (store.queues.counts()["orders"].ready, called) == (2, [])


def test_what_a_transaction_settles_is_not_given_back_with_its_session(store: Store) -> None:
    declare(store)
    publish(store)
    worker = private_store(MEMORY)
    session = open_session(worker)
    [message] = claim(worker, session)

    with worker.database.transaction():
        assert not settle(worker, session, message, Verdict.ACCEPT)
        assert settle(worker, session, message, Verdict.ACCEPT) == {message.id}
        store.sessions.close(session)

    assert (store.queues.counts()["orders"].ready, store.queues.counts()["orders"].claimed) == (0, 0)


def test_a_transaction_whose_queue_has_gone_fails(store: Store) -> None:
    declare(store)
    declare(store, "other")

    def publish_and_delete() -> None:
        with store.database.transaction():
            store.publications.append_many([a_message(), a_message("other")])
            store.database.after_commit(pytest.fail)
            store.deletions.delete_queue("orders")

    with pytest.raises(QueueDeleted):
        publish_and_delete()

    assert store.queues.counts()["other"].ready == 0


def test_publishers_do_not_overshoot_a_limit_together(store: Store) -> None:
    declare(store, max_messages=50)
    refused: list[QueueFull] = []

    def publish_some() -> None:
        for _ in range(30):
            try:
                store.admission.append([a_message()])
            except QueueFull as error:
                refused.append(error)

    threads = [Thread(target=publish_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (store.queues.counts()["orders"].ready, len(refused)) == (50, 70)


def test_no_message_is_lost_or_doubled_between_threads(store: Store) -> None:
    declare(store)
    published = store.publications.append_many([a_message(priority=index % 10) for index in range(200)])
    taken: list[int] = []

    def work() -> None:
        worker = private_store(MEMORY)
        session = open_session(worker)
        while messages := claim(worker, session, credit=3):
            for message in messages:
                settle(worker, session, message, Verdict.ACCEPT)
                taken.append(message.id)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == published


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_is_told_that_the_broker_is_its_parents(store: Store) -> None:
    declare(store)

    def publish_there() -> int:
        try:
            publish(store)
        except StoreError:
            return 42
        return 0

    assert exit_code_of_child(publish_there) == 42


def test_the_history_does_not_grow_for_ever() -> None:
    broker = broker_named("full")

    assert broker.history.maxlen == broker.attempts.maxlen == MOST_REMEMBERED


def test_an_entry_that_was_given_back_expires_in_its_time(store: Store) -> None:
    declare(store)
    publish(store, ttl_seconds=10)
    session = open_session(store)
    [held] = claim(store, session)
    pass_time(store, 11)
    assert store.maintenance.expire() == 0

    settle(store, session, held, Verdict.RELEASE)

    assert store.maintenance.expire() == 1
    assert store.queues.counts()["orders"].total == 0


def test_a_queue_declared_anew_knows_nothing_of_the_one_before(store: Store) -> None:
    declare(store)
    session = open_session(store)
    publish(store)
    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)
    store.deletions.delete_queue("orders")

    declare(store)
    published = publish(store)

    assert ids(claim(store, session)) == [published]


def test_emptying_leaves_open_handles_useful_and_their_sessions_lost(store: Store) -> None:
    declare(store)
    pass_time(store, 60)
    session = open_session(store)
    before = publish(store)

    empty_brokers()

    assert store.queues.find("orders") is None
    declare(store)
    assert publish(store) > before
    assert store.database.now_skew_seconds() == 0
    with pytest.raises(SessionLost):
        claim(store, session)
