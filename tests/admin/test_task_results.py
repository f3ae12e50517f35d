"""What became of tasks, as a page."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.models import TaskResult
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

SCRIPT = "<script>alert(1)</script>"
RECORD = {
    "envelope": {"task": "shop.tasks.greet", "args": ["ann"], "kwargs": {"card": "card-4111", "note": SCRIPT}},
    "value": {"greeting": f"hello {SCRIPT}"},
    "errors": [],
    "worker_ids": ["shop-1:77"],
}


def a_result(record: Any = RECORD, *, successful: bool = True, **values: Any) -> TaskResult:
    end = timezone.now()
    given = {"message_id": uuid4(), "successful": successful, "queue_name": "mails", "finished_at": end}
    given |= {"started_at": end - timedelta(minutes=5), "last_attempted_at": end - timedelta(seconds=65)}
    text = record if isinstance(record, str) else json.dumps(record)
    return TaskResult.objects.create(**given | {"expires_at": end + timedelta(days=7), "record": text} | values)


def test_the_list_shows_the_task_and_how_it_ended(site: str, browse: Client) -> None:
    result = a_result()
    a_result(successful=False, queue_name="default")

    page = browse.get(list_of("taskresult"), {"successful__exact": 1})

    assert list(page.context["cl"].result_list) == [result]
    assert "shop.<wbr>tasks.<wbr>greet" in page.content.decode()
    assert "1 min 5 s" in page.content.decode()


def test_a_result_is_found_by_its_id_and_by_no_part_of_it(site: str, browse: Client) -> None:
    wanted = a_result()
    a_result()

    def found(term: str) -> list[Any]:
        return list(browse.get(list_of("taskresult"), {"q": term}).context["cl"].result_list)

    assert found(str(wanted.pk)) == [wanted]
    assert found("a1") == []
    assert len(found("")) == 2


def test_the_page_shows_arguments_value_workers_and_failures(site: str, browse: Client, make: Make) -> None:
    result = a_result()
    make.attempt(message_id=result.message_id, traceback="ValueError: <b>too late</b>")

    page = browse.get(page_of(result)).content.decode()

    for words in ("shop.<wbr>tasks.<wbr>greet", "shop-1:77", "&quot;ann&quot;", "hello &lt;script", "too late"):
        assert words in page
    assert SCRIPT not in page
    assert "<b>too late" not in page


def test_what_is_masked_in_messages_is_masked_here(site: str, browse: Client, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["card", "greeting"]}

    page = browse.get(page_of(a_result())).content.decode()

    assert "card-4111" not in page
    assert "hello" not in page
    assert "ann" in page


@pytest.mark.parametrize(
    "record",
    ["", "{", "[1]", "[" * 50_000, '{"envelope": 7, "worker_ids": "x"}', '{"envelope": {"task": "\\ud800"}}'],
    ids=["empty", "broken", "a list", "deep", "no envelope", "half a character"],
)
def test_a_record_that_somebody_broke_breaks_no_page(record: str, site: str, browse: Client) -> None:
    result = a_result(record)

    assert browse.get(list_of("taskresult")).status_code == 200
    assert browse.get(page_of(result)).status_code == 200


def test_the_list_takes_as_many_queries_for_many_results_as_for_one(site: str, browse: Client) -> None:
    def count() -> int:
        with CaptureQueriesContext(connections[site]) as captured:
            found = browse.get(list_of("taskresult")).context["cl"].result_list
        assert all("record" in result.get_deferred_fields() for result in found)
        return len(captured)

    a_result()
    few = count()
    for _ in range(10):
        a_result()

    assert count() == few
