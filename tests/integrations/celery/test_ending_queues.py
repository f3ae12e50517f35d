"""Queues that end with their last worker, by Kombu's ``auto_delete`` and ``exclusive``: they lose no task."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from amqp.exceptions import PreconditionFailed
from django.db import transaction
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import Broadcast

from django_mq.errors import ConfigurationError
from django_mq.integrations.celery.transient_queues import own_exchange
from django_mq.models import Queue as QueueRow
from django_mq.models import VolatileMessage
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from celery import Celery

    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")

LIVES = ({"auto_delete": True}, {"exclusive": True}, {"auto_delete": True, "durable": False})
NEWS = Exchange("news", "fanout")


@pytest.fixture(params=LIVES, ids=str)
def queue(request: pytest.FixtureRequest) -> Queue:
    """A queue for tasks, bound to an exchange."""
    return Queue("work", NEWS, **request.param)


def declare(connection: Connection, queue: Queue) -> None:
    queue(connection.default_channel).declare()


def one_of(connection: Connection, queue: Queue) -> Any:
    """Consume one message, which is left to its connection unsettled."""
    received: list[Any] = []
    Consumer(connection.default_channel, [queue], on_message=received.append, prefetch_count=1).consume()
    connection.drain_events(timeout=PATIENCE_SECONDS)
    return received[0]


@pytest.mark.parametrize("way", [{"routing_key": "work"}, {"exchange": "news"}], ids=str)
def test_a_task_is_part_of_the_transaction(
    connection: Connection, url: str, rows: Rows, queue: Queue, way: dict[str, str]
) -> None:
    declare(connection, queue)
    database = connection.transport.alias

    with Connection(url) as other:
        producer = Producer(other.default_channel)
        with suppress(ZeroDivisionError), transaction.atomic(using=database):
            producer.publish([], headers={"task": "note"}, **way)
            raise ZeroDivisionError
        assert not rows()
        producer.publish([], headers={"task": "note"}, **way)

    assert [row.queue.name for row in rows()] == ["work"]
    assert not VolatileMessage.objects.using(database).exists()


def test_what_a_worker_leaves_behind_is_for_the_next(
    connection: Connection, url: str, committed_database: str, queue: Queue
) -> None:
    declare(connection, queue)
    Producer(connection.default_channel).publish([], headers={"task": "note"}, routing_key="work")
    assert one_of(connection, queue).headers["task"] == "note"

    connection.close()
    with Connection(url) as next_one:
        message = one_of(next_one, queue)
        assert message.headers["task"] == "note"
        assert message.delivery_info["redelivered"]
        message.ack()
    # If the row was locked at that moment, the deletion is left to the next round of any worker.
    shared_store(committed_database).deletions.delete_unused()

    assert not QueueRow.objects.using(committed_database).filter(name="work").exists()


def test_a_queue_ends_with_a_worker_that_stops_before_its_first_heartbeat(
    connection: Connection, committed_database: str, queue: Queue
) -> None:
    with Consumer(connection.default_channel, [queue]):
        pass

    connection.close()
    shared_store(committed_database).deletions.delete_unused()

    assert not QueueRow.objects.using(committed_database).exists()


@pytest.mark.parametrize(
    ("queue", "expires_seconds"),
    [
        (Queue("work", auto_delete=True), None),
        (Queue("work", auto_delete=True, expires=90), 90.0),
        (Queue("", exclusive=True), 60.0),
        (Broadcast("news"), 60.0),
        (Broadcast("news", queue="mine"), None),
    ],
    ids=["auto-delete", "auto-delete that expires", "exclusive", "broadcast", "broadcast with a name"],
)
def test_a_queue_that_no_worker_can_declare_again_expires(
    connection: Connection, committed_database: str, queue: Queue, expires_seconds: float | None
) -> None:
    declare(connection, queue)

    row = QueueRow.objects.using(committed_database).get()
    assert (row.auto_delete, row.expires_seconds) == (True, expires_seconds)


def test_getting_a_message_is_a_use_of_a_queue_that_expires(
    connection: Connection, committed_database: str
) -> None:
    declare(connection, Queue("work", expires=90))

    connection.default_channel.basic_get("work")

    assert QueueRow.objects.using(committed_database).get().used_at is not None


def test_a_publisher_creates_it_again_as_it_was_declared(
    connection: Connection, committed_database: str, rows: Rows
) -> None:
    declare(connection, Queue("work", auto_delete=True))
    shared_store(committed_database).deletions.delete_queue("work")

    Producer(connection.default_channel).publish("text", routing_key="work")

    assert [row.queue.auto_delete for row in rows()] == [True]


def test_a_task_to_a_queue_of_replies_is_refused(connection: Connection, app: Celery) -> None:
    name = str(uuid4())
    declare(connection, Queue(name, auto_delete=True))

    with pytest.raises(PreconditionFailed, match="it is a transient queue"):
        app.send_task("note", queue=name)
    with pytest.raises(ConfigurationError, match="is transient, so a task in it could be lost"):
        Producer(connection.default_channel).publish([], routing_key=name, headers={"task": "note"})


def test_a_queue_named_by_an_id_that_has_tasks_stays_durable(
    connection: Connection, app: Celery, committed_database: str
) -> None:
    name = str(uuid4())
    app.send_task("note", queue=name)

    assert one_of(connection, Queue(name, auto_delete=True)).headers["task"] == "note"


def put_as_before(alias: str, queue: str) -> None:
    """Publish a task to a transient queue, as the previous version did."""
    store = shared_store(alias)
    store.volatile.bind(exchange=own_exchange(queue), exchange_type="direct", pattern="", queue=queue, seconds=60)
    task = {
        "body": "[[], {}, {}]",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"task": "note", "id": "old"},
        "properties": {
            "delivery_info": {"exchange": "", "routing_key": queue},
            "mq_message_id": str(uuid4()),
            "priority": 7,
        },
    }
    store.volatile.put([queue], json.dumps(task), seconds=60)


def test_a_worker_runs_the_tasks_that_the_previous_version_has_left(
    connection: Connection, committed_database: str, rows: Rows, queue: Queue
) -> None:
    put_as_before(committed_database, "work")

    message = one_of(connection, queue)

    assert (message.headers["id"], message.payload) == ("old", [[], {}, {}])
    assert [(row.queue.name, row.priority) for row in rows()] == [("work", 7)]
    assert not VolatileMessage.objects.using(committed_database).exists()


def test_a_task_to_a_queue_of_a_worker_of_the_previous_version_is_durable(
    app: Celery, committed_database: str, rows: Rows
) -> None:
    put_as_before(committed_database, "work")

    app.send_task("note", queue="work")

    assert [row.queue.name for row in rows()] == ["work"]
