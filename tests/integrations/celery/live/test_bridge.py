"""Tasks that are published in a transaction here, and run on unmodified Celery workers on RabbitMQ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from celery import Celery
from django.db import connections, transaction
from kombu import Connection

from django_mq.errors import BridgeMisused
from django_mq.models import History
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

pytestmark = pytest.mark.once


def test_a_task_commits_here_runs_on_rabbitmq_and_its_result_comes_back(sites: Sites, rabbitmq_url: str) -> None:
    queue = f"heavy.{uuid4().hex[:8]}"
    bridges = {"rabbit": {"url": rabbitmq_url, "declare": True}}
    try:
        with sites("postgresql", BRIDGES=bridges, QUEUES={queue: {"bridge": "rabbit"}}) as site:
            broker = backend = f"django-mq:///{site.alias}"
            remote = site.worker(
                "-c", "1", "-Q", queue, JOURNEY_BROKER=rabbitmq_url, JOURNEY_RESULTS="django-mq://"
            )
            with Celery("web", broker=broker, backend=backend, set_as_current=False) as app:
                with transaction.atomic(using=site.alias):
                    done = app.send_task("note", ["done"], queue=queue)
                    failed = app.send_task("failing", ["wrong"], queue=queue)
                with transaction.atomic(using=site.alias):
                    app.send_task("note", ["rolled back"], queue=queue)
                    transaction.set_rollback(True, using=site.alias)
                later = app.send_task("note", ["later"], queue=queue, countdown=3600)
                soon = app.send_task("note", ["soon"], queue=queue, eta=datetime.now(UTC) + timedelta(seconds=1))

                site.run("django", "mq_worker", "--queues", queue, "--until-empty")
                assert [row.correlation_id for row in site.rows()][:1] == [later.id]
                with remote:
                    site.run("django", "mq_worker", "--queues", queue, "--until-empty")
                    assert done.get(timeout=PATIENCE_SECONDS) is None
                    with pytest.raises(ValueError, match="wrong"):
                        failed.get(timeout=PATIENCE_SECONDS)
                    while soon.id in {row.correlation_id for row in site.rows()}:
                        site.run("django", "mq_worker", "--queues", queue, "--until-empty")
                    assert soon.get(timeout=PATIENCE_SECONDS) is None

                assert [line["name"] for line in site.diary() if line.get("name") != "wrong"] == ["done", "soon"]
                assert {row.outcome for row in site.finished(queue_name=queue)} == {History.Outcome.FORWARDED}

                with (
                    app.connection_for_read() as connection,
                    connection.channel() as channel,
                    pytest.raises(BridgeMisused, match="run on the workers of the other broker"),
                ):
                    channel.basic_consume(queue)
            connections[site.alias].close()
    finally:
        with Connection(rabbitmq_url) as connection:
            connection.default_channel.queue_delete(queue)
