"""Transient queues: commands, replies and events, which are no rows of the hot table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.app.task import Context
from django.db import transaction
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.exceptions import ChannelError

from django_mq.errors import InvalidMessage
from django_mq.models import Queue as QueueRow
from django_mq.models import VolatileBinding, VolatileMessage
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")

COMMANDS = Exchange("commands", "fanout", durable=False)
EVENTS = Exchange("events", "topic")


def inbox(connection: Connection, queue: Queue) -> list[Any]:
    """Consume a queue and return the list its bodies go to."""
    bodies: list[Any] = []
    Consumer(
        connection.default_channel, [queue], callbacks=[lambda body, _: bodies.append(body)], no_ack=True
    ).consume()
    return bodies


def ear(name: str, exchange: Exchange, key: str = "") -> Queue:
    """A queue as event receivers declare it."""
    return Queue(f"celeryev.{name}", exchange, routing_key=key, auto_delete=True, durable=False)


def test_a_command_reaches_every_listener_once(connection: Connection, url: str, rows: Rows) -> None:
    with Connection(url) as second:
        first_bodies, second_bodies = inbox(connection, ear("one", COMMANDS)), inbox(second, ear("two", COMMANDS))

        Producer(connection.default_channel, COMMANDS).publish({"method": "ping"})
        connection.drain_events(timeout=PATIENCE_SECONDS)
        second.drain_events(timeout=PATIENCE_SECONDS)

    assert first_bodies == second_bodies == [{"method": "ping"}]
    assert not rows()


@pytest.mark.parametrize("how", [{"serializer": "pickle"}, {"compression": "zlib"}, {"serializer": "json"}])
def test_a_body_arrives_as_it_was_sent_binary_or_not(connection: Connection, how: dict[str, str]) -> None:
    """What packs tasks as bytes (pickle, msgpack) packs remote control and ``rpc://`` results, too."""
    bodies: list[Any] = []
    consumer = Consumer(
        connection.default_channel,
        [ear("one", COMMANDS)],
        callbacks=[lambda body, _: bodies.append(body)],
        accept=["json", "pickle"],
        no_ack=True,
    )
    sent = {"method": "ping", "text": "größer \udc80 \x00"}

    with consumer:
        Producer(connection.default_channel, COMMANDS).publish(sent, **how)
        connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == [sent]


@pytest.mark.parametrize("queue", ["celeryev.one", "durable"])
def test_a_text_that_has_no_bytes_is_refused(connection: Connection, queue: str) -> None:
    inbox(connection, ear("one", COMMANDS))
    channel = connection.default_channel
    message = channel.prepare_message("\ud800", content_type="text/plain", content_encoding="utf-8")

    with pytest.raises(InvalidMessage, match="UTF-8"):
        channel.basic_publish(message, exchange="", routing_key=queue)


def test_events_are_routed_by_topic(connection: Connection) -> None:
    tasks = inbox(connection, ear("tasks", EVENTS, "task.#"))

    for key in ("task.sent", "worker.online", "task.done.well"):
        Producer(connection.default_channel, EVENTS).publish(key, routing_key=key)
    for _ in range(2):
        connection.drain_events(timeout=PATIENCE_SECONDS)

    assert tasks == ["task.sent", "task.done.well"]


def test_events_are_delivered_one_by_one_and_wait_for_the_next_consumer(connection: Connection) -> None:
    queue, bodies = ear("tasks", EVENTS, "task.#"), []

    def take(count: int) -> None:
        consumer = Consumer(connection.default_channel, [queue], on_message=lambda m: bodies.append(m.payload))
        with consumer:
            for _ in range(count):
                connection.drain_events(timeout=PATIENCE_SECONDS)

    take_none = Consumer(connection.default_channel, [queue])
    take_none.declare()
    for number in range(4):
        Producer(connection.default_channel, EVENTS).publish(number, routing_key="task.sent")
    take(1)
    assert bodies == [0]
    take(3)

    assert bodies == [0, 1, 2, 3]


def test_a_reply_finds_a_queue_that_was_bound_a_moment_ago(connection: Connection, url: str) -> None:
    replies = Exchange("replies", "direct", durable=False)
    with Connection(url) as worker:
        answer = Producer(worker.default_channel, replies)
        inbox(connection, ear("first", replies, "first"))
        answer.publish("looks at the bindings", routing_key="first")

        bodies = inbox(connection, ear("second", replies, "second"))
        answer.publish("hello", routing_key="second")

    while not bodies:
        connection.drain_events(timeout=PATIENCE_SECONDS)
    assert bodies == ["hello"]


def test_a_binding_that_was_swept_away_is_made_again(connection: Connection, committed_database: str) -> None:
    """kombu#1063 #1362, celery#9237: once the binding was gone, a living worker answered no ping any more."""
    bodies = inbox(connection, ear("one", COMMANDS))
    VolatileBinding.objects.using(committed_database).all().delete()

    connection.transport.transient._renew_at = 0.0  # the time to renew has come
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.05)
    Producer(connection.default_channel, COMMANDS).publish("ping")
    connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["ping"]


def test_a_volatile_queue_is_no_queue_of_the_operators(connection: Connection, committed_database: str) -> None:
    inbox(connection, ear("one", COMMANDS))

    assert not QueueRow.objects.using(committed_database).exists()
    assert VolatileBinding.objects.using(committed_database).filter(exchange="commands").count() == 1


