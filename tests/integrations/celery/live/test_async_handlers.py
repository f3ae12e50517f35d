"""A Celery worker runs coroutine functions, and handlers of many, in a process beside its pool."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from django_mq.api import publish
from tests.services.processes import alive
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site

pytestmark = pytest.mark.once
APP = "tests.integrations.celery.live.asynchronous"


@pytest.fixture
def shop(sites: Sites, redis_url: str) -> Iterator[Site]:
    with sites("postgresql", SESSION_SECONDS=3, MAINTENANCE_SECONDS=0.5, REDIS_URL=redis_url) as site:
        for queue in ("waits", "plain", "many"):
            site.declare(queue)
        yield site


def pid_of(site: Site, name: str, number: int = 1) -> int:
    """Wait until the handler of this name has begun so many times; return the process of the last one."""
    wait_until(lambda: len(site.diary(name=name)) >= number, lambda: f"{name}: {site.story()}")
    return int(site.diary(name=name)[-1]["pid"])


def test_it_runs_beside_the_pool_and_a_warm_shutdown_waits_for_it(shop: Site) -> None:
    with shop.worker(JOURNEY_APPS=APP) as worker:
        publish("waits", "first", using=shop.alias)
        pid = pid_of(shop, "first")
        shop.open("first")
        assert pid_of(shop, "plain first") != pid

        publish("waits", "last", using=shop.alias)
        assert pid_of(shop, "last") == pid
        worker.signal(signal.SIGTERM)
        shop.open("last")
        assert worker.stop() == 0

    assert not psutil.pid_exists(pid)
    assert [row.queue_name for row in shop.finished()].count("waits") == 2


def test_a_handler_of_many_runs_there_too(shop: Site) -> None:
    with shop.worker(JOURNEY_APPS=APP) as worker:
        for body in "abc":
            publish("many", body, using=shop.alias)
        publish("waits", "d", using=shop.alias)

        assert pid_of(shop, "a-b-c") == pid_of(shop, "d")
        shop.open("d")
        assert worker.stop() == 0

    assert [row.queue_name for row in shop.finished()].count("many") == 3


def test_its_process_is_started_again_when_it_is_killed(shop: Site) -> None:
    with shop.worker(JOURNEY_APPS=APP) as worker:
        publish("waits", "again", using=shop.alias)
        pid = pid_of(shop, "again")
        os.kill(pid, signal.SIGKILL)

        assert pid_of(shop, "again", 2) != pid
        shop.open("again")
        pid_of(shop, "plain again")
        assert worker.stop() == 0


def test_it_ends_with_a_worker_that_is_killed(shop: Site) -> None:
    with shop.worker(JOURNEY_APPS=APP) as worker:
        publish("waits", "orphan", using=shop.alias)
        orphan = psutil.Process(pid_of(shop, "orphan"))
        worker.signal(signal.SIGKILL)
        shop.open("orphan")
        wait_until(lambda: not alive(orphan))

    assert [row.queue_name for row in shop.finished()] == ["waits"]
