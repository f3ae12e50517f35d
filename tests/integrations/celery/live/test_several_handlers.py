"""A Celery worker runs several handlers of a queue in a process beside its pool."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import psutil
import pytest

from django_mq.api import publish
from django_mq.models import Attempt, Consumer
from tests.services.processes import alive
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site

pytestmark = pytest.mark.once
APP = "tests.integrations.celery.live.several"


@pytest.fixture
def shop(sites: Sites, redis_url: str) -> Iterator[Site]:
    with sites("postgresql", SESSION_SECONDS=3, MAINTENANCE_SECONDS=0.5, REDIS_URL=redis_url) as site:
        for queue in ("parcels", "letters", "sent"):
            site.declare(queue, backoff_seconds=0, backoff_jitter=0)
        yield site


def test_each_message_goes_to_its_handler_beside_the_pool(shop: Site) -> None:
    with shop.worker(JOURNEY_APPS=APP) as worker:
        publish("parcels", "new", type="parcel.v2", using=shop.alias)
        publish("parcels", "old", type="parcel.v1", using=shop.alias)
        publish("parcels", "near", headers={"region": "eu"}, using=shop.alias)
        publish("parcels", "slow", headers={"region": "eu"}, using=shop.alias)
        publish("letters", "held letter", using=shop.alias)
        shop.wait_for_diary(name="held letter")
        publish("letters", "another", using=shop.alias)
        shop.wait_for_diary(name="another")
        shop.wait_for_diary(name="sent new")
        wait_until(lambda: shop.states()["dead"] == 1, shop.story)
        shown = set(Consumer.objects.using(shop.alias).values_list("queue_name", "selector", "priority"))
        shop.open("held")
        shop.open("slow")
        wait_until(lambda: shop.states() == {"dead": 1}, shop.story)
        assert worker.stop() == 0

    handled = [line for line in shop.diary() if "handler" in line]
    assert {line["name"]: line["handler"] for line in handled} == {
        "new": "v2",
        "old": "rest",
        "near": "eu",
        "slow": "eu",
        "held letter": "first",
        "another": "second",
    }
    assert len(handled) == 6
    [pid] = {line["pid"] for line in handled}
    assert {line["pid"] for line in shop.diary(name="sent new")} != {pid}
    assert list(Attempt.objects.using(shop.alias).values_list("error", flat=True)) == ["HandlerTimeout"]
    assert shown >= {
        ("parcels", "JMSType = 'parcel.v2'", 2),
        ("parcels", "region = 'eu'", 0),
        ("parcels", "", 0),
        ("letters", "", 1),
        ("letters", "", 0),
        ("sent", "", 0),
    }
    assert not psutil.pid_exists(pid)


def test_tasks_of_its_queue_run_in_the_pool_and_other_messages_do_not(shop: Site) -> None:
    with shop.worker("-Q", "celery,parcels", JOURNEY_APPS=APP) as worker:
        for number in range(3):
            publish("parcels", f"any {number}", using=shop.alias)
            shop.send("note", f"task {number}", queue="parcels")
        shop.wait_until_settled()
        assert worker.stop() == 0

    assert Counter(line["name"] for line in shop.diary()) == {
        f"{kind} {number}": 1 for kind in ("any", "task") for number in range(3)
    }
    assert not Attempt.objects.using(shop.alias).exists()


def test_kills_lose_nothing_and_repeat_only_what_ran(shop: Site) -> None:
    for number in range(5):
        publish("parcels", f"new {number}", type="parcel.v2", using=shop.alias)
        publish("parcels", f"any {number}", using=shop.alias)
    publish("parcels", "held new", type="parcel.v2", priority=9, using=shop.alias)
    publish("parcels", "held any", priority=9, using=shop.alias)

    def process_of_attempt(number: int) -> int:
        """Wait until both held messages are handled for the time of this number; return the process."""
        lines = [shop.wait_for_diary(number, name=name)[-1] for name in ("held new", "held any")]
        [pid] = {line["pid"] for line in lines}
        return int(pid)

    with shop.worker(JOURNEY_APPS=APP) as worker:
        killed = process_of_attempt(1)
        os.kill(killed, signal.SIGKILL)
        orphan = psutil.Process(process_of_attempt(2))
        worker.signal(signal.SIGKILL)
        worker.wait()
        with shop.worker(name="second", JOURNEY_APPS=APP) as second:
            shop.open("held")
            shop.wait_until_settled()
            assert second.stop() == 0
        wait_until(lambda: not alive(orphan))

    begun = Counter(line["name"] for line in shop.diary() if "handler" in line)
    numbered = [f"{kind} {number}" for kind in ("new", "any") for number in range(5)]
    assert begun == {"held new": 2, "held any": 2, **dict.fromkeys(numbered, 1)}
    sent = Counter(line["name"] for line in shop.diary() if "handler" not in line)
    assert sent == {f"sent {name}": 1 for name in begun if "new" in name}
