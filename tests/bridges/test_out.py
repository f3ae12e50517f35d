"""Queues with a bridge are emptied into RabbitMQ, and nothing is lost, doubled without need, or out of order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from django_mq.api import OutgoingMessage, Unique, call, publish, publish_many
from django_mq.bridges.checks import check_bridges
from django_mq.bridges.declared import bridge_named
from django_mq.bridges.findings import find, show
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.queues import check_handled
from django_mq.bridges.worker import BridgeWorker
from django_mq.engine.states import State
from django_mq.errors import BridgeMisused, InvalidMessage, ResultElsewhere
from django_mq.models import History, Message, Queue
from django_mq.supervisor.monitor import BROKER_AWAY

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.bridges.conftest import OtherBroker


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    return committed_database


def bridged(settings: Settings, url: str, queue: str, **options: Any) -> None:
    """Give a queue a bridge."""
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "BRIDGES": {"rabbit": {"url": url, "connect_seconds": 2, **options}},
        "QUEUES": {queue: {"bridge": "rabbit"}},
    }


def run(queue: str, alias: str, bridge: str = "rabbit") -> None:
    """Empty a queue, as a worker with --until-empty does."""
    BridgeWorker(bridge_named(bridge), [queue], using=alias).run(until_empty=True)


def outcomes(alias: str) -> list[int]:
    return list(History.objects.using(alias).order_by("id").values_list("outcome", flat=True))


def test_messages_arrive_with_their_ids_headers_and_order(
    alias: str, settings: Settings, other_broker: OtherBroker
) -> None:
    queue = other_broker.queue()
    bridged(settings, other_broker.url, queue, in_flight=7)
    with transaction.atomic(using=alias):
        ids = [
            publish(queue, {"number": number}, headers={"tenant": "a"}, group_key="g", correlation_id="c")
            for number in range(20)
        ]

    run(queue, alias)

    got = other_broker.taken(queue)
    assert [json.loads(each.body)["number"] for each in got] == [*range(20)]
    assert [each.properties["message_id"] for each in got] == [str(each) for each in ids]
    [first, *_] = got
    assert first.headers == {"tenant": "a", "x-group-key": "g"}
    assert first.properties["correlation_id"] == "c"
    assert first.properties["content_type"] == "application/json"
    assert first.properties["delivery_mode"] == 2
    assert not Message.objects.using(alias).exists()
    assert outcomes(alias) == [History.Outcome.FORWARDED] * 20
    assert not BridgeLink.objects.using(alias).exists()
    connections[alias].close()


# The rules are the same on every store: SQLite is enough.


@pytest.fixture
def sqlite(settings: Settings, transactional_db: None) -> str:
    return "default"


def dead(alias: str) -> list[tuple[str, int]]:
    rows = Message.objects.using(alias).filter(state=State.DEAD).order_by("id")
    return list(rows.values_list("dead_reason", "attempts"))


def test_what_the_broker_returns_or_cannot_express_is_a_dead_letter(
    sqlite: str, settings: Settings, other_broker: OtherBroker
) -> None:
    queue = other_broker.queue()
    bridged(settings, other_broker.url, queue)
    publish(queue, {"number": 1}, headers={"large": 2**70})
    run(queue, sqlite)
    [(reason, attempts)] = dead(sqlite)
    assert reason.startswith("refused by the bridge rabbit: UnfitForBridge")
    assert attempts == 1

    nowhere = other_broker.name()
    bridged(settings, other_broker.url, nowhere)
    publish(nowhere, {})
    publish(nowhere, {})
    run(nowhere, sqlite)
    reasons = [reason for reason, _ in dead(sqlite) if "returned by the bridge rabbit: NO_ROUTE (312)" in reason]
    assert len(reasons) == 2


def test_what_a_full_queue_does_not_take_waits_in_order_and_is_not_charged(
    sqlite: str, settings: Settings, other_broker: OtherBroker
) -> None:
    full = other_broker.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    bridged(settings, other_broker.url, full, pause_seconds=0.1)
    settings.DJANGO_MQ["QUEUES"][full]["grouping"] = "shared"
    for number in range(6):
        publish(full, {"number": number}, group_key="g" if number % 2 else None)
    worker = BridgeWorker(bridge_named("rabbit"), [full], using=sqlite)
    worker.run(until_empty=True)

    assert "basic.nack" in worker.given_up
    waits = Message.objects.using(sqlite).order_by("id").values_list("state", "attempts")
    assert not dead(sqlite)
    assert {attempts for _, attempts in waits} == {0}
    arrived = numbers_taken(other_broker, full)
    assert 0 < len(arrived) < 6
    while Message.objects.using(sqlite).exists():
        run(full, sqlite)
        arrived += numbers_taken(other_broker, full)
    assert sorted(arrived) == [*range(6)]
    assert [number for number in arrived if number % 2] == [1, 3, 5]


def numbers_taken(broker: OtherBroker, queue: str) -> list[int]:
    return [json.loads(each.body)["number"] for each in broker.taken(queue)]


def test_a_message_that_nobody_needs_to_get_is_dropped_by_the_broker(
    sqlite: str, settings: Settings, other_broker: OtherBroker
) -> None:
    nowhere = other_broker.name()
    bridged(settings, other_broker.url, nowhere, mandatory=False)
    publish(nowhere, {})
    run(nowhere, sqlite)
    assert outcomes(sqlite) == [History.Outcome.FORWARDED]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": "amqp://guest:t0p-s3cret@127.0.0.1:1//"}, "Connection refused"),
        ({"url": "amqp://guest:t0p-s3cret@{host}//"}, "ACCESS_REFUSED"),
        ({"url": "amqp://guest:guest@{host}/no-such-vhost"}, "NOT_ALLOWED"),
        ({"url": "amqp://guest:guest@{host}//?token=t0p-s3cret"}, "TypeError"),
        ({"exchange": "no.such.exchange", "declare": True}, "NOT_FOUND"),
        ({"declare": True, "arguments": {"x-max-length": 7}}, "PRECONDITION_FAILED"),
        ({"ssl": True}, "SSL"),
        ({"url": lambda: "t0p-s3cret"}, "has no scheme"),
        ({"url": lambda: {}["t0p-s3cret"]}, "has raised KeyError"),
    ],
)
def test_while_the_broker_cannot_be_used_messages_wait_uncharged(
    sqlite: str,
    settings: Settings,
    other_broker: OtherBroker,
    change: dict[str, Any],
    words: str,
) -> None:
    queue, host = other_broker.queue(), other_broker.url.partition("@")[2].strip("/")
    url = change.get("url", other_broker.url)
    bridged(settings, **{"queue": queue, **change, "url": url if callable(url) else url.format(host=host)})
    publish(queue, {})
    worker = BridgeWorker(bridge_named("rabbit"), [queue], using=sqlite)
    worker.runtime.subscribe([queue])

    assert not worker.turn()
    [link] = BridgeLink.objects.all()
    worker.stop()
    worker.run()

    assert link.state == BridgeLink.LinkState.AWAY
    assert words in link.error
    assert Message.objects.get().attempts == 0
    assert Message.objects.get().state == State.READY
    assert "s3cret" not in link.error
    assert other_broker.depth(queue) == 0


def test_a_broker_without_confirms_gets_what_was_written(sqlite: str, settings: Settings) -> None:
    from kombu import Connection

    bridged(settings, "memory://", "plain", declare=True)
    publish("plain", {"number": 7}, headers={"tenant": "a"})

    run("plain", sqlite)

    with Connection("memory://") as connection, connection.SimpleQueue("plain") as queue:
        message = queue.get(block=False)
    assert (message.payload, message.headers) == ({"number": 7}, {"tenant": "a"})
    assert outcomes(sqlite) == [History.Outcome.FORWARDED]


def test_a_message_that_is_due_later_waits_here(
    sqlite: str, settings: Settings, other_broker: OtherBroker
) -> None:
    queue = other_broker.queue()
    bridged(settings, other_broker.url, queue)
    publish(queue, {}, delay=3600)
    run(queue, sqlite)
    assert other_broker.depth(queue) == 0
    assert Message.objects.get().state == State.SCHEDULED


def test_a_key_that_is_unique_until_the_end_is_refused_before_anything_is_written(
    sqlite: str, settings: Settings
) -> None:
    bridged(settings, "memory://", "unique")
    with transaction.atomic(), pytest.raises(InvalidMessage, match="does not tell when the message is finished"):
        publish("unique", {}, unique=Unique(key="a"))
    publish("unique", {}, unique=Unique(key="a", until="begins"))
    assert Message.objects.count() == 1


def test_a_result_that_never_comes_back_is_refused_before_anything_is_written(
    alias: str, settings: Settings
) -> None:
    bridged(settings, "memory://", "answered")
    for ask in (
        lambda: publish("answered", {}, keep_result_seconds=60, using=alias),
        lambda: publish_many([OutgoingMessage(queue="answered", body={}, keep_result_seconds=60)], using=alias),
        lambda: call("answered", {}, timeout_seconds=1, using=alias),
    ):
        with pytest.raises(ResultElsewhere, match="no result comes back"):
            ask()
    with transaction.atomic(using=alias):
        publish("answered", 1, using=alias)
        with pytest.raises(ResultElsewhere):
            publish("answered", 2, keep_result_seconds=60, using=alias)

    assert [bytes(row.body) for row in Message.objects.using(alias)] == [b"1"]


def test_findings_and_the_panel_name_what_waits_and_why(sqlite: str, settings: Settings) -> None:
    bridged(settings, "amqp://guest:t0p-s3cret@127.0.0.1:1//", "late")
    publish("late", {})
    assert [*find(sqlite)] == []  # it has waited for a moment only
    worker = BridgeWorker(bridge_named("rabbit"), ["late"], using=sqlite)
    worker.runtime.subscribe(["late"])
    worker.turn()

    [found] = find(sqlite)
    panel = show(None, Queue.objects.get(name="late"))  # type: ignore[arg-type] # it has no request
    worker.stop()
    worker.run()

    for words in (found.sentence, panel):
        assert "Connection refused" in words
        assert "1 message waits, the oldest for" in words
        assert "s3cret" not in words
    assert "amqp://127.0.0.1:1//" in panel


def test_circles_and_bridges_that_are_gone_are_found(sqlite: str, settings: Settings) -> None:
    bridged(settings, "django-mq:///default", "circle")
    assert [each.id for each in check_bridges()] == ["django_mq.E017"]
    publish("circle", {})
    [found] = find(sqlite)
    assert "circle: default circle > default circle" in found.sentence

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "BRIDGES": {"new": {"url": "memory://"}}, "QUEUES": {}}
    [found] = find(sqlite)
    assert "does not have it" in found.sentence


def test_a_worker_that_ends_when_all_is_empty_names_the_bridge_whose_broker_is_away(
    sqlite: str, settings: Settings
) -> None:
    bridged(settings, "amqp://guest:t0p-s3cret@127.0.0.1:1//", "waiting", pause_seconds=0.1)
    publish("waiting", {})

    with pytest.raises(CommandError, match="bridge 'rabbit' cannot be reached") as error:
        call_command("mq_worker", "--queues", "waiting", "--until-empty")

    assert error.value.returncode == BROKER_AWAY
    assert "Connection refused" in str(error.value)
    assert "s3cret" not in str(error.value)
    assert (Message.objects.get().state, Message.objects.get().attempts) == (State.READY, 0)


def test_mq_worker_forwards_and_refuses_a_queue_that_has_a_handler_too(
    sqlite: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    bridged(settings, "memory://", "forwarded", declare=True)
    publish("forwarded", {})
    call_command("mq_worker", "--queues", "forwarded", "--until-empty")
    assert "forwards forwarded of database 'default' through the bridge 'rabbit' to memory://" in (
        capsys.readouterr().out
    )
    assert outcomes(sqlite) == [History.Outcome.FORWARDED]
    with pytest.raises(BridgeMisused, match="has a handler"):
        check_handled(["forwarded"], {"forwarded": "rabbit"})
