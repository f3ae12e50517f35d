"""One search finds what waits, what has failed and what is past, and nothing that its reader may not see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from django_mq.admin.addresses import SEARCH
from django_mq.delivery.codecs import ENCRYPTED, marked_with_key
from django_mq.diagnosis.messages import search
from django_mq.models import Message
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make


def found(client: Client, words: str, **more: Any) -> list[tuple[Any, str]]:
    """Return what the search shows: the states, and what has the words."""
    page = client.get(reverse(f"admin:{SEARCH}"), {"q": words, **more})
    assert page.status_code == 200
    return [(str(line.state), line.where) for line in page.context["lines"]]


def test_words_are_found_wherever_they_stand(site: str, browse: Client, make: Make) -> None:
    make.message(type="shop.ship_order", body=b'{"order":4711,"name":"M\\u00fcller"}', headers={"tenant": "acme"})
    make.message(Message.Status.DEAD, dead_reason="No such customer", body=b"plain words")
    make.history(type="mail.send", headers={"tenant": "zoo", "ü": "ö"}, body=b'[[], {"order": "4712"}, {}]')
    make.attempt(error="TimeoutError", error_path="socket.TimeoutError", detail="after 30 s at gateway")
    make.message(correlation_id="reply-1")

    table = {
        "ship_order": [("ready", "type")],
        "SHIP_order": [("ready", "type")],
        "4711": [("ready", "body")],
        "order:4711": [("ready", "body")],
        "Müller": [("ready", "body")],
        "tenant:acme": [("ready", "header")],
        "tenant": [("accepted", "header"), ("ready", "header")],
        "no such": [("dead letter", "error")],
        "plain words": [("dead letter", "body")],
        "order:4712": [("accepted", "body")],
        "ü:ö": [("accepted", "header")],
        "gateway": [("TimeoutError", "error")],
        "socket.": [("TimeoutError", "error")],
        "reply-1": [("ready", "id")],
        "order:471": [],
        "nothing": [],
        "%_%": [],
        '"\\': [],
    }
    assert {words: sorted(found(browse, words)) for words in table} == table


def test_the_id_of_a_message_or_a_task_leads_to_its_page(site: str, browse: Client, make: Make) -> None:
    live, past, task = make.message(), make.history(), str(uuid4())
    make.history(correlation_id=task)

    pages = [
        browse.get(reverse(f"admin:{SEARCH}"), {"q": str(each)}) for each in (live.message_id, past.message_id)
    ]

    assert [page.status_code for page in pages] == [302, 302]
    assert str(past.message_id) in pages[1].headers["Location"]
    assert task in browse.get(reverse(f"admin:{SEARCH}"), {"q": task}).headers["Location"]
    assert found(browse, str(uuid4())) == []


def test_a_message_is_found_once_where_it_is_now(site: str, browse: Client, make: Make) -> None:
    message_id = uuid4()
    make.attempt(message_id=message_id, error="Boom", detail="ship it")
    make.history(message_id=message_id, type="ship it", outcome=7)
    make.message(message_id=message_id, type="ship it")

    assert found(browse, "ship it") == [("ready", "type")]


@pytest.mark.django_db
def test_a_search_reads_only_the_tables_that_the_user_may_view(
    login_with: Callable[..., Client], make: Make
) -> None:
    make.message(type="ship it")
    make.history(type="ship it")
    make.attempt(error="ship it")
    client = login_with()

    def look(*models: str) -> list[str]:
        codenames = [f"view_{model}" for model in models]
        User.objects.get(username="reader").user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return sorted(state for state, _ in found(client, "ship it"))

    assert client.get(reverse(f"admin:{SEARCH}"), {"q": "ship it"}).status_code == 403
    assert look("message") == ["ready"]
    assert look("history") == ["accepted"]
    assert look("attempt") == ["ship it"]
    assert look("message", "history", "attempt") == ["accepted", "ready", "ship it"]


def test_what_is_masked_or_encrypted_cannot_be_found(
    site: str, browse: Client, make: Make, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["card"]}
    body = json.dumps({"card": "4929-1", "order": "o-4711"}).encode()
    for write in (make.message, make.history):
        write(body=body, headers={"card": "4929-2", "argsrepr": "('4929-3',)", "tenant": "acme"})
    make.message(body=b"plain 4929-4", content_type="text/plain")
    large = b'{"card": "4929-5", "x": "%s", "end": "tail-1"}' % (b"x" * search.SEARCHED)
    make.message(body=large)
    make.message(body=marked_with_key("k", b"secret-6"), content_encoding=ENCRYPTED)

    hidden = ["4929", "card:4929-1", "4929-2", "4929-3", "4929-4", "4929-5", "secret-6"]
    assert {words: found(browse, words) for words in hidden} == {words: [] for words in hidden}
    assert len(found(browse, "o-4711")) == len(found(browse, "tenant:acme")) == 2


def test_a_search_ends_after_its_time_and_goes_on_from_there(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SLICE", 2)
    monkeypatch.setattr(search, "LARGEST_SLICE", 2)
    make.message(type="old ship")
    for number in range(6):
        make.message(type=f"other {number}")
    tables = {"live": Message.objects.using(site).select_related("queue")}

    look = search.search("old ship", tables, seconds=0.0)
    steps = 1
    while not look.is_complete:
        assert (look.hits, set(look.back_to)) == ([], {"live"})
        look = search.search("old ship", tables, seconds=0.0, below=look.left)
        steps += 1

    assert ([hit.where for hit in look.hits], steps) == (["type"], 4)


def test_hits_beyond_a_page_come_with_the_next_one(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST", 3)
    for number in range(7):
        make.message(type=f"ship {number}")
    tables = {"live": Message.objects.using(site).select_related("queue")}

    look, seen = search.search("ship", tables), []
    while True:
        seen += [hit.row.type for hit in look.hits]
        if look.is_complete:
            break
        look = search.search("ship", tables, below=look.left)

    assert seen == [f"ship {number}" for number in range(6, -1, -1)]


def test_one_search_of_a_user_runs_at_a_time(site: str, browse: Client, operator: User, make: Make) -> None:
    make.message(type="ship it")
    other = private_store(site)
    try:
        with other.database.looking(f"search {operator.pk}", 60) as is_first:
            busy = browse.get(reverse(f"admin:{SEARCH}"), {"q": "ship it"})
        assert (is_first, busy.status_code, busy.context["lines"]) == (True, 429, [])
        with other.database.looking("search of another user", 60):
            assert found(browse, "ship it") == [("ready", "type")]
    finally:
        other.close()


@pytest.mark.django_db
def test_any_words_do_no_harm(browse: Client, make: Make) -> None:
    script = "<script>alert(1)</script>"
    make.message(type=script, headers={script: script}, body=f'"{script}"'.encode(), queue=make.queue(script))
    make.message(body=b"\xff\xfe\x00")
    make.attempt(error=script, detail=script)

    for words in (script, "\x00", "\ud800", "a" * 600, "x:", ":", "::", "%", "\\", "'; DROP TABLE x", "10" * 40):
        page = browse.get(reverse(f"admin:{SEARCH}"), {"q": words.encode("utf-8", "replace").decode()})
        assert (page.status_code, script in page.content.decode()) == (200, False)
    for key in ("x", "-1", "9" * 30, "²"):
        assert browse.get(reverse(f"admin:{SEARCH}"), {"q": "ship", "live": key, "past": "1"}).status_code == 200
