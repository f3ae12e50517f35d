"""Browsing that goes on: what is there, and then what arrives."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.backends.signals import connection_created

from django_mq.api import browse, publish
from django_mq.delivery.follower import Follower
from django_mq.delivery.queues import declare
from django_mq.errors import ConfigurationError, UnknownQueue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings


def test_a_browser_that_follows_is_shown_each_message_once(committed_database: str, settings: Settings) -> None:
    # PostgreSQL notifies workers only: a browser looks by itself.
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SAFETY_POLL_SECONDS": 0.2}
    declare(shared_store(committed_database), "orders")
    publish("orders", 0)
    following = browse("orders", follow=True)

    first = next(following)

    def go_on() -> None:
        for number in range(1, 4):
            publish("orders", number)
        connections.close_all()  # the thread's own

    thread = threading.Thread(target=go_on)
    thread.start()
    shown = [first.body, *(next(following).body for _ in range(3))]
    thread.join()
    following.close()

    assert shown == [0, 1, 2, 3]


def test_following_may_end_by_itself(committed_database: str) -> None:
    declare(shared_store(committed_database), "orders")
    for number in range(3):
        publish("orders", number)

    assert [message.body for message in browse("orders", follow=True, limit=2)] == [0, 1]


def test_the_command_follows_a_queue(committed_database: str) -> None:
    declare(shared_store(committed_database), "orders")
    for number in range(3):
        publish("orders", number, using=committed_database)
    printed = StringIO()

    call_command("mq_browse", "orders", "--follow", "--limit=3", database=committed_database, stdout=printed)

    assert [line[-1] for line in printed.getvalue().splitlines()] == ["0", "1", "2"]


def test_a_queue_that_only_the_settings_declare_is_followed_from_its_first_message(
    committed_database: str, settings: Any
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "AUTO_DECLARE": False, "QUEUES": {"later": {}}}
    looks = threading.Event()
    following = browse("later", follow=True, using=committed_database)

    def first() -> object:
        connection_created.connect(lambda **_: looks.set(), weak=False, dispatch_uid="looks")
        return next(following).body

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(first)
        looks.wait()
        connection_created.disconnect(dispatch_uid="looks")
        publish("later", "first", using=committed_database)
        assert found.result() == "first"
        pool.submit(following.close).result()
        pool.submit(connections.close_all).result()


def test_a_queue_that_is_not_there_cannot_be_followed(committed_database: str) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        next(browse("nowhere", follow=True, using=committed_database))


def test_from_the_tail_only_what_arrives_is_shown(database: str) -> None:
    store = shared_store(database)
    declare(store, "orders")
    publish("orders", "there", using=database)
    follower = Follower(store, "orders", from_tail=True)

    assert list(follower.look()) == []
    publish("orders", "new", using=database)

    assert [json.loads(message.body) for message in follower.look()] == ["new"]


def test_the_tail_can_only_be_followed(database: str) -> None:
    with pytest.raises(ConfigurationError, match="from_tail is for follow=True"):
        next(browse("orders", from_tail=True, using=database))
