"""Losing hints costs time, never a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.models import History
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.services.redis import Redis

pytestmark = pytest.mark.on("sqlite", once="postgresql")


@pytest.fixture
def hinted(committed_database: str, settings: Settings, redis_server: Redis) -> str:
    """A database with hints through a Redis of the test's own; its workers hardly ever look without a hint."""
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "REDIS_URL": redis_server.url,
        "SAFETY_POLL_SECONDS": 0.5,
        "POLL_SECONDS": 0.1,
    }
    declare(shared_store(committed_database), "orders")
    return committed_database


def finished(alias: str) -> int:
    return History.objects.using(alias).count()


def test_redis_killed_in_the_middle_loses_nothing(hinted: str, redis_server: Redis) -> None:
    seen: list[Any] = []
    with running(a_handler(lambda message: seen.append(message.body)), using=hinted) as worker:
        publish_many([("orders", number) for number in range(20)])
        wait_until(lambda: finished(hinted) == 20)

        redis_server.kill()
        for number in range(20, 40):
            publish("orders", number)
        wait_until(lambda: finished(hinted) == 40)

        redis_server.start()
        wait_until(lambda: worker.runtime.hears)
        for number in range(40, 60):
            publish("orders", number)
        wait_until(lambda: finished(hinted) == 60)

    assert sorted(seen) == list(range(60))


def test_a_frozen_redis_loses_nothing(hinted: str, redis_server: Redis) -> None:
    seen: list[Any] = []
    with running(a_handler(lambda message: seen.append(message.body)), using=hinted) as worker:
        wait_until(lambda: worker.runtime.hears)
        redis_server.freeze()
        for number in range(10):
            publish("orders", number)
        wait_until(lambda: finished(hinted) == 10)
        redis_server.thaw()

    assert sorted(seen) == list(range(10))


def test_a_wrong_redis_url_only_costs_time(committed_database: str, settings: Settings, free_port: int) -> None:
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "REDIS_URL": f"redis://127.0.0.1:{free_port}/0",
        "POLL_SECONDS": 0.1,
    }
    declare(shared_store(committed_database), "orders")

    with running(a_handler(), using=committed_database):
        publish("orders", 1)
        wait_until(lambda: finished(committed_database) == 1)
