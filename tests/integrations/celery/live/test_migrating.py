"""The move of a project from a Redis broker, by the plan of docs/how-to/celery/migrate.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from celery import Celery
from redis import Redis as Client

from tests.journeys.worker import Worker
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site
    from tests.services.redis import Redis

ORDERS = 12
#: What Kombu's Redis transport keeps: its queues, one list per priority, and what is unacknowledged.
OLD_KEYS = ("default*", "mail*", "unacked*")


class ShopWorker(Worker):
    """A worker of the shop on one of its brokers."""

    app = "tests.integrations.celery.live.shop.app"


def worker(site: Site, broker: str, name: str) -> ShopWorker:
    settings = {"DJANGO_SETTINGS_MODULE": "tests.integrations.celery.live.shop.settings", "SHOP_BROKER": broker}
    return ShopWorker(site.environment(**settings), site.directory, name, ("-c", "2", "-Q", "default,mail"))


@pytest.mark.once
def test_a_shop_moves_while_its_old_broker_drains(sites: Sites, redis_server: Redis) -> None:
    with sites("postgresql") as site, Celery("shop", broker=redis_server.url, set_as_current=False) as old:
        for number in range(ORDERS):
            old.send_task("shop.place_order", [f"old-{number}"], queue="default", countdown=2 * (number % 2))

        # Workers of both brokers run the same code. What is published from now on goes to the new broker.
        with (
            worker(site, redis_server.url, "draining") as draining,
            worker(site, "django-mq://", "new") as new,
            Client.from_url(redis_server.url) as client,
        ):
            for number in range(ORDERS):
                site.send("shop.place_order", f"new-{number}", queue="default")

            wait_until(lambda: len(site.diary(task="mail")) == 2 * ORDERS, site.story)
            wait_until(lambda: not any(key for name in OLD_KEYS for key in client.keys(name)), site.story)
            site.wait_until_settled()
            assert draining.stop() == 0
            assert new.stop() == 0

    expected = {f"{side}-{number}": 1 for side in ("old", "new") for number in range(ORDERS)}
    assert Counter(line["name"] for line in site.diary(task="order")) == expected
    assert Counter(line["name"] for line in site.diary(task="mail")) == expected
