"""The database or Redis goes away, or was never there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import psycopg
import pytest
from django.db import connections

from tests.journeys.conftest import SHORT
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from tests.journeys.conftest import Sites, Templates
    from tests.journeys.site import Site
    from tests.services.postgresql import PostgreSQL
    from tests.services.redis import Redis


@pytest.fixture
def on_postgresql(sites: Sites) -> Iterator[Site]:
    """A site on PostgreSQL without Redis."""
    with sites("postgresql", **SHORT) as made:
        yield made


def test_losing_redis_loses_nothing_and_work_goes_on(sites: Sites, redis_server: Redis) -> None:
    with sites("postgresql", **SHORT, REDIS_URL=redis_server.url) as site, site.worker() as worker:
        site.send("note", "with")
        site.wait_for_diary(name="with")

        redis_server.kill()
        for number in range(10):
            site.send("note", number)
        site.wait_until_settled()

        redis_server.start()
        wait_until(lambda: _subscribed(redis_server), site.story)
        site.send("note", "again")
        site.wait_for_diary(name="again")

        assert worker.stop() == 0
        assert len(site.diary()) == 12
        assert "Traceback" not in worker.log


def _subscribed(server: Redis) -> bool:
    from redis import Redis as Client

    with Client.from_url(server.url) as client:
        return bool(client.pubsub_channels("*q:celery"))


@pytest.mark.once
def test_a_frozen_redis_does_not_hold_up_anybody(sites: Sites, redis_server: Redis) -> None:
    with sites("postgresql", **SHORT, REDIS_URL=redis_server.url) as site, site.worker() as worker:
        site.send("note", "before")
        site.wait_for_diary(name="before")

        redis_server.freeze()
        for number in range(10):
            site.send("note", number)
        site.wait_until_settled()
        redis_server.thaw()

        assert worker.stop() == 0
        assert len(site.diary()) == 11


@pytest.mark.once
def test_a_restart_of_postgresql_loses_nothing(sites: Sites, postgresql_server: PostgreSQL) -> None:
    with sites("postgresql", url=postgresql_server.url, **SHORT) as site:
        site.migrate()
        with site.worker() as worker:
            for number in range(2):
                site.send("gated", f"running {number}", "gate")
            for number in range(20):
                site.send("late", number)
            site.wait_for_diary(2, phase="begun")

            postgresql_server.kill()
            wait_until(lambda: "onnection to broker lost" in worker.log or "cannot be" in worker.log)
            postgresql_server.start()
            site.open("gate")
            wait_until(lambda: _table_is_empty(site), site.story)

            assert worker.stop() == 0
        runs = Counter(line["name"] for line in site.diary(task="late"))
        assert set(runs) == set(range(20))
        assert len(site.finished()) == 22


@pytest.mark.once
@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_a_celery_worker_is_back_soon_after_postgresql(
    sites: Sites, postgresql_server: PostgreSQL, pool: str
) -> None:
    with sites("postgresql", url=postgresql_server.url, **SHORT) as site:
        site.migrate()
        with site.worker("-P", pool) as worker:
            settled(site, "before")

            postgresql_server.kill()
            wait_until(lambda: "Connection to broker lost" in worker.log, lambda: worker.log)
            wait_until(lambda: "The database 'default' cannot be used" in worker.log, lambda: worker.log)
            postgresql_server.start()
            connections[site.alias].close()
            settled(site, "after")

            # Celery itself, which pauses for seconds, has not had to try.
            assert "Trying again in" not in worker.log
            assert "The database 'default' works again" in worker.log
            assert worker.stop() == 0


@pytest.mark.once
def test_a_celery_worker_can_be_stopped_while_the_database_is_away(
    sites: Sites, postgresql_server: PostgreSQL
) -> None:
    with sites("postgresql", url=postgresql_server.url, **SHORT) as site:
        site.migrate()
        with site.worker() as worker:
            settled(site, "before")
            postgresql_server.kill()
            wait_until(lambda: "Connection to broker lost" in worker.log, lambda: worker.log)

            worker.stop()  # the exit code is Celery's business
        postgresql_server.start()


def _table_is_empty(site: Site) -> bool:
    connections[site.alias].close()  # the restart has broken it
    return not site.rows()


@pytest.mark.once
def test_reconnecting_leaves_nothing_behind(on_postgresql: Site) -> None:
    site = on_postgresql
    with site.worker() as worker:
        settled(site, "warm")
        # The heartbeat's connection belongs to it, too, and is there once the session has been renewed.
        wait_until(lambda: any(session.heartbeat_at > session.started_at for session in site.sessions()))
        first = _belongings(worker.process)

        for number in range(5):
            _cut_connections(site)
            settled(site, f"after cut {number}")

        wait_until(lambda: _belongings(worker.process) <= first, lambda: f"{first}: {_belongings(worker.process)}")
        wait_until(lambda: len(site.sessions()) == 1, lambda: f"one session: {site.sessions()}")
        assert worker.stop() == 0


def settled(site: Site, name: str) -> None:
    """Publish a task and return when it is done with."""
    site.send("note", name)
    site.wait_for_diary(name=name)
    site.wait_until_settled()


def _belongings(process: psutil.Process) -> tuple[int, int]:
    return process.num_threads(), process.num_fds()


def _cut_connections(site: Site) -> None:
    with psycopg.connect(site.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = ''"
        )
    connections[site.alias].close()


@pytest.mark.once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_worker_waits_for_the_tables_and_names_the_command(
    sites: Sites, templates: Templates, kind: str
) -> None:
    with sites(kind, url=templates.empty(kind), **SHORT) as site:
        worker = site.worker()
        worker.start()
        try:
            wait_until(lambda: "run manage.py migrate" in worker.log, lambda: worker.log)
            site.migrate()
            worker.wait_until_ready()
            settled(site, "at last")
        finally:
            worker.kill()


@pytest.mark.once
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("django-mq:///nowhere", "There is no database alias 'nowhere'; DATABASES has default."),
        ("django-mq://default", "write django-mq:///default"),
        ("django-mq://?colour=red", "Unknown options in the broker URL: colour"),
    ],
)
def test_a_worker_with_a_wrong_url_says_so_and_ends(sites: Sites, url: str, message: str) -> None:
    with sites("sqlite") as site:
        worker = site.worker(JOURNEY_BROKER=url)
        worker.start()
        try:
            code = worker.wait()
        finally:
            worker.kill()

    assert code != 0
    assert message in worker.log
