"""How many connections to the database a worker's process needs."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.db import connections, transaction
from kombu import Connection

from django_mq.errors import StoreUnavailable
from django_mq.integrations.celery import publisher
from django_mq.stores.sql import database
from tests.support.ending import ENDS, end_connection

pytestmark = pytest.mark.on("postgresql")


def private_of(connection: Connection) -> Any:
    """Return the private store that a transport uses now."""
    with connection.transport._committing.private() as store:
        return store


def test_the_transports_of_a_worker_that_have_no_session_share_a_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_workers", {os.getpid()})
    monkeypatch.setattr(publisher, "_beside", {})
    with Connection(url) as events, Connection(url) as replies:
        events.ensure_connection()
        replies.ensure_connection()
        first, second = (private_of(one) for one in (events, replies))

    assert first is second
    first.close()


def test_a_task_with_an_open_transaction_waits_for_no_connection_that_others_share(
    url: str, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task of the same process may wait, on that connection, for what the transaction has locked."""
    monkeypatch.setattr(publisher, "_workers", {os.getpid()})
    monkeypatch.setattr(publisher, "_beside", {})
    with Connection(url) as connection:
        connection.ensure_connection()
        choose = connection.transport._committing

        with transaction.atomic(using=committed_database), choose.private() as retry, choose() as declaration:
            pass

        kept = private_of(connection)
        assert kept not in (retry, declaration)
        kept.close()


def test_transports_outside_of_a_worker_close_their_connections_after_use(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_workers", set())
    with Connection(url) as one, Connection(url) as other:
        one.ensure_connection()
        other.ensure_connection()

        first, second = (private_of(each) for each in (one, other))
        assert first is not second


@pytest.fixture
def served(committed_database: str) -> str:
    """A database on a server, which can end connections."""
    if connections[committed_database].vendor not in ENDS:
        pytest.skip("the connection is a file")
    return committed_database


def use_in_turn(connection: Connection) -> list[Any]:
    """Connect, declare, look for a queue and send a command, as a worker does that starts; return what failed."""
    failed = []
    for step in (
        connection.connect,
        lambda: connection.channel().queue_declare("orders"),
        lambda: connection.channel().queue_declare("orders", passive=True),
        lambda: connection.transport.transient.put(["w.celery.pidbox"], A_COMMAND),
    ):
        try:
            step()
        except StoreUnavailable as error:
            failed.append(error)
    return failed


#: A command of Celery's remote control, as Kombu writes it.
A_COMMAND = {"body": "{}", "headers": {}, "properties": {"delivery_info": {"exchange": "celery.pidbox"}}}


def test_a_worker_connects_although_the_connection_of_its_start_has_ended(url: str, served: str) -> None:
    connections[served].ensure_connection()  # for the queues of its handlers
    end_connection(connections[served])

    with Connection(url) as connection:
        assert not use_in_turn(connection)


def test_a_connection_that_ends_in_use_is_replaced_at_the_next_use(
    url: str, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "has_ended", lambda _: False)  # as if the news arrived too late
    connections[served].ensure_connection()
    end_connection(connections[served])

    with Connection(url) as connection:
        assert not use_in_turn(connection)


def test_the_connection_that_transports_of_a_worker_share_is_replaced_when_it_has_ended(
    url: str, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_workers", {os.getpid()})
    monkeypatch.setattr(publisher, "_beside", {})
    with Connection(url) as replies:
        replies.connect()
        kept = private_of(replies)
        kept.queues.find("")
        end_connection(kept.database.connection)

        assert not use_in_turn(replies)
        assert private_of(replies) is kept
        kept.close()


def test_a_program_that_cannot_reach_the_database_is_told_at_once(
    url: str, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = connections[committed_database]
    site.close()
    for setting in ("HOST", "NAME"):
        monkeypatch.setitem(site.settings_dict, setting, "/missing/database")

    with pytest.raises(StoreUnavailable):
        Connection(url).connect()
