"""The unique keys of a message on its page."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from django_mq.api import Unique, publish
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state import unique_keys
from django_mq.models import Message, UniqueKey
from django_mq.stores.registry import shared_store
from django_mq.unique.extension import EXTENSION
from tests.admin.conftest import list_of, page_of, run_action

if TYPE_CHECKING:
    from django.test import Client


@pytest.mark.django_db
def test_the_page_of_a_message_shows_its_unique_key(browse: Client) -> None:
    declare(shared_store("default"), "orders")
    table = [
        (Unique(key="<b>17</b>"), "&lt;b&gt;17&lt;/b&gt;, until it is finished"),
        (Unique(), "its arguments, until it is finished"),
        (Unique(key="b", until="begins"), "b, until it begins"),
        (Unique(key="c", until="window", seconds=60), "c, until "),
    ]
    for rule, text in table:
        message = Message.objects.get(message_id=publish("orders", {}, unique=rule))
        assert text in browse.get(page_of(message)).content.decode()


@pytest.mark.django_db
def test_the_list_says_which_keys_are_held_and_an_operator_frees_one(browse: Client) -> None:
    declare(shared_store("default"), "orders")
    publish("orders", {}, unique=Unique(key="<i>held</i>"))
    gone = publish("orders", {}, unique=Unique(key="gone"))
    Message.objects.get(message_id=gone).delete()

    shown = browse.get(list_of("uniquekey")).content.decode()
    assert "&lt;i&gt;held&lt;/i&gt;" in shown
    assert shown.count("<strong>held</strong>") == 1
    [found] = browse.get(list_of("uniquekey"), {"q": "held"}).context["cl"].result_list
    run_action(browse, "uniquekey", "free", [found], yes="yes")

    publish("orders", {}, unique=Unique(key="<i>held</i>"))
    assert Message.objects.count() == 2


@pytest.mark.django_db
def test_the_page_of_a_key_leads_to_its_message_and_frees_the_key(browse: Client) -> None:
    declare(shared_store("default"), "orders")
    message_id = publish("orders", {}, unique=Unique(key="17", until="window", seconds=60))
    page = browse.get(page_of(UniqueKey.objects.get())).content.decode()

    assert f"/django_mq/message/{message_id}/" in page or f"{message_id}</a>" in page
    [chosen] = re.findall(r'name="_selected_action" value="([^"]*)"', page)
    assert chosen == UniqueKey.objects.get().pk
    run_action(browse, "uniquekey", "free", [UniqueKey.objects.get()], yes="yes")
    assert not UniqueKey.objects.exists()


@pytest.mark.django_db
def test_a_key_that_a_message_holds_for_days_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_keys, "token_hex", lambda: "")
    declare(shared_store("default"), "orders")
    old = publish("orders", {}, unique=Unique(key="old"))
    publish("orders", {}, unique=Unique(key="new"))
    publish("orders", {}, unique=Unique(key="window", until="window", seconds=1e6))
    publish("orders", {}, delay=1e6, unique=Unique(key="later"))
    before = timezone.now() - timedelta(days=2)
    UniqueKey.objects.exclude(label="new").update(first_at=before)

    [found] = EXTENSION.findings[0]("default")
    assert (found.about, str(old) in found.sentence) == ("unique key old", True)
