"""Finding messages, attempts and history: by time, exception, worker, argument, and in delivery order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.diagnosis.messages import criteria
from django_mq.models import Attempt, History, Message
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite", once="postgresql")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


def rows_of(browse: Client, model: str, **address: Any) -> list[Any]:
    """Return the rows that a list shows under an address."""
    response = browse.get(list_of(model), address)
    assert response.status_code == 200, response.get("Location")
    return list(response.context["cl"].result_list)


def types_of(browse: Client, **address: Any) -> list[str]:
    return [row.type for row in rows_of(browse, "message", **address)]


def at(text: str) -> datetime:
    return timezone.make_aware(datetime.fromisoformat(text))


def test_messages_that_are_retrying_are_not_scheduled(site: str, browse: Client, make: Make) -> None:
    later = at("2031-01-01T08:00")
    make.message(SCHEDULED, type="scheduled", deliver_at=later)
    make.message(SCHEDULED, type="retrying", deliver_at=later, attempts=3)
    make.message(READY, type="ready", attempts=1)

    assert types_of(browse, state="retrying") == ["retrying"]
    assert types_of(browse, state="retrying", type="retrying") == ["retrying"]
    assert types_of(browse, state="0") == ["scheduled"]


def test_messages_are_found_by_a_span_of_time(site: str, browse: Client, make: Make) -> None:
    for day in (1, 2, 3):
        make.message(type=str(day), published_at=at(f"2026-05-0{day}T12:00"))
    make.message(SCHEDULED, type="due", deliver_at=at("2031-01-01T08:00"))

    assert types_of(browse, since="2026-05-02T12:00", until="2026-05-03T12:00") == ["2"]
    assert types_of(browse, until="2026-05-02T12:00:01") == ["2", "1"]
    assert types_of(browse, due_since="2031-01-01T08:00", due_until="2031-01-01T09:00") == ["due"]
    assert len(types_of(browse, since="yesterday", until="9999-99-99T99:99")) == 4


def test_a_span_to_the_ends_of_the_calendar_finds_everything(
    site: str, settings: Settings, browse: Client, make: Make
) -> None:
    make.message(type="here")
    for zone in ("Asia/Tokyo", "America/New_York"):
        settings.TIME_ZONE = zone

        assert types_of(browse, since="0001-01-01T00:00", until="9999-12-31T23:59:59") == ["here"]


def test_a_span_keeps_the_other_filters_and_says_what_is_not_a_time(site: str, browse: Client, make: Make) -> None:
    make.message()

    page = browse.get(list_of("message"), {"state": "1", "since": "yesterday", "until": "<b>"}).content.decode()

    assert '<input type="hidden" name="state" value="1">' in page
    assert page.count("This is not a valid date and time.") == 2
    assert "<b>" not in page


def test_an_operation_takes_the_same_span(site: str, make: Make) -> None:
    for day in (1, 2, 3):
        make.message(type=str(day), published_at=at(f"2026-05-0{day}T12:00"))
    address = {"since": "2026-05-02T00:00", "until": "2026-05-03T00:00", "order": "delivery", "p": "2"}

    found = criteria.narrowed(Message.objects.using(site), criteria.known(address), timezone.now())

    assert [row.type for row in found] == ["2"]


def test_messages_are_found_by_what_their_attempts_failed_with(site: str, browse: Client, make: Make) -> None:
    native, task = make.message(type="native"), make.message(type="task", correlation_id="task-7")
    make.message(type="other")
    make.attempt(message_id=native.message_id, error="KeyError")
    make.attempt(message_id=None, correlation_id=task.correlation_id, error="KeyError")
    make.attempt(error="ValueError")

    assert set(types_of(browse, error="KeyError")) == {"native", "task"}
    assert types_of(browse, error="ValueError") == []
    assert types_of(browse, error="' OR 1=1 --") == []


def test_failed_attempts_are_found_by_exception_worker_and_time(site: str, browse: Client, make: Make) -> None:
    make.attempt(error="KeyError", worker="shop-1", failed_at=at("2026-05-01T12:00"))
    make.attempt(error="ValueError", worker="shop-2", failed_at=at("2026-05-02T12:00"))

    def found(**address: str) -> list[str]:
        return [row.error for row in rows_of(browse, "attempt", **address)]

    assert found(error="KeyError") == ["KeyError"]
    assert found(worker="shop-2") == ["ValueError"]
    assert found(since="2026-05-02T00:00") == ["ValueError"]


def test_the_history_is_found_by_id_worker_and_time(site: str, browse: Client, make: Make) -> None:
    session = make.session()
    mine = make.history(type="mine", session_id=session.pk, correlation_id="task-7")
    make.history(type="old", finished_at=at("2026-05-01T12:00"))

    def found(**address: Any) -> list[str]:
        return [row.type for row in rows_of(browse, "history", **address)]

    assert found(worker=session.pk) == ["mine"]
    assert found(until="2026-05-02T00:00") == ["old"]
    assert found(q=str(mine.message_id)) == ["mine"]
    assert found(q="task-7") == ["mine"]


def test_the_ready_messages_of_a_queue_are_browsed_as_they_are_delivered(
    site: str, browse: Client, make: Make
) -> None:
    make.message(type="low", level=1)
    make.message(type="high", level=9)
    make.message(type="due", level=9, place=-5)
    queue = make.message(type="last", level=1).queue
    make.message(SCHEDULED, type="scheduled", level=9)
    link = browse.get(page_of(queue)).context["line_address"]

    response = browse.get(link)

    assert [row.type for row in response.context["cl"].result_list] == ["due", "high", "low", "last"]
    assert Message.objects.filter(state=READY).count() == 4
    assert types_of(browse, order="delivery") == ["scheduled", "last", "due", "high", "low"]


def test_delivery_order_comes_from_the_index_of_the_claim(site: str, browse: Client, make: Make) -> None:
    if connections[site].vendor != "postgresql":
        pytest.skip("the plans of the others are not read here")
    queue = make.message().queue
    address = {"queue": queue.name, "state": "1", "order": "delivery"}
    query = browse.get(list_of("message"), address).context["cl"].queryset

    with connections[site].cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    plan = query[:100].explain()

    assert "django_mq_message_ready" in plan
    assert "Sort" not in plan


def test_a_page_tells_what_happened_in_its_order(site: str, browse: Client, make: Make) -> None:
    begin = timezone.now() - timedelta(hours=3)
    script = "<script>alert(1)</script>"
    dead = make.message(
        DEAD, published_at=begin, dead_at=begin + timedelta(hours=2), dead_reason=script, attempts=1
    )
    make.attempt(message_id=dead.message_id, error="KeyError", failed_at=begin + timedelta(hours=1))
    over = make.history(published_at=begin, ready_at=begin, claimed_at=begin, finished_at=timezone.now())

    page = browse.get(page_of(dead))
    words = [event.words for event in page.context["timeline"]]

    assert words == ["published", "attempt 1 failed: KeyError", f"dead: {script}"]
    assert [event.after for event in page.context["timeline"]] == ["", "1 h", "1 h"]
    assert script not in page.content.decode()
    told = browse.get(page_of(over)).context["timeline"]
    assert [event.words for event in told] == ["published", "claimed", "accepted"]


@pytest.mark.on("sqlite")
def test_the_timeline_of_a_tasks_dead_letter_is_in_order_with_short_gaps_in_ms(
    site: str, browse: Client, make: Make
) -> None:
    died = timezone.now()
    letter = make.message(
        READY,
        make.queue("letters"),
        published_at=died,
        dead_reason="max attempts",
        correlation_id="task",
        headers={"x-origin-queue": "celery"},
    )
    for number in (1, 2):
        failed_at = died - timedelta(milliseconds=1500 - 500 * number)
        make.attempt(correlation_id="task", number=number, failed_at=failed_at, error="KeyError")

    events = browse.get(page_of(letter)).context["timeline"]

    words = ["attempt 1 failed: KeyError", "attempt 2 failed: KeyError", "dead letter from “celery”: max attempts"]
    assert [event.words for event in events] == words
    assert [event.after for event in events] == ["", "500 ms", "500 ms"]
    again = make.message(READY, letter.queue, published_at=died, correlation_id="task")
    assert browse.get(page_of(again)).context["timeline"][-1].words == "published again"


def test_lists_with_every_filter_take_as_many_queries_for_many_rows(site: str, browse: Client, make: Make) -> None:
    def count(model: str) -> int:
        with CaptureQueriesContext(connections[site]) as captured:
            browse.get(list_of(model))
        return len(captured)

    message = make.message()
    make.attempt(message_id=message.message_id)
    make.history()
    few = [count(model) for model in ("message", "attempt", "history")]
    for number in range(5):
        make.attempt(message_id=make.message(type=str(number)).message_id, error=f"E{number}", worker=f"w{number}")
        make.history()

    assert [count(model) for model in ("message", "attempt", "history")] == few
    assert Attempt.objects.count() == History.objects.count() == 6
