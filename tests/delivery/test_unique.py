"""Publishing unique messages: what the publisher gets, what is refused, and a race of killed publishers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq.api import OutgoingMessage, Unique, apublish, debounce, publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.errors import DuplicateMessage, InvalidMessage
from django_mq.models import Message, UniqueKey
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

DROP = Unique(arguments=("customer",), second="drop")


def test_the_publisher_gets_the_id_of_the_first_message(database: str, orders: str) -> None:
    first = publish(orders, {"customer": 17, "by": "ann"}, unique=DROP, using=database)

    assert publish(orders, {"by": "ben", "customer": 17}, unique=DROP, using=database) == first
    with transaction.atomic(using=database):
        assert publish(orders, {"customer": 17}, unique=DROP, using=database) == first
    many = [OutgoingMessage(queue=orders, body={"customer": number}, unique=DROP) for number in (18, 17, 18)]
    other, same, again = publish_many(many, using=database)
    assert (same, again) == (first, other)
    with pytest.raises(DuplicateMessage, match=str(first)):
        publish(orders, {"customer": 17}, unique=Unique(arguments=("customer",)), using=database)
    assert [row.message_id for row in Message.objects.using(database).order_by("id")] == [first, other]


def test_publishing_from_async_code_drops_the_second_message(committed_database: str) -> None:
    declare(shared_store(committed_database), "orders")

    async def twice() -> list[Any]:
        return [await apublish("orders", {"customer": 1}, unique=DROP, using=committed_database) for _ in "ab"]

    first, second = asyncio.run(twice())
    assert first == second


def test_what_cannot_be_unique_is_refused_before_it_is_written(database: str, orders: str) -> None:
    table: list[tuple[Any, dict[str, Any], str]] = [
        ("customer", {}, "give a Unique"),
        (Unique(until="never"), {}, "until"),
        (Unique(second="ignore"), {}, "second"),
        (Unique(key=""), {}, "not empty"),
        (Unique(until="window", seconds=0), {}, "more than 0"),
        (Unique(until="window", seconds=float("nan")), {}, "more than 0"),
        (Unique(until="window"), {}, "belong together"),
        (Unique(wait_seconds=0), {}, "wait_seconds"),
        (debounce(0, at_most_seconds=9), {}, "more than 0"),
        (Unique(key="k" * 10_000_000), {}, "255"),
        (Unique(key="a\x00"), {}, "null character"),
        (Unique(arguments=("order",)), {}, "'order'"),
        (Unique(arguments=("order",)), {"body": b"\xff"}, "no JSON object"),
        (Unique(within="type"), {}, "needs a type"),
        (debounce(5, at_most_seconds=9), {"delay": 5}, "no delay"),
        (debounce(5, at_most_seconds=2), {}, "more than"),
    ]
    for rule, options, words in table:
        with pytest.raises(InvalidMessage, match=words):
            publish(orders, **({"body": {}} | options), unique=rule, using=database)
    with pytest.raises(InvalidMessage, match="exchange"):
        publish(exchange="all", body={}, unique=DROP, using=database)
    assert not UniqueKey.objects.using(database).exists()


#: Publishes with two keys in any order, rolls back now and then, and is killed in a transaction if it shall.
PUBLISHER = """
import os, random, signal, sys
import django
django.setup()
from django.db import DatabaseError, transaction
from django_mq.api import Unique, debounce, publish
from django_mq.errors import MQError

seed, dies_in = sys.argv[1], int(sys.argv[2])
random.seed(seed)
rules = [
    lambda key: Unique(key=key, second="drop", wait_seconds=0.5),
    lambda key: Unique(key=key, second="replace", replaces=("body", "time"), wait_seconds=0.5),
    lambda key: Unique(key=key, wait_seconds=2),
    lambda key: debounce(3600, at_most_seconds=7200, key=key, wait_seconds=0.5),
]
for number in range(20):
    try:
        with transaction.atomic():
            for key in random.sample("abc", 2):
                publish("orders", {"key": key}, unique=random.choice(rules)(key))
                if number >= dies_in >= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            if random.random() < 0.3:
                raise InterruptedError
    except (MQError, DatabaseError, InterruptedError):
        pass
print("done", flush=True)
"""


@pytest.mark.once
def test_publishers_that_race_and_are_killed_leave_one_message_of_each_key(
    committed_database: str, process_environment: Callable[[str], dict[str, str]]
) -> None:
    store = shared_store(committed_database)
    declare(store, "orders")
    environment = process_environment(committed_database)

    def start(seed: int, dies_in: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PUBLISHER, str(seed), str(dies_in)]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    publishers = [start(seed, dies_in) for seed, dies_in in enumerate((5, 12, -1, -1))]
    printed = [each.communicate(timeout=PATIENCE_SECONDS)[0] for each in publishers]
    assert printed == ["", "", "done\n", "done\n"]

    def keys() -> Counter[str]:
        bodies = Message.objects.using(committed_database).values_list("body", flat=True)
        return Counter(bytes(body).decode() for body in bodies)

    assert set(keys().values()) == {1}
    # No key is stuck: with the messages gone, each is free.
    Message.objects.using(committed_database).all().delete()
    for key in "abc":
        publish("orders", {"key": key}, unique=Unique(key=key), using=committed_database)
    assert sum(keys().values()) == 3
