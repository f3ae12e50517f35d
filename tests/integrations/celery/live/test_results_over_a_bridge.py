"""Groups, chords and batches of tasks that run on workers on RabbitMQ end in the database of the publisher."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import ChordError
from django.db import connections, transaction
from kombu import Connection

from django_mq.api import batch
from django_mq.batches.models import MessageBatch
from django_mq.results import waiting
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site

pytestmark = pytest.mark.once
MEMBERS = 10


class Bridged:
    """A site whose queue goes to RabbitMQ, with a worker there, and one here that forwards."""

    def __init__(self, site: Site, app: Celery, queue: str) -> None:
        self.site, self.app, self.queue = site, app, queue

    def task(self, name: str, *args: Any, **options: Any) -> Any:
        """Return a signature that goes through the bridge."""
        return self.app.signature(name, args=args, queue=self.queue, **options)


@contextmanager
def bridged(sites: Sites, rabbitmq_url: str) -> Iterator[Bridged]:
    queue = f"heavy.{uuid4().hex[:8]}"
    bridges = {"rabbit": {"url": rabbitmq_url, "declare": True, "results": True}}
    try:
        with sites("postgresql", BRIDGES=bridges, QUEUES={queue: {"bridge": "rabbit"}, "ended": {}}) as site:
            url = f"django-mq:///{site.alias}"
            there = {"JOURNEY_BROKER": rabbitmq_url, "JOURNEY_RESULTS": "django-mq://"}
            with (
                Celery("web", broker=url, backend=url, set_as_current=False) as app,
                site.worker("-c", "1", name="here"),
                site.worker("-c", "2", "-Q", queue, name="there", **there),
            ):
                yield Bridged(site, app, queue)
            waiting.WAITERS.close()
            connections[site.alias].close()
    finally:
        with Connection(rabbitmq_url) as connection:
            connection.default_channel.queue_delete(queue)


def test_groups_chords_retries_and_batches_end_from_workers_on_rabbitmq(sites: Sites, rabbitmq_url: str) -> None:
    with bridged(sites, rabbitmq_url) as at:
        task, app, alias = at.task, at.app, at.site.alias
        numbers = range(MEMBERS)
        with transaction.atomic(using=alias):
            together = group([task("double", number) for number in numbers], app=app).apply_async()
            summed = chord([task("double", number) for number in numbers], app=app)(task("total", "sum"))
            failed = chord([task("double", 1), task("failing", "wrong")], app=app)(task("total", "never"))
            twice = chain(task("double", 1), task("double"), app=app).apply_async()
            retried = task("stubborn", "retried", 0.1).apply_async()
        with transaction.atomic(using=alias), batch("there", on_complete=("ended", {"all": True}), using=alias):
            for name, args in (("double", (1,)), ("stubborn", ("member", 0)), ("failing", ("member",))):
                task(name, *args).apply_async(ignore_result=name == "double")

        assert together.get(timeout=PATIENCE_SECONDS) == [2 * number for number in numbers]
        assert summed.get(timeout=PATIENCE_SECONDS) == 2 * sum(numbers)
        wait_until(failed.ready, at.site.story)
        assert isinstance(failed.result, ChordError)
        with pytest.raises(ValueError, match="wrong"):
            failed.get(timeout=PATIENCE_SECONDS)
        assert twice.get(timeout=PATIENCE_SECONDS) == 4
        assert retried.get(timeout=PATIENCE_SECONDS) is None
        assert len(at.site.diary(name="retried")) == 3

        found = MessageBatch.objects.using(alias)
        wait_until(found.exclude(complete_at=None).exists, at.site.story)
        assert (found.get().state, found.get().counts) == ("failed", (0, 2, 1, 0))
        assert len(at.site.diary(name="member")) == 4
        assert len(at.site.rows(queue__name="ended")) == 1
