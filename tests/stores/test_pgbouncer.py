"""Behind PgBouncer, pooling by transactions: nothing is left on a connection, and nothing is missed there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connections

from django_mq.api import publish
from django_mq.checks import check_database
from django_mq.delivery import publisher
from django_mq.engine.decisions.verdict import Verdict
from django_mq.notifications.postgresql import PostgreSQLNotifier
from django_mq.stores.records import ClaimRequest, Settlement
from django_mq.stores.registry import private_store, shared_store
from tests.conftest import hold_queues, skip_or_fail
from tests.delivery.builders import a_handler, running
from tests.services.pgbouncer import PORT, PgBouncer
from tests.services.server import UnavailableError
from tests.stores.builders import a_message, declare, open_session
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage

    #: Publishes messages.
    Publish = Callable[..., None]

pytestmark = [pytest.mark.django_db(databases=["postgresql"], transaction=True), pytest.mark.once]

ALIAS = "postgresql"
#: What a session may be left with, and the next client would meet.
# Every transaction begins with the default isolation: after SET TRANSACTION only the label of the setting stays.
LEFT_BEHIND = """
SELECT 'prepared ' || name FROM pg_prepared_statements
UNION ALL SELECT 'set ' || name FROM pg_settings WHERE source = 'session' AND name <> 'transaction_isolation'
UNION ALL SELECT 'locked ' || objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
UNION ALL SELECT 'listening to ' || pg_listening_channels()
UNION ALL SELECT 'cursor ' || name FROM pg_cursors WHERE name <> ''
"""
#: More than it takes to have a statement prepared.
OFTEN = 12
WAIT_SECONDS = 60


@pytest.fixture
def bouncer() -> Iterator[PgBouncer]:
    try:
        with PgBouncer(connections[ALIAS].settings_dict.copy()) as server:
            yield server
    except UnavailableError as missing:
        skip_or_fail(missing)


@pytest.fixture
def pooled(bouncer: PgBouncer, settings: Settings) -> Iterator[None]:
    """Lead through it, with the settings that the documentation gives."""
    hold_queues(settings, ALIAS)
    with leading_through(bouncer, DISABLE_SERVER_SIDE_CURSORS=True):
        yield


@contextmanager
def leading_through(bouncer: PgBouncer, **more: Any) -> Iterator[None]:
    """Have every new connection of the alias lead through the pooler."""
    connections[ALIAS].close()
    direct = connections[ALIAS].settings_dict
    before = direct.copy()
    direct.update(HOST=str(bouncer.directory), PORT=PORT, **more)
    try:
        yield
    finally:
        connections[ALIAS].close()
        direct.update(before)


@pytest.fixture
def store(pooled: None) -> Store:
    """A publisher's, over Django's connection of this thread."""
    return shared_store(ALIAS)


@pytest.fixture
def elsewhere(pooled: None) -> Iterator[Publish]:
    """What another of the project's threads publishes, over a connection of its own."""

    def publish(*messages: NewMessage) -> None:
        thread.submit(lambda: publisher.append(shared_store(ALIAS), list(messages))).result(WAIT_SECONDS)

    with ThreadPoolExecutor(1) as thread:
        yield publish
        thread.submit(connections.close_all).result(WAIT_SECONDS)


def left_behind(bouncer: PgBouncer) -> list[str]:
    """What is left on the one connection to the server."""
    with psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as connection:
        return [text for (text,) in connection.execute(LEFT_BEHIND.encode()).fetchall()]


def test_publishers_leave_nothing_behind(store: Store, elsewhere: Publish, bouncer: PgBouncer) -> None:
    declare(store)
    declare(store, "limited", max_messages=1000)
    before = left_behind(bouncer)

    for _ in range(OFTEN):
        for messages in ([a_message()], [a_message("limited")], [a_message() for _ in range(3)]):
            publisher.append(store, messages)
        elsewhere(a_message())
        elsewhere(a_message("limited"))
    publisher.append(store, [a_message() for _ in range(500)])

    counts = store.queues.counts()
    assert (counts["orders"].ready, counts["limited"].ready) == (5 * OFTEN + 500, 2 * OFTEN)
    assert left_behind(bouncer) == before == []


