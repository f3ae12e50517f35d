"""Compute the insights from the archive, the history and the live messages."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from django_mq.engine.decisions.places import MOST_LEVELS, level_of
from django_mq.errors import PipelineError
from django_mq.models import Queue
from django_mq.pipeline.archive import manifest
from django_mq.pipeline.archive.reader import archived
from django_mq.pipeline.insights.figures import SCHEMA, WaitLimits, counter
from django_mq.pipeline.insights.tables import keep_causes, keep_hours
from django_mq.pipeline.session import explaining
from django_mq.pipeline.source import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The columns for the figures.
NEEDED = (
    "queue",
    "priority",
    "outcome",
    "attempts",
    "published_at",
    "ready_at",
    "claimed_at",
    "finished_at",
    "session_id",
)


def compute(spark: SparkSession, alias: str, since: date, until: date, limits: WaitLimits = WaitLimits()) -> int:  # noqa: B008 - frozen
    """Compute the figures of the days from ``since`` to ``until``, both included, in UTC, and store them.

    Existing figures of these days are replaced. Returns how many rows were written, 0 for an
    empty history. Raises PipelineError.
    """
    if until < since:
        raise PipelineError(f"There is no day from {since} to {until}.")
    with explaining():
        figures = hours(messages(spark, alias, since), alias, since, until, limits).collect()
    # Without future hours: how long live messages will wait is unknown.
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    past = [row.asDict() for row in figures if row["hour"] <= now]
    keep_hours(past, alias)
    keep_causes(alias, since, until)
    return len(past)


def messages(spark: SparkSession, alias: str, since: date) -> DataFrame:
    """Return all messages finished since that day, from the archive and the history, and the live ones."""
    return finished(spark, alias, since, NEEDED).unionByName(in_line(spark, alias))


def finished(spark: SparkSession, alias: str, since: date, columns: tuple[str, ...]) -> DataFrame:
    """Return all messages finished since that day, from the archive and the history, each once."""
    start = datetime(since.year, since.month, since.day, tzinfo=UTC)
    found: DataFrame = read(
        spark, using=alias, columns=",".join({"id", "finished_at", *columns}), finished_since=start
    )
    if any(day >= since.isoformat() for batch in manifest.readable(alias) for day in batch.days):
        there = archived(spark, alias, since=since)
        if manifest.under_way(alias) is not None:
            # Rows that are written and not purged are in both places.
            found = found.join(there.select("id"), "id", "left_anti")
        return found.select(*columns).unionByName(there.select(*columns))
    return found.select(*columns)


def in_line(spark: SparkSession, alias: str) -> DataFrame:
    """Return the live messages that are or were ready: they count for the depth, too."""
    live: DataFrame = read(spark, "live", using=alias)
    return live.where("state in ('ready', 'claimed')").selectExpr(
        "queue",
        "priority",
        "'live' outcome",
        "attempts",
        "published_at",
        "greatest(coalesce(deliver_at, published_at), published_at) ready_at",
        "claimed_at",
        "cast(null as timestamp) finished_at",
        "cast(null as bigint) session_id",
    )


def hours(frame: DataFrame, alias: str, since: date, until: date, limits: WaitLimits) -> DataFrame:
    """Return the figures of every queue, level and hour of these days."""
    from pyspark.sql import functions as f

    end = f.coalesce(f.to_date("finished_at"), f.lit(until))
    first = f.greatest(f.to_date(f.least("published_at", "ready_at")), f.lit(since))
    last = f.least(end, f.lit(until))
    overlapping = frame.where(first <= last)
    spread = overlapping.withColumn("day", f.explode(f.sequence(first, last, f.expr("interval 1 day"))))
    levels = dict(Queue.objects.using(alias).values_list("name", "levels"))
    tables = {name: [level_of(priority, count) for priority in range(10)] for name, count in levels.items()}
    unknown = [level_of(priority, MOST_LEVELS) for priority in range(10)]
    return spread.groupBy("queue", "day").applyInArrow(counter(tables, unknown, limits), SCHEMA)
