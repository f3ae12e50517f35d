"""A bridge to another database: each message is there once by its id, also if it is sent again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from django_mq.api import publish
from django_mq.bridges.checks import check_bridges
from django_mq.bridges.declared import bridge_named
from django_mq.bridges.links import open_link
from django_mq.bridges.outgoing import Outgoing
from django_mq.bridges.worker import BridgeWorker
from django_mq.delivery.queues import declare
from django_mq.errors import BridgeAway, ConfigurationError
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

HERE, THERE = "default", "postgresql"
pytestmark = pytest.mark.django_db(databases=[HERE, THERE], transaction=True)


@pytest.fixture
def site(settings: Settings) -> Iterator[None]:
    settings.DATABASE_ROUTERS = []
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "BRIDGES": {"site": {"url": f"django-mq:///{THERE}", "routing_key": "orders.in"}},
        "QUEUES": {"orders": {"bridge": "site"}, "orders.in": {}},
    }
    declare(shared_store(THERE), "orders.in")
    yield
    for alias in (HERE, THERE):
        connections[alias].close()


def there() -> list[Message]:
    return list(Message.objects.using(THERE).order_by("id"))


def test_what_is_forwarded_is_in_the_other_database_once(site: None) -> None:
    ids = [publish("orders", {"number": number}, headers={"tenant": "a"}, group_key="g") for number in range(20)]
    BridgeWorker(bridge_named("site"), ["orders"], using=HERE).run(until_empty=True)

    assert not Message.objects.using(HERE).exists()
    assert [each.message_id for each in there()] == ids
    assert [json.loads(bytes(each.body))["number"] for each in there()] == [*range(20)]
    assert {each.group_key for each in there()} == {"g"}
    again = Outgoing(b"1", {}, {"message_id": str(ids[0]), "content_type": "application/json"})
    link = open_link(bridge_named("site"), ["orders"])
    link.publish(again, "orders.in")
    assert [each.tag for each in link.answers(0)] == [1]
    link.close()
    assert len(there()) == 20


def test_what_the_other_database_does_not_take_is_not_confirmed(site: None, settings: Settings) -> None:
    link = open_link(bridge_named("site"), ["orders"])
    link.publish(Outgoing(b"1", {}, {"message_id": "7", "content_type": "application/json"}), "nowhere")
    with pytest.raises(BridgeAway, match="no queue 'nowhere'"):
        link.answers(0)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "BRIDGES": {"site": {"url": "django-mq:///nowhere"}}}
    with pytest.raises(ConfigurationError, match="'nowhere', which is not in DATABASES"):
        open_link(bridge_named("site"), ["orders"])


def test_a_circle_of_two_databases_is_noticed(site: None, settings: Settings) -> None:
    bridges = {"to": {"url": f"django-mq:///{THERE}"}, "back": {"url": f"django-mq:///{HERE}", "routing_key": "a"}}
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "BRIDGES": {"to": bridges["to"] | {"routing_key": "b"}, "back": bridges["back"]},
        "QUEUES": {"a": {"bridge": "to"}, "b": {"bridge": "back"}},
    }
    assert any("circle" in each.msg for each in check_bridges())
