"""Durable handlers in Celery's workers: each step once, and the rest after a wait, in whichever process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.api import emit, publish
from django_mq.durable.models import DurableStep
from django_mq.models import Message
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

pytestmark = pytest.mark.once
APP = "tests.integrations.celery.live.lasting"


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_steps_run_once_and_go_on_after_a_wait_and_the_death_of_a_worker(sites: Sites, pool: str) -> None:
    with sites("postgresql", SESSION_SECONDS=3, MAINTENANCE_SECONDS=0.5) as site:
        for queue in ("orders", "mails"):
            site.declare(queue)
        parked = Message.objects.using(site.alias).filter(state=Message.Status.PARKED)
        waits = DurableStep.objects.using(site.alias).filter(kind="wait")
        with site.worker("-P", pool, "-c", "2", JOURNEY_APPS=APP) as worker:
            publish("orders", "a", using=site.alias)
            publish("mails", "b", using=site.alias)
            wait_until(lambda: waits.count() == parked.count() == 2, site.story)
            worker.kill()
        with site.worker("-P", pool, "-c", "2", JOURNEY_APPS=APP) as worker:
            for key in "ab":
                emit("paid", key, f"paid {key}", using=site.alias)
            wait_until(lambda: not Message.objects.using(site.alias).exists(), site.story)
            assert worker.stop() == 0

        names = sorted(entry["name"] for entry in site.diary())
        assert names == ["charge a", "draft b", "end a", "end b", "send a paid a"]
        assert not DurableStep.objects.using(site.alias).exists()
