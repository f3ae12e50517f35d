"""A Celery worker forwards to another broker, and receives from it, in processes beside its pool."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from kombu import Connection

from django_mq.api import publish
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.receiver_state import ReceiverState
from tests.services.processes import wait_until_gone
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import psutil

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site

pytestmark = pytest.mark.once
NUMBERS = [*range(20)]


def beside(worker: psutil.Process, command: str) -> psutil.Process | None:
    """Return the process of this command that a worker has beside its pool."""
    found = [each for each in worker.children() if command in each.cmdline()]
    return found[0] if found else None


def received(site: Site) -> list[int]:
    return sorted(int(bytes(row.body)) for row in site.rows(queue__name="orders"))


def test_what_a_celery_worker_forwards_comes_back_through_a_receiver(sites: Sites, rabbitmq_url: str) -> None:
    there = f"there.{uuid4().hex[:8]}"
    queues = {"out": {"bridge": "rabbit"}, "orders": {}}
    bridges = {"rabbit": {"url": rabbitmq_url, "declare": True, "routing_key": there}}
    receivers = {"in": {"bridge": "rabbit", "source": there, "queue": "orders", "workers": "celery"}}
    try:
        with sites("sqlite", SESSION_SECONDS=3, BRIDGES=bridges, QUEUES=queues, RECEIVERS=receivers) as site:
            with site.worker("-c", "1") as worker:
                first, *others = NUMBERS
                publish("out", first, using=site.alias)
                wait_until(lambda: received(site) == [first], site.story)
                forwarding = wait_until(lambda: beside(worker.process, "mq_worker"))
                assert beside(worker.process, "mq_receive")

                forwarding.kill()  # another one starts
                for number in others:
                    publish("out", number, using=site.alias)
                wait_until(lambda: received(site) == NUMBERS, site.story)

                started = worker.process.children(recursive=True)
                assert worker.stop() == 0
                wait_until_gone(started)
            assert BridgeLink.objects.using(site.alias).count() <= 1  # that of the process that was killed
            assert ReceiverState.objects.using(site.alias).get().state == "stopped"
    finally:
        with Connection(rabbitmq_url) as connection:
            connection.default_channel.queue_delete(there)
