"""Publishing to a queue that keys share: where the key comes from, and what is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import OutgoingMessage, apublish, publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.fairness import FIRST
from django_mq.errors import BodyTooLarge, ConfigurationError, InvalidMessage
from django_mq.models import FairCounter, Message
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.base import Store

FAIR = {"fair_by": "tenant", "due_order": "keep_place"}


@dataclass
class Order:
    tenant: str


def test_the_key_is_the_header_or_else_the_field_of_the_body(store: Store, database: str) -> None:
    declare(store, "reports", FAIR)
    declare(store, "others")
    store.exchanges.bind(exchange="all", exchange_type="fanout", pattern="", queue="reports")
    given: list[tuple[dict[str, Any], Any]] = [
        ({"queue": "reports", "body": {"tenant": "a"}}, "a"),
        ({"queue": "reports", "body": {"tenant": "a"}, "headers": {"tenant": "b"}}, "b"),
        ({"queue": "reports", "body": {"tenant": 7}, "headers": {"n": 1}}, 7),
        ({"queue": "reports", "body": Order("c")}, "c"),
        ({"queue": "reports", "body": {"tenant": ["a"]}}, None),
        ({"queue": "reports", "body": "text"}, None),
        ({"queue": "reports", "body": b"\xff"}, None),
        ({"exchange": "all", "body": {"tenant": "d"}}, "d"),
        ({"queue": "others", "body": {"tenant": "a"}}, None),
    ]
    for one, _ in given:
        publish(**one, using=database)
    publish_many([OutgoingMessage(**one) for one, _ in given] + [("reports", {"tenant": "e"})], using=database)

    found = [row.headers.get("tenant") for row in Message.objects.using(database).order_by("id")]
    assert found == [key for _, key in given] * 2 + ["e"]


def test_a_field_is_the_key_of_what_async_code_publishes(committed_database: str) -> None:
    declare(shared_store(committed_database), "reports", FAIR)
    asyncio.run(apublish("reports", {"tenant": "a"}, using=committed_database))
    assert Message.objects.using(committed_database).get().headers == {"tenant": "a"}


def test_a_key_that_is_too_long_is_refused_before_it_is_written(store: Store, database: str) -> None:
    declare(store, "reports", FAIR)
    table: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"headers": {"tenant": "k" * 256}}, InvalidMessage, "256 characters"),
        ({"headers": {"tenant": "k" * 1_000_000}}, InvalidMessage, "1,000,000 characters"),
        ({"headers": {"tenant": "k" * 10_000_000}}, BodyTooLarge, "MAX_BODY_BYTES"),
        ({"body": {"tenant": "k" * 256}}, InvalidMessage, "at most 255"),
    ]
    for given, error, words in table:
        with pytest.raises(error, match=words):
            publish("reports", **{"body": 1} | given, using=database)
        with pytest.raises(error, match=words):
            publish_many([OutgoingMessage(queue="reports", **{"body": 1} | given)], using=database)

    assert not Message.objects.using(database).exists()
    publish("reports", 1, headers={"tenant": "k" * 255}, using=database)


def test_weights_that_are_no_weights_are_refused(store: Store) -> None:
    for weights in ("acme=0", "acme=-1", "acme=nan", "acme=1000", "acme"):
        with pytest.raises(ConfigurationError, match=r"fair_weights has the line 'acme"):
            declare(store, "reports", FAIR | {"fair_weights": weights})


#: Publishes in transactions, to keys in an order of its own. It ends with the first error.
PUBLISHER = """
import random, sys, django
django.setup()
from django.db import transaction
from django_mq.api import OutgoingMessage, publish, publish_many

seed, keys = sys.argv[1], sys.argv[2].split()
random.seed(seed)
for number in range(15):
    with transaction.atomic():
        for key in random.sample(keys, len(keys)):
            publish("reports", number, headers={"tenant": key})
        mixed = [random.choice(keys) for _ in range(60)]
        publish_many(OutgoingMessage(queue="reports", body=number, headers={"tenant": key}) for key in mixed)
        if random.random() < 0.2:
            transaction.set_rollback(True)
print("done")
"""


@pytest.mark.on("postgresql", "mariadb")
@pytest.mark.once
@pytest.mark.parametrize("keys", ["a", "a b c d e f g h"])
def test_publishers_in_several_processes_never_end_in_a_deadlock(
    committed_database: str, process_environment: Callable[[str], dict[str, str]], keys: str
) -> None:
    store = shared_store(committed_database)
    declare(store, "reports", FAIR)
    environment = process_environment(committed_database)

    def start(seed: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PUBLISHER, str(seed), keys]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    publishers = [start(seed) for seed in range(3)]
    printed = [each.communicate(timeout=PATIENCE_SECONDS)[0] for each in publishers]
    assert printed == ["done\n"] * 3

    places = list(Message.objects.using(committed_database).order_by("place").values_list("place", flat=True))
    assert len(places) > 1500
    assert FIRST <= places[0] <= places[-1] < 0
    # A transaction that publishes again may take a second counter of a key.
    assert FairCounter.objects.using(committed_database).count() <= 10 * (len(keys.split()) + 1)