def test_a_queue_that_is_only_not_durable_keeps_its_messages(connection: Connection, rows: Rows) -> None:
    transient = Queue("transient", durable=False)

    Producer(connection.default_channel).publish("kept", routing_key="transient", declare=[transient])

    assert [row.type for row in rows()] == [""]


def test_what_is_addressed_to_one_queue_outlives_what_was_called_out(
    connection: Connection, committed_database: str
) -> None:
    inbox(connection, ear("one", COMMANDS))
    producer = Producer(connection.default_channel)
    producer.publish("addressed", routing_key="celeryev.one")
    producer.publish("called", exchange=COMMANDS)
    producer.publish("brief", routing_key="celeryev.one", expiration=5)

    messages = VolatileMessage.objects.using(committed_database).order_by("id")
    addressed, called, brief = [message.expires_at for message in messages]

    assert brief < called < addressed


def test_the_more_urgent_of_a_buffer_comes_first(connection: Connection) -> None:
    with connection.SimpleBuffer("buffer") as buffer:
        for body, priority in (("low", 1), ("high", 8), ("low too", 1)):
            buffer.put(body, priority=priority)

        assert [buffer.get(timeout=PATIENCE_SECONDS).payload for _ in range(3)] == ["high", "low", "low too"]


def test_a_deleted_queue_leaves_nothing(connection: Connection, committed_database: str) -> None:
    inbox(connection, ear("one", COMMANDS))
    Producer(connection.default_channel, COMMANDS).publish("unread")

    connection.default_channel.queue_delete("celeryev.one")
    connection.transport.transient._renew_at = 0.0  # the time to renew has come
    connection.transport.transient.renew()

    assert not VolatileBinding.objects.using(committed_database).exists()
    assert not VolatileMessage.objects.using(committed_database).exists()


def test_a_queue_with_messages_is_not_deleted_as_an_empty_one(connection: Connection) -> None:
    channel = connection.default_channel
    ear("one", COMMANDS)(channel).declare()
    Producer(channel, COMMANDS).publish("unread")

    assert channel.queue_delete("celeryev.one", if_empty=True) == 0
    assert channel.basic_get("celeryev.one", no_ack=True).payload == "unread"
    assert channel.queue_delete("celeryev.one", if_empty=True) == 0
    with pytest.raises(ChannelError):
        channel.queue_declare("celeryev.one", passive=True)


def test_a_message_that_is_requeued_or_not_settled_comes_again(connection: Connection, url: str) -> None:
    ear("one", COMMANDS)(connection.default_channel).declare()
    Producer(connection.default_channel, COMMANDS).publish("hello")
    with connection.channel() as channel:
        channel.basic_get("celeryev.one").reject(requeue=True)
        again = channel.basic_get("celeryev.one")

    last = connection.default_channel.basic_get("celeryev.one")
    last.ack()

    assert again.payload == last.payload == "hello"
    assert connection.default_channel.basic_get("celeryev.one") is None


def test_a_command_inside_a_transaction_neither_waits_nor_fails(
    app: Celery, connection: Connection, committed_database: str
) -> None:
    bodies = inbox(connection, ear("one", app.control.mailbox.exchange))

    with transaction.atomic(using=committed_database):
        app.send_task("note")  # SQLite's write lock is held from here on
        app.control.broadcast("ping")
    connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies[0]["method"] == "ping"


def test_asking_workers_when_there_are_none(app: Celery) -> None:
    assert app.control.ping(timeout=0.1) == []


def test_a_result_of_rpc_makes_no_durable_queue_if_its_caller_has_declared_none(
    connection: Connection, url: str, committed_database: str
) -> None:
    """Celery does not declare it in a pool process, where a task calls a task, nor for beat in a worker."""
    caller = str(uuid4())
    request = Context(reply_to=caller, correlation_id="the task")
    with Celery("answering", broker=url, backend="rpc://", set_as_current=False) as app:
        app.backend.store_result("the task", 5, "SUCCESS", request=request)

    assert not QueueRow.objects.using(committed_database).exists()
    bodies = inbox(connection, Queue(caller, auto_delete=True))
    connection.drain_events(timeout=PATIENCE_SECONDS)
    assert [body["result"] for body in bodies] == [5]


def test_a_reply_to_a_durable_queue_goes_there(connection: Connection, rows: Rows) -> None:
    name = str(uuid4())
    Queue(name).bind(connection.default_channel).declare()

    Producer(connection.default_channel).publish(5, routing_key=name, correlation_id="the call")

    assert [row.queue.name for row in rows()] == [name]


def test_an_unbound_queue_gets_nothing_more(connection: Connection) -> None:
    news = Exchange("news", "topic")
    queue = ear("ear", news, "*.sports")(connection.default_channel)
    received = inbox(connection, queue)

    queue.unbind_from(news, "*.sports")
    Producer(connection.default_channel, news).publish("text", routing_key="local.sports")

    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.2)
    assert not received


@pytest.mark.parametrize("expiration", ["soon", 10**30])
@pytest.mark.parametrize("exclusive", [True, False])
def test_an_expiration_that_no_message_can_have_is_refused(
    connection: Connection, expiration: Any, exclusive: bool
) -> None:
    channel = connection.default_channel
    Queue("ear", exclusive=exclusive)(channel).declare()
    message = channel.prepare_message("text", properties={"expiration": expiration})

    with pytest.raises(InvalidMessage, match="expiration"):
        channel.basic_publish(message, "", "ear")
