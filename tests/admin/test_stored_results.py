"""Results of Celery's tasks, chords and saved groups, as pages."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.delivery.codecs import marked_with_key
from django_mq.diagnosis.messages import slices
from django_mq.results.models import Chord, ChordMember, ResultGroup, StoredResult
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

SCRIPT = "<script>alert(1)</script>"
BOOM = {"exc_type": "ValueError", "exc_message": ["too late"], "exc_module": "builtins"}

pytestmark = pytest.mark.django_db


def a_result(value: Any = None, *, status: str = "SUCCESS", **values: Any) -> StoredResult:
    given = {"task_id": str(uuid4()), "status": status, "result": json.dumps(value), "done_at": timezone.now()}
    given |= {"content_type": "application/json", "content_encoding": "utf-8"}
    return StoredResult.objects.create(**given | values)


def listed(client: Client, model: str = "storedresult", **address: str) -> list[Any]:
    return list(client.get(list_of(model), address).context["cl"].result_list)


def test_the_list_shows_what_each_task_returned_and_how_long_it_was_held(
    site: str, browse: Client, make: Make
) -> None:
    past = make.history(queue_name="mails", type="shop.tasks.greet")
    done = past.claimed_at + timedelta(seconds=65)
    a_result({"greeting": SCRIPT}, message_id=past.message_id, done_at=done)
    a_result(BOOM, status="FAILURE", traceback="line 1", name="shop.tasks.charge", queue="cards")

    page = browse.get(list_of("storedresult")).content.decode()

    for words in ("shop.<wbr>tasks.<wbr>greet", "shop.<wbr>tasks.<wbr>charge", "mails", "cards", "1 min 5 s"):
        assert words in page
    assert "ValueError: too late" in page
    assert "&lt;script&gt;" in page
    assert SCRIPT not in page


def test_results_are_found_by_state_task_queue_time_id_and_a_part_of_the_name(browse: Client) -> None:
    old = timezone.now() - timedelta(days=2)
    first = a_result(1, name="shop.tasks.greet", queue="mails", done_at=old)
    second = a_result(2, status="PROGRESS", done_at=None)
    looks: dict[str, list[dict[str, str]]] = {
        "first": [
            *({"status": "SUCCESS"}, {"name": "shop.tasks.greet"}, {"queue": "mails"}, {"q": first.task_id}),
            *({"q": "tasks.gr"}, {"until": (old + timedelta(days=1)).isoformat()}),
        ],
        "second": [
            {"status": "PROGRESS"},
            {"q": second.task_id},
            {"before": str(second.pk + 1), "status": "PROGRESS"},
        ],
        "none": [{"q": first.task_id[:8]}, {"status": "FAILURE"}, {"since": timezone.now().isoformat()}],
    }
    expected = {"first": [first], "second": [second], "none": []}

    for name, addresses in looks.items():
        for address in addresses:
            assert listed(browse, **address) == expected[name], address
    assert listed(browse) == [second, first]


def test_the_page_shows_the_value_the_traceback_and_the_arguments(browse: Client, make: Make) -> None:
    parent = a_result(1)
    result = a_result(
        BOOM,
        status="FAILURE",
        traceback=f"line 1 {SCRIPT}",
        args='["ann"]',
        kwargs='{"card": "card-4111"}',
        parent_id=parent.task_id,
        message_id=make.message().message_id,
        worker="shop-1",
    )

    page = browse.get(page_of(result)).content.decode()

    for words in ("too late", "line 1 &lt;script", "&quot;ann&quot;", "card-4111", page_of(parent), "shop-1"):
        assert words in page
    assert str(result.message_id) in page
    assert SCRIPT not in page


@pytest.mark.parametrize("length", [1, 1000])
def test_what_is_masked_in_messages_is_masked_in_results(length: int, browse: Client, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["card"]}
    result = a_result({"note": "n" * length, "card": "card-4111"}, kwargs='{"card": "card-4111"}', args="[]")

    for address in (list_of("storedresult"), page_of(result)):
        page = browse.get(address).content.decode()
        assert "card-4111" not in page
        assert "***" in page


def test_an_encrypted_result_says_so(browse: Client) -> None:
    text = base64.b64encode(marked_with_key("2026-11", b"secret")).decode()
    for encoding in ("binary", "encrypted"):
        result = a_result(result=text, content_encoding=encoding)

        for address in (list_of("storedresult"), page_of(result)):
            assert "encrypted with the key 2026-11" in browse.get(address).content.decode()
            StoredResult.objects.exclude(pk=result.pk).delete()


@pytest.mark.parametrize(
    "stored",
    [
        {"result": "{"},
        {"result": "[" * 50_000},
        {"result": "x" * 100_000},
        {"result": '"\\ud800"'},
        {"result": "%%%", "content_encoding": "binary"},
        {"result": base64.b64encode(b"\x80\x04K\x01.").decode(), "content_type": "application/x-python-serialize"}
        | {"content_encoding": "binary"},
        {"result": '{"exc_type": 7, "exc_message": null}', "status": "FAILURE"},
        {"result": "", "content_type": "", "content_encoding": ""},
        {"children": "{", "args": "(", "kwargs": "\x01", "traceback": "y" * 100_000},
    ],
    ids=["broken", "deep", "long", "half a character", "no base64", "pickle", "no error", "empty", "the rest"],
)
def test_a_result_that_somebody_broke_breaks_no_page(stored: dict[str, Any], browse: Client) -> None:
    result = a_result(**stored)

    for address in (list_of("storedresult"), page_of(result)):
        page = browse.get(address)
        assert page.status_code == 200
        assert len(page.content) < 300_000


def test_a_message_shows_the_result_of_its_task_while_it_lives_and_when_it_has_finished(
    site: str, browse: Client, make: Make
) -> None:
    result = a_result({"greeting": SCRIPT})
    rows = [make.message(correlation_id=result.task_id), make.history(correlation_id=result.task_id)]

    for row in rows:
        page = browse.get(page_of(row)).content.decode()
        assert page_of(result) in page
        assert "{&quot;greeting&quot;: &quot;&lt;script" in page
        assert SCRIPT not in page
    assert "SUCCESS" not in browse.get(page_of(make.message(correlation_id="other"))).content.decode()


def test_a_message_shows_no_result_to_a_user_who_may_not_view_it(
    login_with: Callable[..., Client], make: Make
) -> None:
    result = a_result("secret")
    message = make.message(correlation_id=result.task_id)

    assert "secret" not in login_with("view_message").get(page_of(message)).content.decode()


def test_a_forgotten_result_is_gone_and_another_time_says_so(site: str, browse: Client) -> None:
    result, other = a_result(1), a_result(2)

    assert "result" in said(run_action(browse, "storedresult", "forget", [result], yes="yes"))[0]
    assert list(StoredResult.objects.all()) == [other]


def test_a_chord_says_how_many_of_its_members_have_ended(site: str, browse: Client) -> None:
    member = a_result(1)
    running = Chord.objects.create(group_id="running", size=3, added=1, counted=2, failed=1)
    ended = Chord.objects.create(group_id="ended", size=3, counted=3, ended_at=timezone.now())
    unknown = Chord.objects.create(group_id="unknown", counted=1)
    ChordMember.objects.create(group_id="running", task_id=member.task_id, status="SUCCESS")

    assert listed(browse, "chord", state="ended") == [ended]
    assert {row.pk for row in listed(browse, "chord", state="waiting")} == {running.pk, unknown.pk}
    assert listed(browse, "chord", q="running") == [running]
    page = browse.get(list_of("chord")).content.decode()
    for words in ("2 / 4", "3 / 3", "1 / ?", "waiting for its publisher"):
        assert words in page
    assert page_of(member) in browse.get(page_of(running)).content.decode()
    assert "deleted when the chord ends" in browse.get(page_of(ended)).content.decode()


def test_a_saved_group_says_how_many_of_its_members_have_ended(site: str, browse: Client) -> None:
    done, begun = a_result(1), a_result(2, status="STARTED", done_at=None)
    inner = [["inner", None], [[[begun.task_id, None], None], [["unknown", None], None]]]
    members = {"result": [["g", None], [[[done.task_id, None], None], inner]]}
    stored = {"content_type": "application/json", "content_encoding": "utf-8"}
    group = ResultGroup.objects.create(group_id="g", members=json.dumps(members), **stored)
    large = {"result": [["h", None], [[[f"task {number}", None], None] for number in range(3000)]]}
    many = ResultGroup.objects.create(group_id="h", members=json.dumps(large), **stored)
    broken = ResultGroup.objects.create(group_id="b", members="{", **stored)
    binary = ResultGroup.objects.create(
        group_id="p", members="gAQ=", content_type="application/x-python-serialize"
    )

    page = browse.get(list_of("resultgroup")).content.decode()
    assert "1 / 3" in page
    assert "see the page of the group" in page
    assert page_of(done) in browse.get(page_of(group)).content.decode()
    assert "0 / 2,000 of the first ones" in browse.get(page_of(many)).content.decode()
    for row in (broken, binary):
        assert "without their serialiser" in browse.get(page_of(row)).content.decode()


def test_a_filter_looks_at_a_slice_of_the_results_and_says_where_it_has_stopped(
    browse: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE", 2)
    monkeypatch.setattr(slices, "PATIENCE", 0)
    rows = [a_result(number) for number in range(5)]

    with CaptureQueriesContext(connections["default"]) as captured:
        found = browse.get(list_of("storedresult"), {"name": "none"}).context["cl"]

    assert list(found.result_list) == []
    assert f"before={rows[3].pk}" in found.further
    asked = [one["sql"] for one in captured.captured_queries if "'none'" in one["sql"]]
    assert all('"django_mq_result"."id" >=' in sql for sql in asked)
    assert all("traceback" not in one["sql"] for one in captured.captured_queries)
