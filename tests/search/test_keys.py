"""Declared search keys are written with the message, find it for as long as its history, and go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.urls import reverse

from django_mq.admin.addresses import SEARCH
from django_mq.api import OutgoingMessage, Unique, debounce, publish, publish_many
from django_mq.checks import check_settings
from django_mq.delivery.batch import publish_batch
from django_mq.diagnosis.messages import search
from django_mq.errors import QueueFull
from django_mq.models import History, Message, SearchKey
from django_mq.search import pruning
from django_mq.stores.registry import shared_store
from tests.admin.conftest import Make, beside_default, list_of, page_of
from tests.conftest import hold_queues

if TYPE_CHECKING:
    from uuid import UUID

    from django.test import Client
    from pytest_django import Settings

TASK = {"lang": "py", "task": "shop.ship", "retries": 0, "timelimit": [None, None]}


@pytest.fixture(params=beside_default())
def site(request: pytest.FixtureRequest, settings: Settings) -> str:
    """A site whose queues live on each kind of database in turn; one of them declares search keys."""
    alias = hold_queues(settings, request.param)
    queues = {"orders": {"search": ["order", "tenant"]}, "plain": {}}
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": queues}
    return alias


def written(message_id: UUID | None = None) -> list[tuple[str, str]]:
    """Return the keys of a message, or all."""
    rows = SearchKey.objects.all() if message_id is None else SearchKey.objects.filter(message_id=message_id)
    return sorted(rows.values_list("name", "value"))


def test_keys_are_written_in_the_transaction_that_publishes(site: str) -> None:
    one = publish("orders", {"order": 4711}, headers={"tenant": "acme"}, using=site)
    publish("plain", {"order": 4712}, using=site)
    many = publish_many(
        [OutgoingMessage(queue="orders", body={"order": number}) for number in range(3)], using=site
    )
    task = publish("orders", [[1], {"order": 4713}, {}], headers=TASK, using=site)
    django_task = publish("orders", {"task": "shop.ship", "args": [], "kwargs": {"order": "o-1"}}, using=site)
    publish_batch(
        OutgoingMessage(queue="orders", content_type="application/json"),
        [b'{"order":8}', b'{"order":9}'],
        using=site,
    )
    with transaction.atomic(using=site):
        publish("orders", {"order": 6666}, using=site)
        transaction.set_rollback(True, using=site)

    assert written(one) == [("order", "4711"), ("tenant", "acme")]
    assert [written(each) for each in many] == [[("order", str(number))] for number in range(3)]
    assert (written(task), written(django_task)) == ([("order", "4713")], [("order", "o-1")])
    assert {"4712", "6666"}.isdisjoint(value for _, value in written())


def test_a_message_that_replaces_another_one_adds_its_keys(site: str) -> None:
    rule = debounce(60, at_most_seconds=300, key="sync")
    first = publish("orders", {"order": 1}, unique=rule, using=site)
    for order in (2, 2, 3):
        assert publish("orders", {"order": order}, unique=rule, using=site) == first
    publish("orders", {"order": 4}, unique=Unique(key="sync", second="drop"), using=site)

    assert written() == written(first) == [("order", "1"), ("order", "2"), ("order", "3")]


def test_a_message_that_is_not_written_has_no_keys(site: str, settings: Settings) -> None:
    full = {"max_messages": 1, "search": "order"}
    settings.DJANGO_MQ["QUEUES"] |= {"full": full, "drops": full | {"overflow": "drop"}}
    settings.DJANGO_MQ = dict(settings.DJANGO_MQ)
    for name in ("full", "drops"):
        publish(name, {"order": 1}, using=site)
    with pytest.raises(QueueFull):
        publish("full", {"order": 2}, using=site)
    publish("drops", {"order": 3}, using=site)

    assert written() == [("order", "1"), ("order", "1")]


def test_any_body_can_be_published_to_a_queue_with_keys(site: str) -> None:
    given: list[Any] = [
        None,
        [],
        "text",
        b"\xff",
        {"order": None},
        {"order": {"a": 1}},
        {"order": "\x00"},
        [[[]]],
        7,
    ]
    for body in given:
        publish("orders", body, using=site)

    assert (Message.objects.using(site).count(), written()) == (len(given), [])


def test_masked_and_encrypted_fields_are_no_keys(site: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["order"]}
    assert ["'order' is hidden by MASK" in str(error) for error in check_settings()] == [True]

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": "tests.search.test_keys.hide_order"}
    publish("orders", {"order": "secret"}, headers={"tenant": "acme"}, using=site)
    assert written() == [("tenant", "acme")]

    key = "KkzWWlDkJyHY3ysmQrYv6LRdVIKOQz4UCCZOWDOKTPg="
    middleware = ["django_mq.middleware.encryption.EncryptionMiddleware"]
    settings.DJANGO_MQ = {
        **settings.DJANGO_MQ,
        "MASK": [],
        "MIDDLEWARE": middleware,
        "ENCRYPTION_KEYS": {"a": key},
    }
    encrypted = publish("orders", {"order": "secret"}, headers={"tenant": "zoo"}, using=site)
    assert written(encrypted) == [("tenant", "zoo")]


def hide_order(value: Any, queue: str) -> Any:
    """Hide what the test hides, as a function of the setting MASK."""
    return value | {"order": "***"} if isinstance(value, dict) and "order" in value else value


def test_a_key_finds_its_message_while_it_waits_and_when_it_is_past(
    site: str, client: Client, admin_user: Any
) -> None:
    client.force_login(admin_user)
    make = Make()
    waiting = publish("orders", {"order": "o-4711"}, headers={"tenant": "acme"}, using=site)
    past = publish("orders", {"order": "o-4712"}, headers={"tenant": "acme"}, using=site)
    Message.objects.filter(message_id=past).delete()
    over = make.history(message_id=past)

    def found(words: str) -> list[tuple[str, str, list[str]]]:
        page = client.get(reverse(f"admin:{SEARCH}"), {"q": words})
        lines = page.context["lines"]
        return [(str(line.state), line.where, [shown for shown, _ in line.keys]) for line in lines]

    keys = {number: [f"order: o-{number}", "tenant: acme"] for number in (4711, 4712)}
    assert found("o-4711") == found("order:o-4711") == [("ready", "search key", keys[4711])]
    assert found("o-4712") == [("accepted", "search key", keys[4712])]
    assert sorted(found("tenant:acme")) == [
        ("accepted", "search key", keys[4712]),
        ("ready", "search key", keys[4711]),
    ]
    listed = client.get(list_of("message"), {"q": "order:o-4711"}).context["cl"].result_list
    assert [row.message_id for row in listed] == [waiting]
    for page in (client.get(page_of(over)), client.get(page_of(listed[0])), client.get(list_of("message"))):
        assert "tenant: acme" in page.content.decode()


def test_more_messages_with_a_key_than_a_page_come_with_the_next_one(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST", 2)
    ids = [publish("orders", {}, headers={"tenant": "a"}, using=site) for _ in range(5)]
    tables = {"live": Message.objects.using(site).select_related("queue")}

    look, seen = search.search("tenant:a", tables), []
    while True:
        seen += [hit.message_id for hit in look.hits if hit.where == "key"]
        if search.KEYS not in look.left:
            break
        look = search.search("tenant:a", tables, below={search.KEYS: look.left[search.KEYS]})

    assert seen == ids[::-1]


def test_keys_go_when_neither_a_message_nor_a_history_has_them(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "FEWEST", 2)
    ids = [publish("orders", {"order": number}, using=site) for number in range(8)]
    Message.objects.filter(message_id__in=ids[2:]).delete()
    Make().history(message_id=ids[7])
    store = shared_store(site)

    pruned = 0
    for number in range(2 * 8):
        monkeypatch.setattr(pruning.time, "time", lambda number=number: float(pruning.INTERVAL_SECONDS * number))
        pruned += pruning.prune(store, 1000)

    assert (pruned, written()) == (5, [("order", "0"), ("order", "1"), ("order", "7")])
    Message.objects.all().delete()
    History.objects.all().delete()
    for number in range(8):
        monkeypatch.setattr(pruning.time, "time", lambda number=number: float(pruning.INTERVAL_SECONDS * number))
        pruning.prune(store, 1000)
    assert written() == []
    assert pruning.prune(store, 1000) == 0
