"""Dead letters are listed with how often they failed, and with what at first and at last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from django_mq.admin.messages.failures import WORDS
from django_mq.delivery.consumer.handlers import TASK_HEADERS
from django_mq.diagnosis.language import second_text
from django_mq.models import Message
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

READY, DEAD = Message.Status.READY, Message.Status.DEAD
LETTERS = "?state=letters"


def cells(client: Client, query: str) -> dict[Any, list[str]]:
    """Return the two cells of each row, by the id of its message."""
    response = client.get(f"{list_of('message')}{query}")
    page, listed = response.context["cl"].model_admin, response.context["cl"].result_list
    names = ("failed", "errors")
    return {
        row.message_id: [str("-" if (cell := getattr(page, name)(row)) is None else cell) for name in names]
        for row in listed
    }


def test_the_first_and_the_last_error_are_told(site: str, browse: Client, make: Make) -> None:
    mended, never = make.message(DEAD, attempts=3), make.message(DEAD, dead_reason="rejected")
    for number, error in enumerate(("ValueError", "KeyError", "TimeoutError"), start=1):
        make.attempt(message_id=mended.message_id, number=number, error=error, detail=f"<b>{number}</b>")
    make.attempt()

    found = cells(browse, "?state=3")

    assert found[never.message_id] == ["0", "-"]
    count, errors = found[mended.message_id]
    assert (count, "first: " in errors) == ("3 of 10", True)
    assert errors.index("Timeout<wbr>Error") < errors.index("Value<wbr>Error: &lt;b&gt;1&lt;/b&gt;")


def test_attempts_of_a_task_count_under_its_own_id_once(site: str, browse: Client, make: Make) -> None:
    headers = dict.fromkeys(TASK_HEADERS)
    task, other = (make.message(DEAD, correlation_id=name, headers=headers) for name in ("task", "other"))
    make.attempt(message_id=uuid4(), correlation_id="task", error="First")  # sent again since, with another id
    make.attempt(message_id=task.message_id, correlation_id="task", error="Last")
    make.attempt(message_id=None, correlation_id="other", error="Only")

    found = cells(browse, LETTERS)

    assert found[task.message_id][0] == "2"
    assert ["First" in found[task.message_id][1], "Last" in found[task.message_id][1]] == [True, True]
    assert "first: " not in found[other.message_id][1]
    assert found[other.message_id][0] == "1"


def test_a_letter_that_was_moved_keeps_its_failures(site: str, browse: Client, make: Make) -> None:
    letters = make.queue("letters")
    queue = make.queue(dead_letter_queue=letters)
    headers = {"x-origin-queue": queue.name, "x-origin-attempts": 1}
    moved = make.message(READY, queue=letters, attempts=0, headers=headers, dead_reason="boom")
    make.attempt(message_id=moved.message_id)

    assert cells(browse, LETTERS)[moved.message_id][0] == "1 of 10"


def test_failures_before_a_redrive_do_not_count(site: str, browse: Client, make: Make) -> None:
    redriven, again = make.message(READY), make.message(DEAD, attempts=1)
    for message in (redriven, again, again):
        make.attempt(message_id=message.message_id)

    found = cells(browse, "")

    assert [found[message.message_id][0] for message in (redriven, again)] == ["0", "1 of 10"]


def test_the_last_failure_comes_before_the_death(site: str, browse: Client, make: Make) -> None:
    now = timezone.now()
    dead = make.message(DEAD, dead_at=now, dead_reason="ValueError", published_at=now - timedelta(hours=1))
    make.attempt(message_id=dead.message_id, failed_at=now + timedelta(milliseconds=1))

    words = [event.words for event in browse.get(page_of(dead)).context["timeline"]]

    assert words == ["published", "attempt 1 failed: ValueError", "dead: ValueError"]


def test_a_dead_letter_in_a_dead_letter_queue_says_so_with_its_reason_and_its_attempts(
    site: str, browse: Client, make: Make
) -> None:
    letters = make.queue("letters")
    queue = make.queue(dead_letter_queue=letters, max_attempts=4)
    headers = {"x-origin-queue": queue.name, "x-origin-attempts": 3}
    moved = make.message(READY, queue=letters, headers=headers, dead_reason="rejected")
    kept = make.message(DEAD, queue=queue, attempts=4)

    listed = browse.get(list_of("message")).content.decode()
    assert '<td class="field-situation">dead letter: rejected</td>' in listed
    assert '<td class="field-situation">dead letter</td>' in listed
    assert '<td class="field-failed">3 of 4</td>' in listed
    assert '<td class="field-failed">4 of 4</td>' in listed
    page = browse.get(page_of(moved)).content.decode()
    assert "dead letter: rejected" in page
    assert "3 of 4" in page
    assert "dead letter" in browse.get(page_of(kept)).content.decode()
    assert '<span class="mq-bad">dead letters</span>' in browse.get(list_of("queue")).content.decode()


@pytest.mark.django_db
def test_other_lists_are_as_they_were(browse: Client, make: Make) -> None:
    make.message(DEAD)

    listed = browse.get(list_of("message")).context["cl"].list_display

    assert "errors" not in listed
    assert "failed" in listed


def test_the_state_of_a_dead_letter_does_not_repeat_its_error(site: str, browse: Client, make: Make) -> None:
    failed = make.message(DEAD, dead_at=timezone.now(), dead_reason="ValueError: no such customer")
    make.attempt(message_id=failed.message_id, error="ValueError", detail="no such customer")

    page = browse.get(f"{list_of('message')}{LETTERS}").content.decode()

    assert '<td class="field-situation">dead letter</td>' in page
    assert "dead: ValueError: no such customer" in browse.get(page_of(failed)).content.decode()


def test_the_words_of_a_failure_are_bounded(site: str, browse: Client, make: Make) -> None:
    dead = make.message(DEAD)
    make.attempt(message_id=dead.message_id, detail="x" * 5_000)

    assert f">Value<wbr>Error: {'x' * WORDS}…<" in cells(browse, LETTERS)[dead.message_id][1]


def test_many_dead_letters_take_no_more_statements_than_few(site: str, browse: Client, make: Make) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connections[site]) as captured:
            assert browse.get(f"{list_of('message')}{LETTERS}").status_code == 200
        return len(captured)

    def more(number: int) -> None:
        for _ in range(number):
            dead = make.message(DEAD, correlation_id=uuid4().hex, dead_at=timezone.now() - timedelta(hours=1))
            make.attempt(message_id=dead.message_id)
            make.attempt(correlation_id=dead.correlation_id)

    more(2)
    few = statements()
    more(20)

    assert statements() == few


@pytest.mark.parametrize("query", ["?state=3", LETTERS, "?state=3&q=0badcafe"])
def test_an_empty_list_is_a_list(query: str, site: str, browse: Client) -> None:
    assert cells(browse, query) == {}


def test_the_page_of_a_message_begins_with_its_last_error(site: str, browse: Client, make: Make) -> None:
    dead = make.message(DEAD)
    make.attempt(message_id=dead.message_id, error="LastError", traceback="Traceback of the last error")

    page = browse.get(page_of(dead)).content.decode()

    places = [
        page.index(words) for words in ("Traceback of the last error", ">Body<", ">Timeline<", "field-message_id")
    ]
    assert places == sorted(places)
    assert page.count("Traceback of the last error") == 1
    assert "icon-no" not in page


def test_a_rejected_task_says_the_exception_that_is_known(site: str, browse: Client, make: Make) -> None:
    died = timezone.now()
    letters, task = make.queue("letters"), {"correlation_id": "task", "dead_reason": "rejected"}
    here = make.message(DEAD, dead_at=died, published_at=died - timedelta(minutes=1), **task)
    there = make.message(READY, letters, headers={"x-origin-queue": "orders"}, published_at=died, **task)
    bare = make.message(DEAD, dead_at=died, published_at=died - timedelta(minutes=1), dead_reason="rejected")
    make.attempt(correlation_id="task", error="KeyError", detail="'x'", failed_at=died - timedelta(seconds=1))

    pages = {row: browse.get(page_of(row)) for row in (here, there, bare)}

    words = [pages[row].context["timeline"][-1].words for row in (here, there, bare)]
    assert words == ["dead: KeyError: 'x'", "dead letter from “orders”: KeyError: 'x'", "dead: rejected"]
    assert "rejected" not in pages[here].content.decode() + pages[there].content.decode()
    assert browse.get(list_of("message")).content.decode().count("dead letter: rejected") == 1


@pytest.mark.parametrize(
    ("language", "shown"), [("en", "Nov. 28, 2026, 3:46:29 p.m."), ("de", "28. November 2026, 15:46:29")]
)
def test_times_with_seconds_have_the_format_of_the_language(language: str, shown: str) -> None:
    with translation.override(language), timezone.override(UTC):
        assert second_text(datetime(2026, 11, 28, 15, 46, 29, tzinfo=UTC)) == shown
