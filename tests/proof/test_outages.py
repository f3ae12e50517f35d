"""The database or Redis is restarted, cut off, slow, full or contradicts itself while work goes on."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest
from celery import Celery
from celery.app.task import Context
from celery.result import AsyncResult
from django.db import connections
from django.db.models import F

from django_mq import outages
from django_mq.engine.decisions.backoff import Backoff
from django_mq.models import History, Message
from django_mq.notifications import gathering
from django_mq.results.connections import forget, keep
from tests.proof.account import Account
from tests.proof.link import Link
from tests.proof.soak import Soak, cut_connections
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.proof.conftest import Places
    from tests.proof.place import Place
    from tests.services.postgresql import PostgreSQL
    from tests.services.redis import Redis


def progress(place: Place, count: int) -> None:
    """Wait until so many more messages are done with."""
    before = done(place)
    wait_until(lambda: done(place) >= before + count, place.story)


def done(place: Place) -> int:
    return len(Account.of(place.alias).accepted)


@pytest.mark.once
def test_a_soak_with_everything_going_wrong_loses_nothing(places: Places, postgresql_server: PostgreSQL) -> None:
    with places("postgresql", url=postgresql_server.url) as place:
        place.declare(max_attempts=0)
        soak = Soak(place, postgresql_server, random.Random(3), every=0.3)
        account = soak.run(20_000, lambda _: None, schedule=["cut", "kill", "restart", "freeze", "crash", "kill"])

    account.check()
    assert not account.dead
    assert not account.present


@pytest.mark.once
def test_connections_that_are_cut_at_random_lose_nothing_and_cost_no_lease(places: Places) -> None:
    with places("postgresql", SESSION_SECONDS=60) as place:
        chance = random.Random(7)
        # So long that only a worker that does not come back by itself is taken for dead, on any machine.
        workers = [place.start("consume", transactional=True, reconnect_seconds=30.0) for _ in range(2)]
        sender = place.start("send", batch=5)
        for _ in range(10):
            progress(place, chance.randrange(20, 200))
            cut_connections(place.alias, share=0.5)
        progress(place, 50)
        sender.kill()
        for worker in workers:
            worker.end()
        ended = place.finish(threads=4, transactional=True)

        ended.check()
        ended.check_done(once=True)
        # Each worker came back in time: none was taken for dead.
        assert "is dead" not in place.said


@pytest.mark.once
def test_a_redis_that_dies_forgets_and_hangs_loses_nothing(places: Places, redis_server: Redis) -> None:
    from redis import Redis as Client

    def forget() -> None:
        with Client.from_url(redis_server.url) as client:
            client.flushall()

    with places("postgresql", REDIS_URL=redis_server.url) as place:
        worker = place.start("consume")
        sender = place.start("send", batch=2)
        for fault in (forget, redis_server.kill, redis_server.start, redis_server.freeze, redis_server.thaw):
            progress(place, 50)
            fault()
        progress(place, 50)
        sender.kill()
        worker.end()
        ended = place.finish()

    ended.check()
    ended.check_done(once=True)


@pytest.mark.once
def test_a_slow_redis_loses_nothing_and_makes_a_publisher_wait_once(
    places: Places, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Longer than the test: a publisher that has to wait twice has not been spared the second time.
    monkeypatch.setattr(gathering, "PAUSES", Backoff(base_seconds=1200.0))
    monkeypatch.setattr(outages, "INTERVALS", Backoff())  # log each failure
    given = {"REDIS_TIMEOUT_SECONDS": 0.5, "SESSION_SECONDS": 60}
    with Link(redis_url) as link, places("postgresql", REDIS_URL=link.url, **given) as place:
        worker = place.start("consume")
        sender = place.start("send", batch=2)
        place.send(1)
        progress(place, 50)

        link.late_seconds = 1.0
        for _ in range(100):
            place.send(1)
        progress(place, 150)
        link.late_seconds = 0.0
        progress(place, 50)
        sender.kill()
        worker.end()
        ended = place.finish()

    assert caplog.text.count("hints are dropped") == 1
    ended.check()
    ended.check_done(once=True)


@pytest.mark.once
def test_dead_locks_with_an_operator_lose_nothing(places: Places) -> None:
    with places("postgresql", SESSION_SECONDS=60) as place:
        sender = place.start("send", batch=10)
        workers = [place.start("consume", threads=4) for _ in range(2)]
        wait_until(lambda: cross(place), place.story)
        progress(place, 50)
        sender.kill()
        for worker in workers:
            worker.end()
        ended = place.finish()

        ended.check()
        # The victim tries again with what it held, unless it took so long that it was given up meanwhile.
        ended.check_done(once="is dead" not in place.said)


def cross(place: Place) -> bool:
    """Lock a claimed message, and the others when a worker waits for it; return whether a worker gave way."""
    with psycopg.connect(place.url) as operator:
        # The session that finds the dead-lock is its victim, and workers look after a second.
        operator.execute("SET deadlock_timeout = '10s'")
        claimed = "SELECT id FROM django_mq_message WHERE state = 2 ORDER BY id DESC"
        if operator.execute(f"{claimed} LIMIT 1 FOR UPDATE SKIP LOCKED").fetchone() is None:
            return False
        wait_until(lambda: is_waited_for(place, operator.info.backend_pid), place.story)
        try:
            operator.execute(f"{claimed} FOR UPDATE")
        except psycopg.errors.DeadlockDetected:
            return False  # the worker had looked before: another time
    return "deadlock detected" in place.said


def is_waited_for(place: Place, pid: int) -> bool:
    with connections[place.alias].cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", [pid])
        return cursor.fetchone() is not None


@pytest.mark.once
def test_serialisation_errors_lose_nothing(places: Places) -> None:
    with places("postgresql") as place:
        with connections[place.alias].cursor() as cursor:
            name = connections[place.alias].settings_dict["NAME"]
            cursor.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
        place.send(500)
        workers = [place.start("consume") for _ in range(3)]
        # By their clocks every session has expired. On a slow machine no worker would make progress beside them.
        for _ in range(10):
            reapers = [place.start("tidy", clock=1000.0) for _ in range(2)]
            reaped = place.said.count("is dead")
            wait_until(lambda: place.said.count("is dead") > reaped, place.story)  # noqa: B023 - called at once
            for reaper in reapers:
                reaper.kill()
        wait_until(lambda: done(place) == 500, place.story)
        for worker in workers:
            worker.kill()
        Account.of(place.alias).check()


@pytest.mark.once
def test_workers_whose_clocks_are_off_by_an_hour_work_like_the_others(places: Places) -> None:
    with places("postgresql", SESSION_SECONDS=60) as place:
        place.send(200)
        place.send(50, delay=1.0)
        workers = [place.start("consume", clock_hours=hours) for hours in (-1, 0, 1)]
        wait_until(lambda: done(place) == 250, place.story)
        for worker in workers:
            worker.end()
        assert not History.objects.using(place.alias).filter(claimed_at__lt=F("ready_at")).exists()
        ended = place.finish()

        ended.check()
        ended.check_done(once=True)
        assert "is dead" not in place.said


@pytest.mark.once
def test_a_full_disk_under_sqlite_loses_nothing(places: Places) -> None:
    with places("sqlite") as place:
        place.send(500)
        size = sum(path.stat().st_size for path in place.files())
        worker = place.start("consume", file_bytes=size + 50_000)
        wait_until(lambda: "disk" in place.said, place.story)
        worker.kill()
        full = Account.of(place.alias)
        ended = place.finish(threads=4)

    full.check()
    ended.check()
    ended.check_done()
    assert len(full.accepted) < len(ended.accepted) == 500


@pytest.mark.once
def test_what_has_finished_is_not_among_the_live(place: Place) -> None:
    place.send(50)

    ended = place.finish()

    assert len(ended.accepted) == 50
    assert not Message.objects.using(place.alias).exists()


@pytest.mark.once
def test_a_worker_keeps_a_result_until_the_database_is_back(
    places: Places, postgresql_server: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    def store() -> None:
        try:
            app.backend.mark_as_done("a", 7, Context(id="a", task="add", called_directly=False))
        finally:
            connections[place.alias].close()

    with places("postgresql", url=postgresql_server.url) as place, ExitStack() as stack:
        url = f"django-mq:///{place.alias}"
        app = stack.enter_context(Celery("outage", broker=url, backend=url, set_as_current=False))
        keep()
        stack.callback(forget)
        connections[place.alias].close()
        postgresql_server.kill()
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stored = pool.submit(store)
        # So often that other programs would have given up.
        wait_until(lambda: caplog.text.count("Failed operation") > 4 or stored.done())
        postgresql_server.start()
        stored.result(PATIENCE_SECONDS)

        assert AsyncResult("a", app=app).get(timeout=0) == 7