def test_operators_leave_nothing_behind(store: Store, bouncer: PgBouncer) -> None:
    for name in ("orders", "other"):
        declare(store, name)
    number = store.publications.append(a_message())
    store.queues.set_paused("orders", paused=True, reason="stocktaking")
    store.operations.move([number], "other")
    store.deletions.purge("other")
    store.deletions.delete_queue("other")

    assert left_behind(bouncer) == []
    with psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as connection:
        shown = [
            connection.execute(f"SHOW {name}transaction_isolation".encode()).fetchone()
            for name in ("", "default_")
        ]
    assert shown[0] == shown[1]


def test_a_publish_belongs_to_the_transaction_that_is_open(store: Store) -> None:
    declare(store)
    kept, lost = uuid4(), uuid4()

    with store.database.transaction():
        store.publications.append(a_message(message_id=kept))
    with suppress(ZeroDivisionError), store.database.transaction():
        store.publications.append(a_message(message_id=lost))
        raise ZeroDivisionError

    assert [message.message_id for message in store.browser.browse("orders", states=[1])] == [kept]


def test_workers_share_the_connection_with_publishers(
    store: Store, elsewhere: Publish, bouncer: PgBouncer
) -> None:
    declare(store)
    workers = [private_store(ALIAS), private_store(ALIAS)]
    sessions = [open_session(worker) for worker in workers]
    taken: list[int] = []

    for turn in range(OFTEN):
        for worker, session in zip(workers, sessions, strict=True):
            elsewhere(a_message())
            claimed = worker.claims.claim(session, ClaimRequest(queues=("orders",), credit=5)).claimed
            taken += [message.id for message in claimed]
            done = [Settlement(message.id, message.claim, Verdict.ACCEPT) for message in claimed]
            following = ClaimRequest(queues=("orders",), credit=5, promote=turn % 2 == 0)
            assert worker.claims.settle_and_claim(session, done, following).void == frozenset()
    for worker, session in zip(workers, sessions, strict=True):
        worker.sessions.close(session)
        worker.close()

    assert len(taken) == len(set(taken)) == 2 * OFTEN
    assert store.queues.counts()["orders"].total == 0
    assert left_behind(bouncer) == []


def test_a_project_that_does_not_say_so_is_warned(bouncer: PgBouncer, settings: Settings) -> None:
    hold_queues(settings, ALIAS)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "HINTS": "none"}
    with leading_through(bouncer):
        (found,) = check_database(databases=[ALIAS])

    assert found.id == "django_mq.W001"
    assert "DISABLE_SERVER_SIDE_CURSORS" in (found.hint or "")


@pytest.mark.usefixtures("pooled")
def test_a_project_that_says_so_is_not_warned(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "HINTS": "none"}

    assert check_database(databases=[ALIAS]) == []


@pytest.mark.usefixtures("pooled")
def test_a_project_whose_workers_cannot_listen_is_warned() -> None:
    (found,) = check_database(databases=[ALIAS])

    assert "LISTEN_DATABASE" in (found.hint or "")


def test_a_worker_that_cannot_listen_polls_and_leaves_nothing_behind(store: Store, bouncer: PgBouncer) -> None:
    declare(store)
    notifier = PostgreSQLNotifier(ALIAS)
    assert "LISTEN_DATABASE" in notifier.problem()

    with running(a_handler(), using=ALIAS) as worker:
        publish("orders", 1, using=ALIAS)
        wait_until(lambda: store.queues.counts()["orders"].total == 0)
        assert not worker.runtime.hears

    assert left_behind(bouncer) == []
