"""Queues, exchanges and bindings as Kombu declares them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from kombu import Connection, Exchange, Producer, Queue

from django_mq.delivery.publisher import publish
from django_mq.errors import ConfigurationError, InvalidMessage, MalformedSelector
from django_mq.integrations.celery import transport
from django_mq.models import Binding, Message
from django_mq.models import Queue as QueueRow
from django_mq.stores import queue_records

if TYPE_CHECKING:
    from celery import Celery

    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")


def queues_of(rows: Rows) -> list[str]:
    """The queues that hold a message, sorted."""
    return sorted(row.queue.name for row in rows())


def declare(connection: Connection, *queues: Queue) -> None:
    for queue in queues:
        queue(connection.default_channel).declare()


def send(connection: Connection, exchange: Exchange, *keys: str) -> None:
    for key in keys:
        Producer(connection.default_channel, exchange).publish("text", routing_key=key)


def test_the_default_binding_of_a_queue_needs_no_row(
    connection: Connection, rows: Rows, committed_database: str
) -> None:
    exchange = Exchange("celery", "direct")
    declare(connection, Queue("celery", exchange, routing_key="celery"))

    send(connection, exchange, "celery")

    assert queues_of(rows) == ["celery"]
    assert not Binding.objects.using(committed_database).exists()


def test_another_queue_bound_with_the_same_key_leaves_a_queue_its_default_binding(
    connection: Connection, rows: Rows
) -> None:
    exchange = Exchange("celery", "direct")
    declare(connection, *(Queue(name, exchange, routing_key="celery") for name in ("celery", "ledger")))

    send(connection, exchange, "celery")

    assert queues_of(rows) == ["celery", "ledger"]


def test_a_direct_exchange_delivers_to_every_queue_bound_with_the_key(connection: Connection, rows: Rows) -> None:
    exchange = Exchange("orders", "direct")
    declare(
        connection,
        Queue("a", exchange, routing_key="new"),
        Queue("b", exchange, routing_key="new"),
        Queue("c", exchange, routing_key="old"),
    )

    send(connection, exchange, "new")

    assert queues_of(rows) == ["a", "b"]


def test_a_topic_exchange_delivers_by_pattern(connection: Connection, rows: Rows) -> None:
    exchange = Exchange("news", "topic")
    declare(
        connection,
        Queue("all", exchange, routing_key="#"),
        Queue("sports", exchange, routing_key="*.sports"),
        Queue("local", exchange, routing_key="local.#"),
    )

    send(connection, exchange, "local.sports", "world.politics")

    assert queues_of(rows) == ["all", "all", "local", "sports"]


def test_a_fanout_exchange_delivers_to_all(connection: Connection, rows: Rows) -> None:
    exchange = Exchange("everybody", "fanout")
    declare(connection, Queue("a", exchange), Queue("b", exchange))

    send(connection, exchange, "any key")

    assert queues_of(rows) == ["a", "b"]


def test_bindings_outlive_the_connection_and_serve_other_doors(
    connection: Connection, url: str, rows: Rows, committed_database: str
) -> None:
    exchange = Exchange("news", "topic")
    declare(connection, Queue("sports", exchange, routing_key="*.sports"))
    connection.close()

    with Connection(url) as another:
        exchange(another.default_channel).declare()
        send(another, exchange, "local.sports")
    publish(exchange="news", routing_key="world.sports", body=1)

    assert queues_of(rows) == ["sports", "sports"]


def test_an_unbound_queue_gets_nothing_more(connection: Connection, rows: Rows) -> None:
    exchange = Exchange("news", "topic")
    queue = Queue("sports", exchange, routing_key="*.sports")(connection.default_channel)
    queue.declare()

    queue.unbind_from(exchange, "*.sports")
    send(connection, exchange, "local.sports")

    assert not rows()


def test_a_message_that_nobody_is_bound_for_goes_nowhere(connection: Connection, rows: Rows) -> None:
    exchange = Exchange("news", "topic")(connection.default_channel)
    exchange.declare()

    send(connection, exchange, "local.sports")

    assert not rows()


def test_declaring_again_keeps_what_an_operator_changed(connection: Connection, committed_database: str) -> None:
    declare(connection, Queue("things"))
    QueueRow.objects.using(committed_database).update(max_attempts=3)

    declare(connection, Queue("things"))

    assert QueueRow.objects.using(committed_database).get().max_attempts == 3


def test_what_is_remembered_of_a_queue_grows_old(
    connection: Connection, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_records, "KNOWN_SECONDS", 0.0)
    declare(connection, Queue("things"))
    known: Any = connection.transport.declarations
    known.refresh(["things"])
    QueueRow.objects.using(committed_database).update(max_attempts=3)

    known.refresh(["things"])

    assert known.as_last_read("things").max_attempts == 3


def test_the_size_of_a_queue_counts_what_a_worker_could_be_given_now(
    connection: Connection, rows: Rows, committed_database: str
) -> None:
    declare(connection, Queue("things"))
    publish("things", 1)
    publish("things", 2, delay=3600)
    publish("things", 3, delay=7200)
    assert connection.default_channel.queue_declare("things", passive=True).message_count == 1

    due = Message.objects.using(committed_database).filter(body=b"2")
    due.update(deliver_at=timezone.now() - timedelta(seconds=60))

    assert connection.default_channel.queue_declare("things", passive=True).message_count == 2


def test_a_process_that_declares_a_queue_to_publish_does_not_count_its_whole_backlog(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = connection.default_channel
    assert channel.queue_declare("things").message_count == 0
    for number in range(3):
        Producer(channel).publish(number, routing_key="things")
    monkeypatch.setattr("django_mq.integrations.celery.transport.FEW_COUNTED", 2)

    assert channel.queue_declare("things").message_count == 2
    assert channel.queue_declare("things", passive=True).message_count == 3


def test_a_queue_with_a_single_active_consumer_goes_to_one_worker(
    connection: Connection, committed_database: str
) -> None:
    declare(connection, Queue("alone", queue_arguments={"x-single-active-consumer": True}), Queue("usual"))

    found = QueueRow.objects.using(committed_database)
    assert [found.get(name=name).grouping for name in ("alone", "usual")] == ["sole", "none"]


def test_limits_and_times_to_live_of_rabbitmq_start_a_queue_off(
    connection: Connection, committed_database: str
) -> None:
    declare(
        connection,
        Queue("ring", max_length=3, max_length_bytes=999, message_ttl=1.5),
        Queue("refusing", queue_arguments={"x-max-length": 3, "x-overflow": "reject-publish", "x-unknown": 1}),
    )

    ring, refusing = QueueRow.objects.using(committed_database).order_by("-name")
    assert (ring.max_messages, ring.max_bytes, ring.overflow, ring.max_ttl_seconds) == (3, 999, "ring", 1.5)
    assert (refusing.max_messages, refusing.overflow, refusing.max_ttl_seconds) == (3, "reject", None)


def test_a_queue_expires_as_kombu_says_and_a_declaration_is_a_use(
    connection: Connection, committed_database: str
) -> None:
    queue = Queue("brief", expires=90)
    declare(connection, queue)
    row = QueueRow.objects.using(committed_database).get()
    assert (row.expires_seconds, row.used_at) == (90.0, None)

    declare(connection, queue)

    row.refresh_from_db()
    assert row.used_at is not None


def test_dead_letter_arguments_of_rabbitmq_name_an_exchange(
    connection: Connection, committed_database: str
) -> None:
    dead = {"x-dead-letter-exchange": "failures", "x-dead-letter-routing-key": "key"}
    declare(
        connection,
        Queue("first", queue_arguments=dead),
        Queue(
            "second", queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second.dead"}
        ),
    )

    found = QueueRow.objects.using(committed_database)
    first, second = found.get(name="first"), found.get(name="second")
    assert (first.dead_letter_exchange, first.dead_letter_routing_key) == ("failures", "key")
    assert (second.dead_letter_exchange, second.dead_letter_routing_key) == ("amq.default", "second.dead")
    assert (first.dead_letter_queue, second.dead_letter_queue) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"x-dead-letter-exchange": 7}, "dead_letter_exchange is 7"),
        ({"x-expires": 0}, "expires_seconds is 0.0; use 1 to"),
        ({"x-max-length": 0}, "max_messages is 0"),
        ({"x-max-length": "3"}, "max_messages is '3'"),
        ({"x-max-length": 3, "x-overflow": "explode"}, "x-overflow is 'explode'"),
        ({"x-max-length": 3, "x-overflow": "reject-publish-dlx"}, "use one of drop-head, reject-publish"),
        ({"x-dead-letter-routing-key": "key"}, "dead_letter_routing_key needs dead_letter_exchange"),
        ({"x-message-ttl": "soon"}, "x-message-ttl is 'soon'"),
        ({"x-single-active-consumer": "no"}, "x-single-active-consumer is 'no'; use one of True, False"),
        ({"x-message-ttl": -1}, "max_ttl_seconds is -0.001; use 0 to"),
        ({"x-message-ttl": 10**400}, "max_ttl_seconds is 1000"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_are_refused(
    connection: Connection, committed_database: str, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        declare(connection, Queue("odd", queue_arguments=arguments))

    assert not QueueRow.objects.using(committed_database).exists()


@pytest.mark.parametrize(
    ("message_ttl", "sentence"),
    [
        (float("inf"), "max_ttl_seconds is inf"),
        (float("nan"), "max_ttl_seconds is nan"),
    ],
)
def test_a_time_to_live_that_cannot_be_is_refused(
    connection: Connection, committed_database: str, message_ttl: float, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        declare(connection, Queue("odd", message_ttl=message_ttl))

    assert not QueueRow.objects.using(committed_database).exists()


def test_a_name_that_is_too_long_is_refused(app: Celery, committed_database: str) -> None:
    with pytest.raises(InvalidMessage, match="The name of an exchange is 201 characters long; at most 200 fit"):
        app.send_task("note", queue="q" * 201)

    assert not QueueRow.objects.using(committed_database).exists()


def test_a_headers_exchange_delivers_to_the_queues_whose_arguments_match(
    connection: Connection, rows: Rows
) -> None:
    exchange = Exchange("regions", "headers")
    declare(
        connection,
        Queue("both", exchange, binding_arguments={"x-match": "all", "region": "eu", "vip": True}),
        Queue("either", exchange, binding_arguments={"x-match": "any", "region": "eu", "vip": True}),
        Queue("us", exchange, binding_arguments={"region": "us"}),
    )

    Producer(connection.default_channel, exchange).publish("text", headers={"region": "eu", "vip": False})

    assert queues_of(rows) == ["either"]


def test_a_binding_with_a_selector_takes_the_messages_that_it_matches(connection: Connection, rows: Rows) -> None:
    exchange = Exchange("orders", "topic")
    selector = {"x-selector": "JMSPriority > 6"}
    declare(
        connection,
        Queue("urgent", exchange, routing_key="order.#", binding_arguments=selector),
        Queue("all", exchange, routing_key="#"),
    )

    Producer(connection.default_channel, exchange).publish("text", routing_key="order.new", priority=9)
    Producer(connection.default_channel, exchange).publish("text", routing_key="order.new", priority=2)

    assert queues_of(rows) == ["all", "all", "urgent"]


@pytest.mark.parametrize(
    ("kind", "arguments", "problem"),
    [
        ("headers", {"x-match": "none"}, "x-match is 'none'"),
        ("headers", {"region": ["eu"]}, "'region' has the value"),
        ("direct", {"x-selector": "a ="}, "position"),
        ("direct", {"x-selector": 5}, "has to be a text"),
    ],
)
def test_binding_arguments_that_cannot_work_are_refused(
    connection: Connection, kind: str, arguments: dict[str, Any], problem: str
) -> None:
    queue = Queue("a", Exchange("some", kind), routing_key="k", binding_arguments=arguments)

    with pytest.raises((ConfigurationError, MalformedSelector), match=problem):
        declare(connection, queue)


def test_a_transient_queue_takes_no_condition_on_headers(connection: Connection) -> None:
    queue = Queue("celeryev.x", Exchange("some", "headers"), exclusive=True, binding_arguments={"region": "eu"})

    with pytest.raises(ConfigurationError, match="transient queue"):
        declare(connection, queue)


def test_a_deleted_exchange_leaves_its_queues_without_its_bindings(
    connection: Connection, committed_database: str
) -> None:
    exchange = Exchange("news", "topic")
    declare(
        connection, Queue("sports", exchange, routing_key="#"), Queue("celeryev.ear", exchange, auto_delete=True)
    )
    news = exchange(connection.default_channel)

    news.delete(if_unused=True)
    assert Binding.objects.using(committed_database).exists()

    news.delete()
    send(connection, exchange, "local.sports")

    assert QueueRow.objects.using(committed_database).get().name == "sports"
    assert not Binding.objects.using(committed_database).exists()
    assert connection.default_channel.basic_get("sports") is None
    assert connection.default_channel.basic_get("celeryev.ear") is None


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({"max_priority": 100}, True),
        ({"queue_arguments": {"x-max-priority": 10}}, True),
        ({"max_priority": 9}, False),
        ({}, False),
    ],
)
def test_priorities_that_count_as_the_highest_are_named_once_when_a_queue_is_declared(
    connection: Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    *,
    is_told: bool,
) -> None:
    monkeypatch.setattr(transport, "_noted", set())

    for _ in range(2):
        declare(connection, Queue("tens", **options))

    assert caplog.text.count("Use priorities from 0 to 9") == is_told
