"""Queues that belong to one connection, as AMQP has them, and queues that are found by their name alone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from amqp.exceptions import ResourceLocked
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.exceptions import ChannelError

from django_mq.integrations.celery import transient_queues
from django_mq.models import Queue as QueueRow
from django_mq.models import VolatileBinding
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.on("sqlite")

MINE = Queue("mine", exclusive=True)
#: What another connection may not do with an exclusive queue.
ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    "declare it": lambda channel: Queue("mine")(channel).declare(),
    "declare it exclusive": lambda channel: MINE(channel).declare(),
    "declare it auto-delete": lambda channel: Queue("mine", auto_delete=True)(channel).declare(),
    "ask whether it is there": lambda channel: channel.queue_declare("mine", passive=True),
    "bind it": lambda channel: channel.queue_bind("mine", "news", "sport"),
    "consume it": lambda channel: channel.basic_consume("mine"),
    "get from it": lambda channel: channel.basic_get("mine"),
    "purge it": lambda channel: channel.queue_purge("mine"),
    "delete it": lambda channel: channel.queue_delete("mine"),
}


@pytest.fixture
def other(url: str) -> Iterator[Connection]:
    """Another connection."""
    with Connection(url) as opened:
        yield opened


def inbox(connection: Connection, queue: Queue) -> list[Any]:
    """Consume a queue and return the list its bodies go to."""
    bodies: list[Any] = []
    callbacks = [lambda body, _: bodies.append(body)]
    Consumer(connection.default_channel, [queue], callbacks=callbacks, no_ack=True).consume()
    return bodies


def test_another_connection_is_refused(connection: Connection, other: Connection) -> None:
    bodies = inbox(connection, MINE)

    for what, attempt in ATTEMPTS.items():
        with pytest.raises(ResourceLocked, match="RESOURCE_LOCKED - queue 'mine'"):
            pytest.fail(f"could {what}: {attempt(other.default_channel)}")

    Producer(connection.default_channel).publish("still mine", routing_key="mine")
    connection.drain_events(timeout=PATIENCE_SECONDS)
    assert bodies == ["still mine"]


def test_its_own_connection_declares_it_again_from_any_channel(connection: Connection) -> None:
    MINE(connection.default_channel).declare()

    with connection.channel() as second:
        MINE(second).declare()
        assert second.queue_declare("mine", passive=True).queue == "mine"


def test_anybody_may_publish_to_it(connection: Connection, other: Connection) -> None:
    news = Exchange("news", "topic")
    bodies = inbox(connection, Queue("mine", news, routing_key="#", exclusive=True))

    Producer(other.default_channel).publish("by its name", routing_key="mine")
    Producer(other.default_channel, news).publish("through the exchange", routing_key="sport")
    while len(bodies) < 2:
        connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["by its name", "through the exchange"]


def test_it_ends_with_its_connection(connection: Connection, other: Connection, committed_database: str) -> None:
    inbox(connection, MINE)

    connection.close()
    shared_store(committed_database).deletions.delete_unused()

    with pytest.raises(ChannelError):
        other.default_channel.queue_declare("mine", passive=True)


@pytest.mark.parametrize("is_consumed", [True, False])
def test_with_messages_it_waits_for_the_next_owner(
    connection: Connection, other: Connection, committed_database: str, is_consumed: bool
) -> None:
    MINE(connection.default_channel).declare()
    if is_consumed:
        inbox(connection, MINE)
    Producer(other.default_channel).publish("unread", routing_key="mine")

    connection.close()
    shared_store(committed_database).deletions.delete_unused()
    bodies = inbox(other, MINE)
    other.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["unread"]


def test_it_is_free_when_its_owner_deletes_it(connection: Connection, other: Connection) -> None:
    MINE(connection.default_channel).declare()
    MINE(connection.default_channel).delete()

    MINE(other.default_channel).declare()


def test_a_connection_that_was_forgotten_owns_nothing(other: Connection, url: str) -> None:
    forgotten = Connection(url)
    MINE(forgotten.default_channel).declare()
    Producer(other.default_channel).publish("unread", routing_key="mine")
    transport = forgotten.transport
    transient_queues._living.pop(transport.transient.token)

    bodies = inbox(other, MINE)
    other.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["unread"]
    del transport
    forgotten.release()


def test_a_process_that_ended_owns_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    process.wait()
    owner = transient_queues.TransientQueues(nullcontext)
    place = owner.token.partition("/")[0]

    assert transient_queues.is_gone(f"{place}/{process.pid}/x")
    assert not transient_queues.is_gone(f"{place}/{os.getppid()}/x")
    assert not transient_queues.is_gone(f"elsewhere:/{process.pid}/x")
    assert not transient_queues.is_gone("of a later version")
    assert not transient_queues.is_gone(owner.token)


def test_a_queue_that_others_may_use_is_not_taken(connection: Connection, other: Connection) -> None:
    Queue("mine")(connection.default_channel).declare()

    with pytest.raises(ResourceLocked, match="it exists already, and is not exclusive"):
        MINE(other.default_channel).declare()


def test_who_did_not_look_for_a_minute_may_have_lost_it(
    connection: Connection,
    other: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(transient_queues, "BINDING_SECONDS", 0.0)
    bodies = inbox(connection, MINE)
    monkeypatch.undo()

    MINE(other.default_channel).declare()
    Producer(other.default_channel).publish("for the other", routing_key="mine")
    with caplog.at_level(logging.ERROR, "django_mq.celery"), pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.05)

    assert bodies == []
    assert "another connection took it" in caplog.text
    assert other.default_channel.basic_get("mine", no_ack=True).payload == "for the other"


def test_mailboxes_of_remote_control_belong_to_whoever_reads_them(
    connection: Connection, other: Connection, committed_database: str
) -> None:
    mailbox = Queue("celery@host.celery.pidbox", Exchange("celery.pidbox", "fanout"), exclusive=True)

    mailbox(connection.default_channel).declare()
    mailbox(other.default_channel).declare()

    assert VolatileBinding.objects.using(committed_database).count() == 1


def test_a_reply_by_the_name_of_a_queue_that_another_connection_reads(
    connection: Connection, other: Connection, committed_database: str
) -> None:
    """As results travel with ``rpc://``: the worker knows the queue's name and nothing else."""
    name = str(uuid4())
    bodies = inbox(connection, Queue(name, auto_delete=True))

    Producer(other.default_channel).publish("the answer", routing_key=name)
    connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["the answer"]
    assert not QueueRow.objects.using(committed_database).exists()


def test_a_volatile_queue_can_be_read_by_several_connections_and_purged(
    connection: Connection, other: Connection
) -> None:
    Queue("celeryev.x", auto_delete=True)(connection.default_channel).declare()
    for number in range(3):
        Producer(other.default_channel).publish(number, routing_key="celeryev.x")

    assert other.default_channel.basic_get("celeryev.x", no_ack=True).payload == 0
    assert other.default_channel.queue_purge("celeryev.x") == 2


@pytest.mark.parametrize("name", ["celeryev.short", "celeryev." + "x" * 230])
def test_a_long_name_fits_too(connection: Connection, other: Connection, name: str) -> None:
    queue = Queue(name, auto_delete=True)
    bodies = inbox(connection, queue)

    Producer(other.default_channel).publish("here", routing_key=name)
    connection.drain_events(timeout=PATIENCE_SECONDS)

    assert bodies == ["here"]
