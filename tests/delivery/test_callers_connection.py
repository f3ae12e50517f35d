"""The caller's connection: its session is kept, and its transactions are joined, with autocommit off too."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.db.utils import DatabaseError

from django_mq.api import apublish, publish, publish_many
from django_mq.checks import check_settings
from django_mq.delivery import publisher
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.unit_of_work import unit_of_work
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.errors import ConfigurationError, StoreUnavailable
from django_mq.models import Message, Queue
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy, running
from tests.support.apart import close_connections
from tests.support.ending import ENDS, end_connection
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.delivery.conftest import Ear

#: What a caller may have set up in his session, how to see it again, and that a lock is waited for no longer.
SESSIONS = {
    "sqlite": ("CREATE TEMPORARY TABLE kept (id int)", "SELECT count(*) FROM kept", "PRAGMA busy_timeout = 0"),
    "postgresql": ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)::int - 1", "SET lock_timeout = 1"),
    "mysql": ("DO GET_LOCK('kept', 0)", "SELECT RELEASE_LOCK('kept') - 1", "SET innodb_lock_wait_timeout = 0"),
}
#: How another connection keeps publishers out.
LOCKS = {
    "sqlite": "UPDATE django_mq_queue SET name = name",
    "postgresql": "LOCK TABLE django_mq_message IN ACCESS EXCLUSIVE MODE",
    "mysql": "SELECT 1 FROM django_mq_queue WHERE name = 'orders' FOR UPDATE",
}


def run(alias: str, sql: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone() if cursor.description else None


@contextmanager
def another_connection(alias: str) -> Iterator[Any]:
    """A connection of another process, which commits by itself."""
    store: Any = private_store(alias)
    with store.database.connection.cursor() as cursor:
        yield cursor
    store.close()


@pytest.fixture
def orders_of_a_site(committed_database: str) -> Iterator[str]:
    """A database with the queue ``orders``; what the test sets on its connection ends with the test."""
    declare(shared_store(committed_database), "orders")
    yield committed_database
    connections[committed_database].close()


@pytest.fixture
def manual(orders_of_a_site: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same where the settings say AUTOCOMMIT = False."""
    connection = connections[orders_of_a_site]
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    yield orders_of_a_site
    connection.close()


def committed(alias: str) -> int:
    with another_connection(alias) as cursor:
        cursor.execute("SELECT count(*) FROM django_mq_message")
        found: int = cursor.fetchone()[0]
    return found


def test_a_publish_that_meets_a_lock_leaves_the_callers_session_as_it_is(orders_of_a_site: str) -> None:
    alias = orders_of_a_site
    setting, seeing, impatient = SESSIONS[connections[alias].vendor]
    publish("orders")
    run(alias, setting)
    run(alias, impatient)

    with another_connection(alias) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(LOCKS[connections[alias].vendor])
        with pytest.raises(StoreUnavailable):
            publish("orders")
        with pytest.raises(StoreUnavailable):
            publish_many([("orders", 1), ("orders", 2)])
        cursor.execute("ROLLBACK")

    assert run(alias, seeing) == (0,)
    publish("orders")


def test_a_connection_that_is_gone_is_replaced(orders_of_a_site: str) -> None:
    if connections[orders_of_a_site].vendor not in ENDS:
        pytest.skip("the connection is a file")
    publish("orders")
    end_connection(connections[orders_of_a_site])

    publish("orders")

    assert committed(orders_of_a_site) == 2


def test_a_thread_of_async_code_replaces_a_connection_that_the_server_has_ended(orders_of_a_site: str) -> None:
    if connections[orders_of_a_site].vendor not in ENDS:
        pytest.skip("the connection is a file")

    def count() -> int:
        return Queue.objects.using(orders_of_a_site).count()

    def end_own() -> None:
        end_connection(connections[orders_of_a_site])

    async def look() -> list[int]:
        # One thread of the pool after the other: each of them is idle again when the next call begins.
        found = [await publisher.run_apart(count)]
        await publisher.run_apart(end_own)
        return [*found, await publisher.run_apart(count)]

    assert asyncio.run(look()) == [1, 1]
    close_connections(publisher.async_threads)


def test_with_autocommit_off_a_publish_is_part_of_the_callers_transaction(orders_of_a_site: str, ear: Ear) -> None:
    transaction.set_autocommit(False, using=orders_of_a_site)

    publish("orders", "dropped")
    publish_many([("orders", "dropped"), ("orders", "dropped")])
    assert committed(orders_of_a_site) == 0
    transaction.rollback(using=orders_of_a_site)
    publish("orders", "kept")
    transaction.commit(using=orders_of_a_site)
    transaction.set_autocommit(True, using=orders_of_a_site)

    assert committed(orders_of_a_site) == 1
    assert ear.heard == set()  # Django does not say when: the next look finds the message


def test_with_autocommit_off_a_lost_connection_loses_the_whole_transaction_and_says_so(
    orders_of_a_site: str,
) -> None:
    if connections[orders_of_a_site].vendor not in ENDS:
        pytest.skip("the connection is a file")
    transaction.set_autocommit(False, using=orders_of_a_site)
    publish("orders", "the first half")
    end_connection(connections[orders_of_a_site])

    with pytest.raises(StoreUnavailable):
        publish("orders", "the second half")

    with pytest.raises(DatabaseError):
        transaction.commit(using=orders_of_a_site)
    assert committed(orders_of_a_site) == 0


def test_a_worker_works_where_the_settings_switch_autocommit_off(manual: str) -> None:
    seen: list[Any] = []
    publish("orders", 1)
    transaction.commit(using=manual)

    with running(a_handler(lambda message: seen.append(message.body)), using=manual):
        wait_until(lambda: seen == [1], "the handler")
        wait_until(lambda: committed(manual) == 0, "the acknowledgement")


def test_what_a_handler_does_not_commit_is_no_part_of_the_next_attempt(manual: str) -> None:
    def forget_to_commit(message: Any) -> None:
        publish("orders", "not committed")
        raise KeyError

    with unit_of_work():
        Delivery(a_claimed(), a_handler(forget_to_commit), a_policy()).run()
    transaction.commit(using=manual)

    assert committed(manual) == 0


def test_a_transactional_handler_is_refused_where_django_would_not_commit(manual: str) -> None:
    with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
        Worker([a_handler(transactional=True)], threads=1, using=manual)


def test_a_command_commits_where_the_settings_switch_autocommit_off(manual: str) -> None:
    call_command("mq_queue", "create", "mails")
    call_command("mq_publish", "mails", "1")

    assert committed(manual) == 1
    assert Queue.objects.using(manual).filter(name="mails").exists()
    assert Message.objects.using(manual).get().queue.name == "mails"


def test_async_code_commits_where_the_settings_switch_autocommit_off(manual: str) -> None:
    asyncio.run(apublish("orders", 1))
    close_connections(publisher.async_threads)

    assert committed(manual) == 1


@pytest.mark.usefixtures("manual")
def test_a_check_warns_of_autocommit_switched_off() -> None:
    assert [found.id for found in check_settings()] == ["django_mq.W002"]
