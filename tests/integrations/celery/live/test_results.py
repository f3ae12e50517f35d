"""Results that come back over the broker itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from celery import Celery

from django_mq.models import Queue
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]


def test_results_of_rpc_come_back_and_leave_no_queue_of_their_own(site: Site) -> None:
    broker = f"django-mq:///{site.alias}"
    with site.worker("-c", "1", JOURNEY_RESULTS="rpc://"):
        with Celery("asking", broker=broker, backend="rpc://", set_as_current=False) as app:
            done, failed = app.send_task("note", ["done"]), app.send_task("failing", ["wrong"])

            assert done.get(timeout=PATIENCE_SECONDS) is None
            with pytest.raises(ValueError, match="wrong"):
                failed.get(timeout=PATIENCE_SECONDS)
            assert app.send_task("note", ["again"]).get(timeout=PATIENCE_SECONDS) is None
            # The app closes its pool, and leaves the connection that listens for results to the collector.
            app.backend.result_consumer.stop()

        # While the worker lives: a result may be here before the task's message is settled, and it ends by a kill.
        site.wait_until_settled()

    assert [queue.name for queue in Queue.objects.using(site.alias).all()] == ["celery"]


def test_remote_control_and_rpc_results_work_with_a_binary_serializer(site: Site) -> None:
    """Celery packs its commands with ``task_serializer``: pickle and msgpack make bytes of them."""
    binary = {"task_serializer": "pickle", "result_serializer": "pickle", "accept_content": ["json", "pickle"]}
    environment = {"JOURNEY_RESULTS": "rpc://", "JOURNEY_SERIALIZER": "pickle", "C_FORCE_ROOT": "1"}
    broker = f"django-mq:///{site.alias}"
    with (
        site.worker("-c", "1", **environment) as worker,
        Celery("asking", broker=broker, backend="rpc://", set_as_current=False) as app,
    ):
        app.conf.update(binary)
        assert app.control.ping([worker.name], timeout=PATIENCE_SECONDS, limit=1) == [
            {worker.name: {"ok": "pong"}}
        ]
        assert worker.ask("stats", app)["pool"]["max-concurrency"] == 1

        later = app.send_task("note", ["revoked"], countdown=3600)
        app.control.revoke(later.id)
        wait_until(lambda: not site.rows(), site.story)

        assert app.send_task("note", ["done"]).get(timeout=PATIENCE_SECONDS) is None
        app.backend.result_consumer.stop()
