"""How many connections to the database a worker's process needs."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.db import connections, transaction
from kombu import Connection

from django_mq.errors import StoreUnavailable
from django_mq.integrations.celery import publisher


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


def test_a_program_that_cannot_reach_the_database_is_told_at_once(
    url: str, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = connections[committed_database]
    database.close()
    for setting in ("HOST", "NAME"):
        monkeypatch.setitem(database.settings_dict, setting, "/missing/database")

    with pytest.raises(StoreUnavailable):
        Connection(url).connect()
