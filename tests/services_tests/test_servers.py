"""The servers answer, survive what tests do to them, and leave nothing behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest
from kombu import Connection
from redis import Redis as Client
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as NoReplyError
from redis.retry import Retry

from tests.conftest import skip_or_fail
from tests.services.directory import Directory
from tests.services.environment import Services
from tests.services.postgresql import PostgreSQL
from tests.services.processes import alive, wait_until_gone
from tests.services.rabbitmq import RabbitMQ
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from tests.services.redis import Redis


def run(server: PostgreSQL, *statements: str) -> list[tuple[object, ...]]:
    """Run the statements in one transaction and return the rows of the last."""
    with psycopg.connect(server.url) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_postgresql_has_its_default_durability_unless_the_tests_do_without(postgresql_server: PostgreSQL) -> None:
    ask = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"

    with PostgreSQL() as durable:
        assert run(durable, ask) == [("on", "on")]
    assert run(postgresql_server, ask) == [("off", "on")]


def test_postgresql_keeps_what_was_committed_when_it_is_killed(postgresql_server: PostgreSQL) -> None:
    run(postgresql_server, "CREATE TABLE kept (number int)", "INSERT INTO kept VALUES (42)")

    postgresql_server.kill()
    postgresql_server.start()

    assert run(postgresql_server, "SELECT number FROM kept") == [(42,)]


def test_a_killed_postgresql_leaves_no_backend(postgresql_server: PostgreSQL) -> None:
    with psycopg.connect(postgresql_server.url):
        processes = psutil.Process(postgresql_server.pid).children(recursive=True)

        postgresql_server.kill()

    assert processes
    assert not any(alive(process) for process in processes)


def test_a_closed_server_leaves_no_file(postgresql_server: PostgreSQL) -> None:
    directory = postgresql_server.directory

    postgresql_server.close()

    assert not directory.exists()


@pytest.mark.once
def test_a_rabbitmq_keeps_its_durable_queues_and_leaves_neither_process_nor_file() -> None:
    try:
        server = RabbitMQ()
    except UnavailableError as missing:
        skip_or_fail(missing)
    before = {*psutil.Process().children()}
    with server, Connection(server.url) as connection:
        connection.default_channel.queue_declare("kept", durable=True, auto_delete=False)
        started = [*{*psutil.Process().children()} - before]

        server.restart()

        with Connection(server.url) as again:
            assert again.default_channel.queue_declare("kept", passive=True).message_count == 0
    assert started
    assert not any(alive(process) for process in started)
    assert not server.directory.exists()


@pytest.mark.once
def test_a_killed_rabbitmq_leaves_no_process() -> None:
    try:
        server = RabbitMQ()
    except UnavailableError as missing:
        skip_or_fail(missing)
    with server:
        node = psutil.Process(server.pid)
        processes = [node, *node.children(recursive=True)]

        server.kill()

        assert not server.answers()
        wait_until_gone(processes)
    assert not any(alive(process) for process in processes)


def test_what_a_killed_run_left_is_removed_by_the_next() -> None:
    abandoned = Directory("abandoned")
    abandoned.abandon()

    owned = Directory("owned")

    assert owned.path.exists()
    assert not abandoned.path.exists()
    owned.remove()


def test_redis_comes_back_empty_on_the_same_address(redis_server: Redis) -> None:
    with Client.from_url(redis_server.url) as client:
        client.set("key", "value")

    redis_server.kill()
    redis_server.start()

    with Client.from_url(redis_server.url) as client:
        assert client.get("key") is None


def test_a_frozen_redis_keeps_its_callers_waiting_until_it_thaws(redis_server: Redis) -> None:
    with Client.from_url(redis_server.url, socket_timeout=0.1, retry=Retry(NoBackoff(), 0)) as client:
        redis_server.freeze()
        with pytest.raises(NoReplyError):
            client.ping()

        redis_server.thaw()

    with Client.from_url(redis_server.url) as patient:
        assert patient.ping()


def test_a_forked_copy_of_the_tests_does_not_stop_their_server(
    redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_server, "_owner", os.getpid() + 1)

    redis_server.close()

    assert redis_server.running
    monkeypatch.undo()


def test_a_server_named_by_the_environment_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:1/0")
    before = psutil.Process().children()

    with Services() as services:
        assert services.url("redis") == "redis://elsewhere:1/0"
        # What other tests have started may end meanwhile.
        assert set(psutil.Process().children()) <= set(before)


def test_a_missing_server_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")

    with pytest.raises(pytest.skip.Exception, match="no server"):
        skip_or_fail(UnavailableError("no server"))


def test_a_missing_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="no server"):
        skip_or_fail(UnavailableError("no server"))
