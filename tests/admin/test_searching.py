"""Finding a message by what the lists show of it, and suggestions that each find one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from playwright.sync_api import expect

from django_mq.diagnosis import terms
from django_mq.models import Message
from tests.admin.browser import browsing, log_in
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django import Settings
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

ID = UUID("01934b2e-7d1c-7abc-8def-12340a1b2c3d")
OTHER = UUID("01934b2e-7d1c-7abc-8def-12340a1b2c3e")


def found(client: Client, model: str, term: str) -> list[Any]:
    listed = client.get(f"{list_of(model)}?{urlencode({'q': term})}").context["cl"].result_list
    return [row.message_id for row in listed]


@pytest.mark.parametrize("term", ["0a1b2c3d", "…0a1b2c3d", "0A1B2C3D", "12340a1b2c3d", " 0a1b2c3d "])
def test_the_end_of_an_id_that_lists_show_finds_its_rows(term: str, site: str, browse: Client, make: Make) -> None:
    for each in (ID, OTHER):
        make.message(message_id=each)
        make.history(message_id=each)
        make.attempt(message_id=each)

    assert [found(browse, model, term) for model in ("message", "history", "attempt")] == [[ID]] * 3


def test_a_correlation_id_may_look_like_the_end_of_an_id(site: str, browse: Client, make: Make) -> None:
    make.message(message_id=ID)
    make.message(message_id=OTHER, correlation_id="0a1b2c3d")
    make.history(message_id=OTHER, correlation_id="0a1b2c3d")

    assert sorted(found(browse, "message", "0a1b2c3d")) == [ID, OTHER]
    assert found(browse, "history", "0a1b2c3d") == [OTHER]


def test_ends_of_ids_are_looked_for_among_the_newest(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "HEADER_SAMPLE", 1)
    make.message(message_id=ID)
    make.message(message_id=OTHER)

    assert found(browse, "message", ID.hex[-8:]) == []
    assert found(browse, "message", str(ID)) == [ID]
    assert found(browse, "message", OTHER.hex[-8:]) == [OTHER]


def suggested(client: Client) -> list[str]:
    answer: list[str] = client.get(f"{list_of('message')}suggestions.json").json()["suggestions"]
    return answer


def test_each_suggestion_finds_the_message_that_it_was_made_of(site: str, browse: Client, make: Make) -> None:
    body = {"order": 17, "who": {"name": "Ann=b:c", "vip": True}, "lines": [{"sku": "x y"}, {"price": 1.5}]}
    headers = {"tenant": "acme", "retries": 3, "a=b": "left out", "nothing": None, "bad name": "left out"}
    make.message(message_id=ID, headers=headers, body=json.dumps(body).encode())
    make.message(message_id=OTHER, body=b"{}")

    terms_found = suggested(browse)

    assert terms_found == [
        *("name=Ann=b:c", "order=17", "price=1.5", "retries:3", "sku=x y", "tenant:acme", "vip=true"),
    ]
    assert {term: found(browse, "message", term) for term in terms_found} == {key: [ID] for key in terms_found}


@pytest.mark.django_db
def test_a_name_with_many_values_leaves_room_for_others(browse: Client, make: Make) -> None:
    for number in range(30):
        make.message(body=json.dumps({"order": number % 20, "user": 1, "kind": "k" * 200}).encode())

    terms_found = suggested(browse)

    assert len(terms_found) == 6
    assert terms_found[-1] == "user=1"
    assert {"order=0", "order=9"} & set(terms_found)


@pytest.mark.django_db
def test_nothing_hidden_is_suggested(browse: Client, make: Make, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["password"]}
    make.message(headers={"password": "hunter2"}, body=b'{"password": "hunter2", "user": 1}')

    assert suggested(browse) == ["user=1"]


@pytest.mark.parametrize("body", [b"\xff", b"[" * 10_000 + b"]" * 10_000, b"[" * 7_000, b'"text"', b"NaN", b"{"])
def test_no_body_spoils_the_suggestions(body: bytes, site: str, browse: Client, make: Make) -> None:
    make.message(body=b'{"user": 1}')
    broken = make.message(body=body)
    Message.objects.filter(pk=broken.pk).update(headers=["no", "object"])

    assert suggested(browse) == ["user=1"]


@pytest.mark.django_db
def test_who_may_not_view_messages_is_suggested_nothing(login_with: Callable[..., Client]) -> None:
    client = login_with("view_queue")

    assert client.get(f"{list_of('message')}suggestions.json").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_suggestions_are_offered_where_one_types(live_server: LiveServer, operator: User, make: Make) -> None:
    make.message(headers={"tenant": "<script>document.title = 'broken in'</script>"})
    make.message(headers={"tenant": "acme"})

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(list_of("message"))
        assert page.locator("datalist").count() == 0
        page.locator("#searchbar").focus()
        expect(page.locator("datalist#mq-suggestions option")).to_have_count(2)
        expect(page.locator("#searchbar")).to_have_attribute("list", "mq-suggestions")
        page.locator("#searchbar").fill("tenant:acme")
        page.locator("#searchbar").press("Enter")
        expect(page.locator("#result_list tbody tr")).to_have_count(1)
