"""Members of a batch that are Celery tasks on another broker end with their runs there, not when they are sent."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.app.task import Context
from kombu import Connection

from django_mq.api import batch, batch_state, publish
from django_mq.batches.reconcile import reconcile
from django_mq.bridges.declared import bridge_named
from django_mq.bridges.worker import BridgeWorker
from django_mq.engine.decisions.batches import MISSING_FOR, RUNNING_FOR, BatchCounts
from django_mq.models import Message
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from django_mq.api import BatchHandle

pytestmark = pytest.mark.django_db(databases=["default"], transaction=True)
URL = "django-mq:///default"


@pytest.fixture
def app(settings: Settings) -> Iterator[Celery]:
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "BRIDGES": {"other": {"url": "memory://", "declare": True, "results": True}},
        "QUEUES": {"away": {"bridge": "other"}, "ended": {}},
    }
    before = clock.offset
    with Celery("web", broker=URL, backend=URL, set_as_current=False) as made:
        yield made
    clock.offset = before
    # The broker in memory lasts as long as the process.
    with Connection("memory://") as connection, connection.SimpleQueue("away") as queue:
        queue.clear()


def forwarded(app: Celery, *tasks: str) -> tuple[BatchHandle, list[Context]]:
    """Publish a batch of these tasks, and send it on; return it, and what the workers of the other broker get."""
    with batch("tasks", on_complete=("ended", {"done": True})) as made:
        for name in tasks:
            app.send_task(name, queue="away", ignore_result=True)
    BridgeWorker(bridge_named("other"), ["away"], using="default").run(until_empty=True)
    with Connection("memory://") as connection, connection.SimpleQueue("away") as queue:
        messages = [queue.get(block=False) for _ in tasks]
        for message in messages:
            message.ack()
    return made, [
        Context(message.headers, properties={}, is_eager=False, called_directly=False) for message in messages
    ]


def test_a_member_ends_with_its_run_on_the_other_broker(app: Celery) -> None:
    made, requests = forwarded(app, "good", "bad", "gone")
    assert batch_state(made.id).counts == BatchCounts(waiting=3)
    good, bad, gone = requests

    backend: Any = app.backend
    backend.mark_as_failure(bad.id, ValueError("wrong"), request=bad, store_result=False)
    backend.mark_as_revoked(gone.id, "terminated", request=gone, store_result=False)
    assert batch_state(made.id).state.value == "running"
    for _ in range(2):  # the worker was killed before the acknowledgement
        backend.mark_as_done(good.id, 3, good, store_result=False)

    assert batch_state(made.id).state.value == "failed"
    assert batch_state(made.id).counts == BatchCounts(succeeded=1, failed=1, cancelled=1)
    assert Message.objects.get().queue.name == "ended"


def test_a_run_without_a_result_has_failed_after_a_day(app: Celery) -> None:
    made, _ = forwarded(app, "lost")
    for by, changed in ((timedelta(), 0), (MISSING_FOR * 2, 0), (RUNNING_FOR, 1)):
        clock.offset += by
        assert reconcile(shared_store("default"), 100) == changed
    assert batch_state(made.id).counts == BatchCounts(failed=1)


def test_messages_that_are_no_tasks_and_bridges_without_results_end_when_they_are_sent(
    app: Celery, settings: Settings
) -> None:
    with batch("messages") as made:
        publish("away", {})
    BridgeWorker(bridge_named("other"), ["away"], using="default").run(until_empty=True)
    assert batch_state(made.id).state.value == "succeeded"
    settings.DJANGO_MQ["BRIDGES"]["other"].pop("results")
    settings.DJANGO_MQ = {**settings.DJANGO_MQ}
    made, _ = forwarded(app, "good")
    assert batch_state(made.id).state.value == "succeeded"
