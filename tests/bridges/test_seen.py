"""What operators see of bridges: the page in the admin, what is found, and the metrics. No broker is asked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from django_mq.api import pause, publish
from django_mq.bridges.findings import find
from django_mq.bridges.models import BridgeLink
from django_mq.integrations.prometheus.figures import read
from django_mq.models import Message
from tests.admin.conftest import browse, login_with, make, operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import Settings

__all__ = ["browse", "login_with", "make", "operator"]

pytestmark = pytest.mark.django_db
OTHERS = {"spare": {"url": "amqp://user:t0p-s3cret@spare//"}}


@pytest.fixture
def late(settings: Settings) -> None:
    """A queue with a bridge in which a message has waited for an hour."""
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "BRIDGES": {"rabbit": {"url": "amqp://user:t0p-s3cret@rabbit.example//"}, **OTHERS},
        "QUEUES": {"shipments": {"bridge": "rabbit"}},
    }
    publish("shipments", {})
    old = timezone.now() - timedelta(hours=1)
    Message.objects.update(published_at=old)


def connect(*states: str, **values: Any) -> None:
    """Let a worker have a connection in each of these states."""
    now = timezone.now()
    for state in states:
        given = {"worker": f"worker {state}", "since": now - timedelta(minutes=5), "seen_at": now, **values}
        BridgeLink.objects.create(bridge="rabbit", state=state, **given)


#: By the states of connections: what the page says, the level and the words of what is found.
SEEN = [
    ((), "no worker", ("problem", "No worker forwards its messages. 1 message waits")),
    (("away",), "cannot reach the broker", ("problem", "The broker cannot be reached. Boom 1 message waits")),
    (("away", "blocked"), "blocked by the broker", ("problem", "The broker takes no messages for now.")),
    (("away", "connected"), "forwards, late", ("notice", "It forwards, but messages wait for long. 1 message")),
]


@pytest.mark.parametrize(("states", "words", "finding"), SEEN, ids=[each[1] for each in SEEN])
def test_a_bridge_shows_what_keeps_its_messages(
    late: None, browse: Client, states: tuple[str, ...], words: str, finding: tuple[str, str]
) -> None:
    connect(*states, error="Boom", error_at=timezone.now(), per_second=2.0)

    [row] = browse.get(reverse("admin:django_mq_bridgelink_bridges")).context["rows"]
    [found] = find("default")

    assert (row["name"], row["status"], row["ready"], row["oldest"]) == ("rabbit", words, "1", "1 h")
    assert [name for name, _ in row["queues"]] == ["shipments"]
    assert [worker for worker, _, _ in row["workers"]] == [f"worker {state}" for state in states]
    assert row["per_minute"] == str(120 * len(states))
    assert (found.level.value, found.sentence[: len(finding[1])]) == finding


def test_what_an_operator_has_paused_is_not_late(late: None) -> None:
    connect("connected")
    pause("shipments")

    assert [*find("default")] == []


def test_the_page_has_addresses_without_credentials_and_queues_for_those_who_may_view_them(
    late: None, login_with: Callable[..., Client]
) -> None:
    connect("connected")
    text = (
        login_with("view_bridgelink")
        .get(reverse("admin:django_mq_bridgelink_bridges"))
        .content.decode()
        .replace("<wbr>", "")
    )

    assert "amqp://rabbit.example//" in text
    assert "The bridge spare to amqp://spare// has no queue." in text
    assert "s3cret" not in text
    assert "shipments" not in text


def test_the_page_takes_the_permission_to_view_it(late: None, login_with: Callable[..., Client]) -> None:
    assert login_with("view_queue").get(reverse("admin:django_mq_bridgelink_bridges")).status_code == 403


def test_metrics_say_of_each_bridge_with_queues_what_it_does(late: None) -> None:
    connect("connected", "away", per_second=1.5)
    connect("blocked", seen_at=timezone.now() - timedelta(hours=1))  # its worker is gone

    said = {
        (sample.name.removeprefix("django_mq_bridge_"), *sample.labels.values()): sample.value
        for metric in read("default")
        for sample in metric.samples
        if "bridge" in sample.labels
    }

    assert said.pop(("oldest_ready_seconds", "rabbit")) == pytest.approx(3600, abs=60)
    assert said == {
        ("forwards", "rabbit"): 1,
        ("connections", "rabbit", "connected"): 1,
        ("connections", "rabbit", "blocked"): 0,
        ("connections", "rabbit", "away"): 1,
        ("rate", "rabbit"): 3,
    }
