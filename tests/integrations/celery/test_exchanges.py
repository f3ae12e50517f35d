"""Exchanges: the rows say what they are, and what no queue takes is returned, passed on or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from amqp.exceptions import ChannelError, NotFound, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.transport.virtual.base import UndeliverableWarning

from django_mq.errors import ConfigurationError
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery import Celery

    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")

KINDS = {"direct": "a.b", "topic": "a.#", "fanout": ""}
LIVES = ({"auto_delete": True}, {"exclusive": True}, {})
TARGET, SOURCE = Exchange("target", "topic"), Exchange("source", "topic")


@pytest.fixture
def other(url: str) -> Iterator[Connection]:
    """A connection that has declared nothing, as a web process."""
    with Connection(url) as opened:
        yield opened


def declare(connection: Connection, *entities: Exchange | Queue) -> None:
    for entity in entities:
        entity(connection.default_channel).declare()


def send(connection: Connection, exchange: str, key: str, **options: Any) -> None:
    Producer(connection.default_channel).publish("text", exchange=exchange, routing_key=key, **options)


def queues_of(rows: Rows) -> list[str]:
    return sorted(row.queue.name for row in rows())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("life", LIVES, ids=str)
def test_a_publisher_that_declared_nothing_reaches_the_queues_of_an_exchange(
    connection: Connection, other: Connection, kind: str, life: dict[str, bool]
) -> None:
    bodies: list[Any] = []
    queue = Queue("mine", Exchange("news", kind), routing_key=KINDS[kind], **life)
    callbacks = [lambda body, _: bodies.append(body)]
    with Consumer(connection.default_channel, [queue], callbacks=callbacks, no_ack=True):
        send(other, "news", "a.b")
        connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["text"]


def test_a_queue_that_was_bound_a_moment_ago_gets_the_next_message(
    connection: Connection, other: Connection, rows: Rows
) -> None:
    declare(connection, Queue("first", TARGET, routing_key="#"))
    send(other, "target", "x")
    declare(connection, Queue("second", TARGET, routing_key="#"))

    send(other, "target", "x")

    assert queues_of(rows) == ["first", "first", "second"]


NOT_DECLARED: dict[str, Callable[[Any], Any]] = {
    "publish": lambda channel: Producer(channel).publish(1, exchange="nowhere", routing_key="nowhere"),
    "bind a queue": lambda channel: channel.queue_bind("things", "nowhere", "x"),
    "bind it": lambda channel: TARGET(channel).bind_to("nowhere", "x"),
    "bind to it": lambda channel: channel.exchange_bind("nowhere", "target", "x"),
    "ask for it": lambda channel: Exchange("nowhere", passive=True)(channel).declare(),
}


@pytest.mark.parametrize("what", NOT_DECLARED)
def test_an_exchange_that_nobody_declared_is_not_found(connection: Connection, rows: Rows, what: str) -> None:
    declare(connection, TARGET, Queue("things"))

    with pytest.raises(NotFound, match="no exchange 'nowhere'") as caught:
        NOT_DECLARED[what](connection.default_channel)

    assert caught.value.code == 404
    assert not rows()


def test_an_exchange_is_there_for_others_until_it_is_deleted(connection: Connection, other: Connection) -> None:
    declare(connection, TARGET)
    send(other, "target", "no queue takes it")
    TARGET(connection.default_channel).delete()

    for each in (connection, other):
        with pytest.raises(NotFound):
            send(each, "target", "x")


def test_the_default_exchange_and_its_like_need_no_declaration(connection: Connection, rows: Rows) -> None:
    send(connection, "", "things")
    connection.default_channel.queue_bind("things", "amq.topic", "a.*")
    send(connection, "amq.topic", "a.b")
    send(connection, "amq.fanout", "missing")

    assert queues_of(rows) == ["things", "things"]


def test_a_publisher_may_come_before_the_workers_of_its_own_queues(app: Celery, rows: Rows) -> None:
    app.send_task("note", exchange="celery", routing_key="celery")
    app.send_task("note", queue="celery")
    app.control.cancel_consumer("things")

    assert queues_of(rows) == ["celery", "celery"]


def test_another_type_is_refused(connection: Connection, other: Connection) -> None:
    declare(connection, TARGET)

    with pytest.raises(PreconditionFailed, match="'type' for exchange 'target': received 'fanout' but current is"):
        declare(other, Exchange("target", "fanout"))
    with pytest.raises(ConfigurationError, match="has the type 'x-random'; use one of direct, topic"):
        declare(other, Exchange("odd", "x-random"))


def test_a_message_takes_every_way_through_exchanges_once(
    connection: Connection, other: Connection, rows: Rows
) -> None:
    declare(connection, SOURCE, Queue("a", TARGET, routing_key="#"), Queue("b", SOURCE, routing_key="x.#"))
    bound = TARGET(connection.default_channel)
    bound.bind_to("source", "x.*")
    bound.bind_to("source", "#")
    SOURCE(connection.default_channel).bind_to("target", "#")

    send(other, "source", "x.y")
    assert queues_of(rows) == ["a", "b"]

    bound.unbind_from("source", "x.*")
    bound.unbind_from("source", "#")
    send(other, "source", "x.y")
    assert queues_of(rows) == ["a", "b", "b"]


def test_an_alternate_exchange_takes_what_matches_no_binding(
    connection: Connection, other: Connection, rows: Rows
) -> None:
    rest = Queue("rest", Exchange("unrouted", "fanout"))
    main = Exchange("main", "direct", arguments={"alternate-exchange": "unrouted"})
    declare(connection, rest, Queue("orders", main, routing_key="order"))

    send(other, "main", "order", mandatory=True)
    send(other, "main", "bill", mandatory=True)

    assert queues_of(rows) == ["orders", "rest"]
    with pytest.raises(PreconditionFailed, match="'alternate-exchange' for exchange 'main'"):
        declare(other, Exchange("main", "direct"))


@pytest.mark.parametrize("exchange", ["target", ""])
def test_a_mandatory_message_that_no_queue_takes_is_returned(
    connection: Connection, rows: Rows, exchange: str
) -> None:
    declare(connection, Queue("things", TARGET, routing_key="a.#"))
    returned: list[Any] = []
    channel = connection.channel()
    caller = Producer(channel, on_return=lambda *args: returned.append(args))

    caller.publish({"n": 1}, exchange="target", routing_key="a.b", mandatory=True)
    assert not returned
    caller.publish({"n": 2}, exchange=exchange, routing_key="missing", mandatory=True)

    [(error, *about, message)] = returned
    assert (error.reply_code, about) == (312, [exchange, "missing"])
    assert message.payload == {"n": 2}
    with pytest.raises(ChannelError, match="NO_ROUTE"):
        send(connection, exchange, "missing", mandatory=True)
    assert queues_of(rows) == ["things"]


def test_immediate_is_refused(connection: Connection) -> None:
    with pytest.raises(ConfigurationError, match="immediate is not supported"):
        send(connection, "", "things", immediate=True)


@pytest.mark.parametrize("exchange", ["target", "nowhere"])
def test_the_dead_letter_queue_of_kombu_takes_what_no_queue_takes(
    connection: Connection, url: str, rows: Rows, exchange: str
) -> None:
    declare(connection, Queue("things", TARGET, routing_key="a.#"))
    with Connection(url, transport_options={"deadletter_queue": "unrouted"}) as careful:
        send(careful, "target", "a.b", mandatory=True)
        with pytest.warns(UndeliverableWarning, match=exchange):
            send(careful, exchange, "missing", mandatory=True)

    assert queues_of(rows) == ["things", "unrouted"]
