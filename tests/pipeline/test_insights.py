"""The figures of a history, through Spark and into the tables, against plain SQL."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.core.management import call_command
from django.db.models import Count, Q, Sum
from django.utils import timezone

from django_mq.engine import histograms
from django_mq.engine.percentiles import percentile
from django_mq.errors import PipelineError
from django_mq.insights import figures, reading
from django_mq.insights.figures import Day
from django_mq.models import Attempt, History, InsightCause, InsightHour, Message, Queue
from django_mq.pipeline.archive import job as archive_job
from django_mq.pipeline.insights.job import compute
from tests.pipeline.conftest import MORNING, finished

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY = MORNING.date()
SPAN = {"since": datetime(2026, 3, 1, tzinfo=UTC), "until": datetime(2026, 3, 4, tzinfo=UTC)}


def some_history(alias: str) -> None:
    """Two queues, two days, every outcome; ``invoices`` has two levels."""
    Queue.objects.using(alias).create(name="invoices", levels=2)
    rows = [
        finished(
            number,
            published_at=MORNING + timedelta(minutes=7 * number),
            queue_name="orders" if number % 3 else "invoices",
            priority=number % 10,
            outcome=History.Outcome.EXPIRED if number % 11 == 0 else History.Outcome.ACCEPTED,
            attempts=number % 4,
            session_id=number % 2,
        )
        for number in range(1, 301)
    ]
    History.objects.using(alias).bulk_create(rows)


@pytest.mark.on("postgresql")
def test_the_hours_are_those_of_plain_sql(spark: SparkSession, committed_database: str, tmp_path: Path) -> None:
    alias = committed_database
    some_history(alias)
    truth = History.objects.using(alias)
    said = {
        (row["queue_name"], row["finished_at__hour"], row["finished_at__day"]): (row["n"], row["retries"])
        for row in truth.filter(outcome=History.Outcome.ACCEPTED)
        .values("queue_name", "finished_at__hour", "finished_at__day")
        .annotate(n=Count("id"), retries=Sum("attempts"))
    }
    expired = truth.aggregate(n=Count("id", filter=Q(outcome=History.Outcome.EXPIRED)))["n"]

    assert compute(spark, alias, DAY, DAY + timedelta(days=2)) > 0

    rows = [*reading.hours(alias, **SPAN).filter(level=InsightHour.ALL_LEVELS)]
    assert {
        (row.queue_name, row.hour.hour, row.hour.day): (row.completions, row.retries)
        for row in rows
        if row.completions
    } == said
    assert sum(row.expired for row in rows) == expired
    assert {row.wait_p95 for row in rows if row.completions} == {2.0}
    assert {row.run_p50 for row in rows if row.completions} == {1.0}
    levels = set(reading.hours(alias, **SPAN, queue="invoices").values_list("level", flat=True))
    assert levels == {InsightHour.ALL_LEVELS, 0, 1}

    before = [*InsightHour.objects.using(alias).order_by("queue_name", "level", "hour").values()]
    archive_job.archive(lambda: spark, alias, str(tmp_path), older_than=timedelta(0))
    assert truth.count() == 0
    compute(spark, alias, DAY, DAY + timedelta(days=2))
    after = [*InsightHour.objects.using(alias).order_by("queue_name", "level", "hour").values()]
    assert [{**row, "id": 0} for row in after] == [{**row, "id": 0} for row in before]


@pytest.mark.django_db(databases=["default"], transaction=True)
class TestOnOneDatabase:
    """What does not depend on the kind of database is shown on SQLite."""

    def test_an_empty_history_has_no_figures(self, spark: SparkSession) -> None:
        assert compute(spark, "default", DAY, DAY) == 0
        with pytest.raises(PipelineError, match="There is no day"):
            compute(spark, "default", DAY, DAY - timedelta(days=1))

    def test_what_is_written_and_not_purged_counts_once(self, spark: SparkSession, tmp_path: Path) -> None:
        some_history("default")
        archive_job.archive(lambda: spark, "default", str(tmp_path), older_than=timedelta(0), keep=True)

        compute(spark, "default", DAY, DAY + timedelta(days=2))

        total = InsightHour.objects.filter(level=InsightHour.ALL_LEVELS).aggregate(n=Sum("arrivals"))["n"]
        assert total == 300

    def test_what_waits_now_stands_in_the_depth(self, spark: SparkSession) -> None:
        queue = Queue.objects.create(name="orders")
        made = {"queue": queue, "state": 1, "level": 4, "priority": 4, "content_type": "", "body": b""}
        since = timezone.now() - timedelta(hours=3)
        for number in range(5):
            Message.objects.create(message_id=finished(number).message_id, published_at=since, **made)

        today = timezone.now().astimezone(UTC).date()
        compute(spark, "default", since.date(), today)

        latest = InsightHour.objects.filter(level=InsightHour.ALL_LEVELS).order_by("-hour").first()
        assert latest is not None
        assert latest.depth_start == 5

    def test_causes_are_counted(self, spark: SparkSession) -> None:
        queue = Queue.objects.create(name="orders")
        made = {"state": 3, "level": 4, "priority": 4, "content_type": "", "body": b"", "published_at": MORNING}
        rows = [
            ("ValueError", {}),
            ("ValueError", {}),
            ("", {"x-origin-queue": "first", "x-dead-reason": "expired"}),
        ]
        for number, (reason, headers) in enumerate(rows):
            died = {"dead_reason": reason, "dead_at": MORNING, "headers": headers}
            state = {"state": 1} if headers else {}
            Message.objects.create(
                queue=queue, message_id=finished(number).message_id, **{**made, **died, **state}
            )
        Attempt.objects.create(queue_name="orders", number=1, failed_at=MORNING, error="KeyError")

        compute(spark, "default", DAY, DAY)

        found = {(row.queue_name, row.dead, row.reason): row.messages for row in InsightCause.objects.all()}
        assert found == {
            ("orders", True, "ValueError"): 2,
            ("first", True, "expired"): 1,
            ("orders", False, "KeyError"): 1,
        }
        assert reading.causes("default", "orders", since=DAY, until=DAY)[0] == (True, "ValueError", 2)

    def test_causes_that_are_no_more_go_when_their_day_is_counted_again(self, spark: SparkSession) -> None:
        queue = Queue.objects.create(name="orders")
        now = timezone.now()
        old, new = (now - timedelta(days=40)).date(), now.date()
        made = {"queue": queue, "state": 3, "level": 4, "priority": 4, "content_type": "", "body": b""}
        Message.objects.create(
            message_id=finished(1).message_id, published_at=now, dead_at=now, dead_reason="ValueError", **made
        )
        Attempt.objects.create(queue_name="orders", number=1, failed_at=now, error="KeyError")
        gone = Attempt.objects.create(queue_name="orders", number=1, failed_at=now, error="x" * 255)
        compute(spark, "default", new, new)
        gone.delete()
        Message.objects.all().delete()
        for day, dead in ((old, True), (old, False), (new - timedelta(days=1), True)):
            InsightCause.objects.create(queue_name="orders", day=day, dead=dead, reason="known", messages=1)

        compute(spark, "default", old, new)

        # Maintenance has deleted the failed attempts of a day so long ago: what is known of it stays.
        found = {(row.day, row.dead, row.reason) for row in InsightCause.objects.all()}
        assert found == {(new, False, "KeyError"), (old, False, "known")}

    def test_hours_of_levels_that_are_no_more_go_when_their_day_is_counted_again(
        self, spark: SparkSession
    ) -> None:
        some_history("default")
        compute(spark, "default", DAY, DAY + timedelta(days=2))
        Queue.objects.filter(name="invoices").update(levels=1)
        History.objects.filter(queue_name="orders", finished_at__date=DAY).delete()

        compute(spark, "default", DAY, DAY + timedelta(days=2))

        levels = InsightHour.objects.filter(queue_name="invoices").values_list("level", flat=True)
        assert set(levels) == {InsightHour.ALL_LEVELS, 0}
        # Nothing is left of that day to count: what is known of it stays.
        assert InsightHour.objects.filter(queue_name="orders", hour__date=DAY).exists()

    def test_the_command_prints_and_exports(self, spark: SparkSession) -> None:
        now = timezone.now() - timedelta(minutes=1)
        History.objects.bulk_create([finished(number, published_at=now) for number in range(1, 5)])

        def run(*arguments: str) -> str:
            out = io.StringIO()
            call_command("mq_spark", *arguments, stdout=out)
            return out.getvalue()

        printed = run("insights", "--days", "2", "--slo", "1")
        assert "QUEUE" in printed
        assert printed.splitlines()[2].split()[:3] == ["orders", "4", "4"]
        rows = json.loads(run("export", "--days", "2"))
        assert sum(row["arrivals"] for row in rows if row["level"] == -1) == 4
        assert sum(row["slo_misses"] for row in rows if row["level"] == -1) == 4
        lines = run("export", "--days", "2", "--format", "csv").splitlines()
        assert lines[0].startswith("queue_name,level,hour,arrivals")
        assert len(lines) == len(rows) + 1


def test_percentiles_of_merged_histograms_are_near_the_exact_ones() -> None:
    waits = [0.0005 + 0.01 * number for number in range(1000)]
    halves = [waits[::2], waits[1::2]]
    merged = histograms.merged(
        json.dumps(dict(Counter(str(histograms.bucket(wait)) for wait in half))) for half in halves
    )

    for percent in (50, 95, 99):
        assert histograms.quantile(merged, percent) == pytest.approx(waits[10 * percent], rel=0.1)
    assert percentile({}, 50) is None


def test_a_growing_queue_is_seen_to_outgrow_its_workers() -> None:
    days = {DAY + timedelta(days=number): Day(8640 * (4 + number), 1.0, 1) for number in range(4)}

    assert figures.outgrown(days) == date(2026, 3, 8)
    assert figures.outgrown({DAY: Day(86400, 1.0, 1)}) == DAY
    assert figures.outgrown({DAY: Day(100, 1.0, 1)}) is None
    assert figures.outgrown({DAY + timedelta(days=number): Day(100, 1.0, 1) for number in range(5)}) is None
    assert figures.outgrown({DAY: Day(100, 1.0, 0)}) is None
