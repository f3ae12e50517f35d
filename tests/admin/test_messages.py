"""Messages: the cost of the list does not grow, and a page shows any row safely."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.models import Message
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite", once="postgresql")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
SCRIPT = "<script>alert(1)</script>"


def listed(client: Client, **query: Any) -> set[Any]:
    """Return the ids of the messages that the list shows."""
    response = client.get(list_of("message"), query)
    assert response.status_code == 200
    return {message.message_id for message in response.context["cl"].result_list}


def statements(client: Client, alias: str, address: str) -> list[str]:
    """Return the SQL of one request on the database of the queues."""
    with CaptureQueriesContext(connections[alias]) as captured:
        assert client.get(address).status_code == 200
    return [query["sql"] for query in captured.captured_queries]


def set_raw(message: Message, alias: str, headers: str) -> None:
    """Write headers as no publisher would; SQLite has to be told not to check them."""
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = 1")
        cursor.execute("UPDATE django_mq_message SET headers = %s WHERE id = %s", [headers, message.pk])
        cursor.execute("PRAGMA ignore_check_constraints = 0")


@pytest.mark.parametrize("kind", ["none", "some"])
def test_a_filter_looks_through_the_messages_once(site: str, browse: Client, make: Make, kind: str) -> None:
    """No index serves it: with a million messages each look takes a good part of what the page may take."""
    for number in range(3):
        make.message(type="some", priority=number)

    sql = statements(browse, site, f"{list_of('message')}?type={kind}")

    looks = [one for one in sql if f"'{kind}'" in one and " IN (" not in one]
    assert len(looks) == 1
    assert "LIMIT 1000" in looks[0]


def test_the_list_takes_as_many_queries_for_many_messages_as_for_one(
    site: str, browse: Client, make: Make
) -> None:
    make.message(CLAIMED, session=make.session())
    few = statements(browse, site, list_of("message"))

    for number in range(20):
        make.message(CLAIMED, session=make.session(f"worker {number}"), type=f"type {number}")
    many = statements(browse, site, list_of("message"))

    assert len(many) == len(few)


def test_the_list_fetches_no_more_than_the_heads_of_bodies(site: str, browse: Client, make: Make) -> None:
    make.message(type="long", content_type="text/plain", body=b"x" * 5_000)
    make.message(body=b'{"order": 7, "lines": [1, 2]}')
    make.message(type="bytes", content_type="application/octet-stream", body=b"\x00\xff\x01")
    make.message(type="task", headers={"argsrepr": "(7, 'a')", "kwargsrepr": "{}"})
    make.session().consumers.create(queue_name="orders", handler="shop.consumers.place")

    page = browse.get(list_of("message"))

    contents = {row.type: row.description.preview for row in page.context["cl"].result_list}
    assert contents["long"] == "x" * 79 + "…"
    assert contents[""] == '{"order": 7, "lines": [1, 2]}'
    assert contents["bytes"] == "3 B"
    assert contents["task"] == "(7, 'a')"
    assert "shop.<wbr>consumers.<wbr>place<span" in page.content.decode()
    sent = [one.replace("`", '"') for one in statements(browse, site, list_of("message"))]
    (reading,) = (one for one in sent if '"body"' in one)
    assert "2000)" in reading


def test_the_page_leaves_out_what_a_message_does_not_have(site: str, browse: Client, make: Make) -> None:
    page = browse.get(page_of(make.message(type="order.paid"))).content.decode()

    assert "field-type" in page
    assert not [name for name in ("group_key", "expires_at", "dead_at", "declined_by") if f"field-{name}" in page]


def test_a_preview_is_masked(site: str, browse: Client, make: Make, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["card"]}
    make.message(body=b'{"card": "card-4111", "order": 7}', headers={"argsrepr": "('card-4111',)"})
    make.message(body=b'{"card": "card-4111", "more": "%s"}' % (b"x" * 5_000))

    page = browse.get(list_of("message"))

    previews = [row.description.preview for row in page.context["cl"].result_list]
    assert previews == ["***", '{"card": "***", "order": 7}']
    assert "card-4111" not in page.content.decode()


def test_the_list_counts_up_to_a_bound(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.paginator.COUNT_LIMIT", 2)
    for _ in range(3):
        make.message()

    response = browse.get(list_of("message"))

    assert response.context["cl"].result_count == 2
    assert "counting stops here" in response.content.decode()


def test_more_is_counted_as_one_goes_on(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.paginator.COUNT_STEP", 2)
    monkeypatch.setattr("django_mq.admin.messages.admin.MessageAdmin.list_per_page", 1)
    made = [make.message() for _ in range(6)]

    pages = [browse.get(list_of("message"), {"p": number}) for number in (1, 2, 4, 6)]

    assert [page.context["cl"].result_count for page in pages] == [2, 4, 6, 6]
    assert [one.pk for page in pages for one in page.context["cl"].result_list] == [
        made[-number].pk for number in (1, 2, 4, 6)
    ]
    told = ["later pages count them" in page.content.decode() for page in pages]
    assert told == [True, True, True, False]


@pytest.mark.parametrize("page", ["0", "-3", "9999999999", "first"])
def test_a_page_that_is_none_is_answered_as_ever(site: str, browse: Client, make: Make, page: str) -> None:
    make.message()

    assert browse.get(list_of("message"), {"p": page}, follow=True).status_code == 200


def test_messages_are_filtered_by_state_queue_type_and_priority(site: str, browse: Client, make: Make) -> None:
    ready = make.message(READY, type="invoice", priority=7)
    dead = make.message(DEAD, queue=make.queue("other"))

    assert listed(browse) == {ready.message_id, dead.message_id}
    assert listed(browse, state=DEAD.value) == {dead.message_id}
    assert listed(browse, queue="orders") == {ready.message_id}
    assert listed(browse, type="invoice") == {ready.message_id}
    assert listed(browse, priority=7) == {ready.message_id}
    assert listed(browse, state="nonsense", priority="high") == {ready.message_id, dead.message_id}


def test_dead_letters_are_found_in_place_and_in_dead_letter_queues(site: str, browse: Client, make: Make) -> None:
    taker = make.queue("dead")
    make.queue("orders", dead_letter_queue=taker)
    in_place, moved = make.message(DEAD), make.message(READY, queue=taker, dead_reason="boom")
    make.message(READY)
    make.message(READY, queue=taker)

    assert listed(browse, state="letters") == {in_place.message_id, moved.message_id}


def test_messages_are_found_by_message_id_and_by_correlation_id(site: str, browse: Client, make: Make) -> None:
    task_id = str(uuid4())
    by_id, by_task = make.message(), make.message(correlation_id=task_id)

    assert listed(browse, q=str(by_id.message_id)) == {by_id.message_id}
    assert listed(browse, q=f" {task_id} ") == {by_task.message_id}
    assert listed(browse, q="no such thing") == set()


def test_the_messages_of_a_worker_session_can_be_listed(site: str, browse: Client, make: Make) -> None:
    session = make.session()
    held = make.message(CLAIMED, session=session)
    make.message()

    assert listed(browse, state=CLAIMED.value, worker=session.pk) == {held.message_id}


def test_a_page_shows_who_holds_the_message_and_until_when(site: str, browse: Client, make: Make) -> None:
    held = make.message(CLAIMED, session=make.session("worker@shop"))
    orphaned = make.message(CLAIMED, session_id=424242)

    assert "worker@shop until" in browse.get(page_of(held)).content.decode()
    assert "session 424242, which does not exist any more" in browse.get(page_of(orphaned)).content.decode()


def test_a_page_shows_attempts_with_their_tracebacks(site: str, browse: Client, make: Make) -> None:
    message = make.message(DEAD, correlation_id="task-1")
    make.attempt(message_id=message.message_id, traceback="line of the first")
    make.attempt(message_id=None, correlation_id="task-1", number=2, traceback="line of the second")
    make.attempt(traceback="of another")

    page = browse.get(page_of(message)).content.decode()

    assert "line of the first" in page
    assert "line of the second" in page
    assert "of another" not in page


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"body": b'{"id": 7}'}, "&quot;id&quot;: 7"),
        ({"body": "grüß".encode(), "content_type": "text/plain"}, "grüß"),
        ({"body": b"\x00\xff", "content_type": "application/octet-stream"}, "00 ff"),
        ({"body": b"{ no json"}, "not what its content type promises"),
        ({"body": b"\xff\xfe{", "content_type": "text/plain"}, "not what its content type promises"),
        ({"body": b"[" * 100_000}, "not what its content type promises"),
        ({"body": b'"\\ud800"'}, "\\ud800"),
        ({"body": b"x" * 200_000, "content_type": "text/plain"}, "Only the beginning is shown"),
        ({"body": b"x", "content_type": "text/plain", "content_encoding": "no such"}, "text, 1"),
        ({"body": b"cos\nsystem\n.", "content_type": "application/x-python-serialize"}, "63 6f 73"),
    ],
    ids=["json", "text", "bytes", "broken json", "broken text", "deep", "surrogate", "long", "encoding", "pickle"],
)
def test_a_page_shows_any_body(values: dict[str, Any], words: str, site: str, browse: Client, make: Make) -> None:
    message = make.message(**values)

    response = browse.get(page_of(message))

    assert words in response.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
def test_a_page_shows_the_beginning_of_16_mb_and_the_download_has_all(
    content_type: str, browse: Client, make: Make
) -> None:
    body = b"[" + b"1234567," * 2**21 + b"8]"
    message = make.message(body=body, content_type=content_type)

    page = browse.get(page_of(message)).content.decode()
    listed = browse.get(list_of("message")).content.decode()

    assert "Only the beginning is shown" in page
    assert max(len(page), len(listed)) < 200_000
    chosen = {"action": "download_json", "_selected_action": [message.pk]}
    assert len(browse.post(list_of("message"), chosen).getvalue()) > 2**24  # type: ignore[attr-defined]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream", ""])
def test_an_empty_body_breaks_no_page_and_no_download(
    content_type: str, site: str, browse: Client, make: Make
) -> None:
    message = make.message(DEAD, body=b"", content_type=content_type, headers={}, dead_reason="")
    past = make.history(message_id=message.message_id, outcome=4, body=b"", headers={})
    tried = make.attempt(message_id=message.message_id, error="", detail="", traceback="")

    copy = f"{list_of('message')}add/?copy={message.pk}"
    lists = [list_of(name) for name in ("message", "history", "attempt")]
    for address in (*lists, copy, *map(page_of, (message, past, tried))):
        assert browse.get(address).status_code == 200, address
    for form in ("json", "csv"):
        chosen = {"action": f"download_{form}", "_selected_action": [message.pk]}
        lines = browse.post(list_of("message"), chosen).getvalue().decode()  # type: ignore[attr-defined]
        assert str(message.message_id) in lines


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["{ no json", "[1, 2]", '"text"', "", "7"])
def test_headers_that_are_no_object_do_not_break_a_page(text: str, browse: Client, make: Make) -> None:
    message = make.message()
    set_raw(message, "default", text)

    assert browse.get(list_of("message")).status_code == 200
    assert browse.get(page_of(message)).status_code == 200


@pytest.mark.django_db
def test_headers_that_are_no_utf8_do_not_break_a_page(browse: Client, make: Make) -> None:
    message = make.message()
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = 1")
        cursor.execute("UPDATE django_mq_message SET headers = CAST(x'ff22' AS TEXT) WHERE id = %s", [message.pk])
        cursor.execute("PRAGMA ignore_check_constraints = 0")

    page = browse.get(page_of(message))

    assert "not valid JSON" in page.content.decode()


def test_nothing_of_a_message_reaches_the_page_unescaped(site: str, browse: Client, make: Make) -> None:
    message = make.message(
        DEAD,
        body=f'{{"{SCRIPT}": "{SCRIPT}"}}'.encode(),
        headers={SCRIPT: SCRIPT, "nested": [SCRIPT]},
        properties={SCRIPT: SCRIPT},
        type=SCRIPT,
        correlation_id=SCRIPT,
        group_key=SCRIPT,
        content_encoding=SCRIPT,
        dead_reason=SCRIPT,
    )
    words = dict.fromkeys(("queue_name", "worker", "error", "detail", "traceback"), SCRIPT)
    attempt = make.attempt(message_id=message.message_id, **words)

    pages = [list_of("message"), page_of(message), list_of("attempt"), page_of(attempt)]
    for address in [*pages, f"{list_of('message')}?type={SCRIPT}&q={SCRIPT}"]:
        assert "<script>alert" not in browse.get(address).content.decode()


def test_a_message_that_is_gone_sends_the_reader_back(site: str, browse: Client, make: Make) -> None:
    message = make.message()
    address = page_of(message)
    message.delete()

    response = browse.get(address, follow=True)

    assert response.status_code == 200
    assert response.redirect_chain


def test_a_scheduled_message_says_when_it_is_due(site: str, browse: Client, make: Make) -> None:
    make.message(SCHEDULED, deliver_at=timezone.now() + timedelta(days=1))

    assert "due " in browse.get(list_of("message")).content.decode()


def test_a_message_that_is_retrying_says_how_often_it_failed_and_when_it_is_next(
    site: str, browse: Client, make: Make
) -> None:
    due = timezone.now() + timedelta(days=1)
    message = make.message(SCHEDULED, make.queue(max_attempts=10), attempts=3, deliver_at=due)
    make.message(SCHEDULED, make.queue("mails", max_attempts=0), attempts=1, deliver_at=due)

    page = browse.get(list_of("message")).content.decode()

    assert "retrying: 3 of 10 attempts failed, next " in page
    assert "retrying: 1 attempt failed, next " in page
    assert "retrying: 3 of 10 attempts failed, next " in browse.get(page_of(message)).content.decode()


def test_messages_are_filtered_by_attempts_reason_worker_and_age(site: str, browse: Client, make: Make) -> None:
    fresh = make.message(READY).message_id
    tried = make.message(READY, attempts=4).message_id
    session = make.session()
    held = make.message(CLAIMED, session=session, attempts=1).message_id
    long_ago = timezone.now() - timedelta(days=8)
    dead = make.message(DEAD, dead_reason="ValueError", attempts=10, published_at=long_ago).message_id

    assert listed(browse, attempts="0") == {fresh}
    assert listed(browse, attempts="3") == {tried, dead}
    assert listed(browse, reason="ValueError") == {dead}
    assert listed(browse, worker=session.pk) == {held}
    assert listed(browse, published="hour") == {fresh, tried, held}
    assert listed(browse, published="older") == {dead}
    assert listed(browse, attempts="x", worker="'", published="ever") == {fresh, tried, held, dead}


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("tenant:acme", {"acme"}),
        ("tenant: acme ", {"acme"}),
        ("number:7", {"seven"}),
        ("a__b:x", {"odd"}),
        ("a.b:x", set()),
        ("missing:acme", set()),
        ("urn:x", {"urn"}),
        ("tenant__startswith:ac", set()),
        ("tenant':x", set()),
    ],
)
def test_messages_are_found_by_a_header(site: str, browse: Client, make: Make, term: str, found: set[str]) -> None:
    make.message(type="acme", headers={"tenant": "acme"})
    make.message(type="seven", headers={"number": 7})
    make.message(type="odd", headers={"a__b": "x"})
    make.message(type="urn", correlation_id="urn:x")

    response = browse.get(list_of("message"), {"q": term})

    assert {message.type for message in response.context["cl"].result_list} == found


def test_a_header_is_looked_for_among_the_newest_only(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.diagnosis.messages.terms.HEADER_SAMPLE", 2)
    for number in range(3):
        make.message(type=str(number), headers={"tenant": "acme"})

    response = browse.get(list_of("message"), {"q": "tenant:acme"})

    assert {message.type for message in response.context["cl"].result_list} == {"1", "2"}
