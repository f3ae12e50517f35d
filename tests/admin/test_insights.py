"""The past in tables and charts, and as files; nothing of it starts Spark."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from django_mq.insights import reading
from django_mq.insights.reading import harmless
from django_mq.models import InsightCause, InsightDay, InsightHour
from django_mq.pipeline.insights.tables import keep_hours

if TYPE_CHECKING:
    from django.test import Client


@pytest.fixture
def address() -> str:
    return reverse("admin:django_mq_insighthour_changelist")


@pytest.fixture
def known(site: str) -> str:
    """A day of a queue whose name is no friend of a page."""
    name = "<b>orders</b>&x=1"
    hour = timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for number in range(5):
        values: dict[str, Any] = {"arrivals": 10 + number, "completions": 10, "depth_max": 3, "consumers": 2}
        values |= {"wait_p95": 1.5, "wait_histogram": {"84": 10}, "depth_mean": 0.5, "wait_sum": 1800.0}
        at = hour - timedelta(hours=number)
        InsightHour.objects.using(site).create(queue_name=name, hour=at, **values)
        InsightHour.objects.using(site).create(queue_name=name, hour=at, level=4, arrivals=1)
    InsightCause.objects.using(site).create(
        queue_name=name, day=hour.date(), dead=True, reason="<script>", messages=7
    )
    return name


def test_the_table_has_a_row_for_each_queue(browse: Client, known: str, address: str) -> None:
    page = browse.get(address, {"days": 1}).content.decode()

    assert "&lt;b&gt;orders&lt;/b&gt;&amp;x=1" in page
    assert known not in page
    assert "<td>60</td><td>50</td>" in page


def hour(queue: str, begin: datetime, waits: dict[int, int], runs: dict[int, int]) -> dict[str, Any]:
    """Return an hour as the job that computes it has it."""
    return {
        "queue": queue,
        "level": InsightHour.ALL_LEVELS,
        "hour": int(begin.timestamp()) * 1_000_000,
        "wait_histogram": json.dumps(waits),
        "run_histogram": json.dumps(runs),
    }


def test_whole_days_are_read_as_sums_and_other_hours_one_by_one(site: str) -> None:
    begin = datetime(2026, 3, 1, 10, tzinfo=UTC)
    span = {"since": begin, "until": begin + timedelta(hours=50)}
    rows = [
        hour(queue, begin + timedelta(hours=number), {40 + number: 3, 41: number + 1}, {90 - number: 2})
        for number in range(50)
        for queue in ("orders", "mails")
    ]
    keep_hours(rows, site)
    hours, days = InsightHour.objects.using(site), InsightDay.objects.using(site)
    summed = reading.summaries(site, **span)
    assert days.count() == 6

    hours.filter(hour__gte=datetime(2026, 3, 2, tzinfo=UTC), hour__lt=datetime(2026, 3, 3, tzinfo=UTC)).update(
        wait_histogram={}, run_histogram={}
    )
    assert reading.summaries(site, **span) == summed

    days.filter(queue_name="mails").delete()
    mails, orders = reading.summaries(site, **span)
    assert orders == summed[1]
    assert mails != summed[0]


def test_days_without_sums_are_read_by_their_hours(site: str) -> None:
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    span = {"since": begin, "until": begin + timedelta(days=2)}
    rows = [hour("orders", begin + timedelta(hours=number), {number: 1}, {}) for number in range(48)]
    keep_hours(rows, site)
    summed = reading.summaries(site, **span)

    InsightDay.objects.using(site).filter(day=begin.date()).delete()

    assert reading.summaries(site, **span) == summed


def test_a_queue_has_a_page_with_charts(browse: Client, known: str, address: str) -> None:
    page = browse.get(address, {"days": 1, "queue": known}).content.decode()

    assert page.count("<svg viewBox") == 5
    assert "mq-drawn mq-arrived" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page.replace("<script>alert", "")
    assert "dead letter" in page


def test_hours_can_be_taken_along(browse: Client, known: str, address: str) -> None:
    rows = browse.get(address, {"days": 1, "format": "json", "queue": known}).json()
    text = browse.get(address, {"days": 1, "format": "csv"}).content.decode()

    assert sum(row["arrivals"] for row in rows if row["level"] == -1) == 60
    assert text.splitlines()[0].startswith("queue_name,level,hour")
    assert len(text.splitlines()) == 11
    assert harmless("=HYPERLINK()") == "'=HYPERLINK()"
    assert rows[0]["wait_histogram"] == {"84": 10}

    [queue] = browse.get(address, {"days": 1, "format": "json", "of": "queues"}).json()
    assert (queue["queue"], queue["arrivals"], len(queue["busiest"])) == (known, 60, 3)
    causes = browse.get(address, {"days": 1, "format": "csv", "of": "causes"}).content.decode()
    assert causes.splitlines()[1].endswith(",True,<script>,7")
    assert browse.get(address, {"days": 1, "format": "json", "of": "nothing"}).json()[0]["hour"]


def test_without_figures_the_page_says_where_they_come_from(browse: Client, site: str, address: str) -> None:
    assert b"manage.py mq_spark insights" in browse.get(address).content
    page = browse.get(address, {"queue": "orders", "days": "9" * 99})
    assert b"There are no figures for this queue" in page.content


def test_who_may_not_look_sees_nothing(client: Client, site: str, address: str, django_user_model: Any) -> None:
    user = django_user_model.objects.create_user("guest", password="guest", is_staff=True)
    client.force_login(user)

    assert client.get(address).status_code == 403
    assert client.get(address, {"format": "csv"}).status_code == 403


def test_the_pages_start_no_spark(browse: Client, known: str, address: str) -> None:
    loaded = {name for name in sys.modules if name.startswith("pyspark")}

    browse.get(address, {"queue": known})

    assert {name for name in sys.modules if name.startswith("pyspark")} == loaded
