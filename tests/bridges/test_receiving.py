"""Receivers take messages from RabbitMQ into queues: each once by its id, acknowledged after the commit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Group

from django_mq.api import Reject, consumer
from django_mq.bridges import reception
from django_mq.bridges.inward import find
from django_mq.delivery.consumer.handlers import forget
from django_mq.errors import ConfigurationError
from django_mq.models import DuplicateId
from django_mq.seams.findings import Level
from tests.bridges.sites import QUEUES, Site
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.bridges.conftest import OtherBroker

SQLITE = pytest.mark.django_db(databases=["default"], transaction=True)


@pytest.fixture
def site(settings: Settings, other_broker: OtherBroker) -> Site:
    return Site(settings, other_broker, "default")


@pytest.fixture
def handler() -> Iterator[None]:
    yield
    forget("orders")


def test_what_comes_is_written_once_by_its_id(
    settings: Settings, other_broker: OtherBroker, committed_database: str
) -> None:
    site = Site(settings, other_broker, committed_database)
    own, other = str(uuid4()), "invoice 4711"
    deaths = [{"queue": "first", "reason": "rejected", "count": 1}]
    site.send({"order": 1}, message_id=own, priority=200, correlation_id="c", expiration="60000", type="paid")
    site.send({"order": 2}, message_id=other, application_headers={"tenant": "a", "x-death": deaths})
    for _ in range(3):
        site.send({"order": 1}, message_id=own)
    site.receive(5)

    first, second = site.rows()
    assert (first.message_id, first.priority, first.correlation_id, first.type) == (UUID(own), 9, "c", "paid")
    assert first.expires_at is not None
    assert json.loads(bytes(first.body)) == {"order": 1}
    assert second.headers == {"tenant": "a", "x-death": deaths}
    assert second.priority == 4
    assert second.properties["message_id"] == other
    assert second.properties["delivery_info"] == {"exchange": "", "routing_key": site.source}
    shown = site.state()
    assert (shown.received, shown.duplicates, shown.kept, shown.state) == (2, 3, 0, "stopped")

    DuplicateId.objects.using(site.alias).update(published_at="2020-01-01T00:00Z")
    site.rows().delete()
    site.send({"order": 2}, message_id=other)
    site.receive(6)
    assert len(site.rows()) == 1  # the window is over


@SQLITE
def test_a_transactional_handler_and_the_id_commit_together(site: Site, handler: None) -> None:
    @consumer("orders", transactional=True)
    def handle(message: Any) -> None:
        Group.objects.create(name=message.body)
        if message.body == "twice" and Group.objects.exclude(name="twice").count() < 2:
            raise ValueError(message.body)
        if message.body == "never":
            raise Reject("not wanted")

    site.declare(direct=True)
    repeated = str(uuid4())
    for body in ("first", "twice", "never", "last"):
        site.send(body, message_id=repeated if body == "first" else str(uuid4()))
    site.send("first", message_id=repeated)
    site.receive(5)

    assert set(Group.objects.values_list("name", flat=True)) == {"first", "last"}
    failed, refused = site.rows()
    assert json.loads(bytes(failed.body)) == "twice"  # its queue goes on with it
    assert (failed.dead_reason, refused.dead_reason) == ("", "Reject: not wanted")
    shown = site.state()
    assert (shown.received, shown.duplicates, shown.kept) == (3, 1, 1)


@SQLITE
def test_a_direct_receiver_needs_a_transactional_handler(site: Site, handler: None) -> None:
    site.declare(direct=True)
    with pytest.raises(ConfigurationError, match="no handler"), site.running():
        pass
    consumer("orders")(print)
    with pytest.raises(ConfigurationError, match="transactional=True"), site.running():
        pass


@SQLITE
def test_one_process_at_a_time_has_a_receiver(site: Site) -> None:
    with site.running():
        wait_until(lambda: site.shows("receives"))
        holder = site.state().holder
        with site.running():
            site.send(1)
            wait_until(lambda: site.counted() == 1)
            assert site.state().holder == holder
    assert [each.level for each in find("default")] == [Level.PROBLEM]  # no process receives


@SQLITE
def test_what_another_consumer_holds_comes_before_the_rest(site: Site) -> None:
    for number in range(6):
        site.send(number)
    with site.holding(2) as other, site.running():
        wait_until(lambda: site.shows("away"))
        assert "Another consumer" in site.state().problem
        assert site.counted() == 0
        other.close()
        wait_until(lambda: site.counted() == 6)
    assert [json.loads(bytes(row.body)) for row in site.rows()] == list(range(6))


@SQLITE
def test_another_consumer_that_stays_keeps_a_receiver_only_for_a_while(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "OTHERS_SECONDS", 0.0)
    for number in range(3):
        site.send(number)
    with site.holding(1):
        with site.running():
            wait_until(lambda: site.counted() == 2)
        assert [json.loads(bytes(row.body)) for row in site.rows()] == [1, 2]


@SQLITE
@pytest.mark.parametrize(
    ("bridge", "words"),
    [
        ({"url": "amqp://guest:guest@127.0.0.1:1//"}, "Connection refused"),
        ({"url": "amqp://guest:other-secret@{place}"}, "ACCESS_REFUSED"),
        ({"url": "amqp://guest:guest@{place}no-such-vhost"}, "NOT_ALLOWED"),
        ({"url": lambda: {}["other-secret"]}, "has raised KeyError"),
    ],
    ids=["away", "wrong password", "wrong vhost", "a function that fails"],
)
def test_a_broker_that_cannot_be_used_is_shown(site: Site, bridge: dict[str, Any], words: str) -> None:
    place, url = site.broker.url.rpartition("@")[2], bridge["url"]
    site.declare(bridge={"url": url if callable(url) else url.format(place=place)})
    with site.running():
        wait_until(lambda: site.shows("away"))
        problem = site.state().problem
        [finding] = find("default")
    assert words in problem
    assert "other-secret" not in problem
    assert finding.level is Level.PROBLEM


@SQLITE
def test_a_queue_with_other_arguments_or_none_is_shown(site: Site) -> None:
    for options, words in (
        ({"declare": True, "arguments": {"x-max-length": 5}}, "PRECONDITION_FAILED"),
        ({"source": "no.such.queue"}, "NOT_FOUND"),
    ):
        site.declare(**options)
        with site.running():
            wait_until(lambda: site.shows("away"))
            assert words in site.state().problem
    site.declare()
    site.send(1)
    site.receive(1)  # mended


@SQLITE
def test_what_a_full_queue_refuses_waits_in_the_other_broker(site: Site) -> None:
    site.settings.DJANGO_MQ["QUEUES"] = QUEUES | {"orders": {"max_messages": 2}}
    for number in range(3):
        site.send(number)
    with site.running():
        wait_until(lambda: site.shows("blocked"))
        assert [finding.level for finding in find("default")] == [Level.PROBLEM]
        assert site.rows().count() == 2
        site.rows().delete()
        wait_until(lambda: site.counted() == 3)
        wait_until(lambda: site.shows("receives"))
    assert site.broker.depth(site.source) == 0
