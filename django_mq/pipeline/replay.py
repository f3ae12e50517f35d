"""Publish a day of the archive again, into a queue of your choice, at its own pace or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.delivery.codecs import MARK, key_of
from django_mq.delivery.queues import check_declared
from django_mq.diagnosis.messages.copies import TRACE_CONTEXT
from django_mq.errors import PipelineError
from django_mq.pipeline.archive.reader import archived
from django_mq.pipeline.publisher import Published, job, publish_frame

if TYPE_CHECKING:
    from datetime import date, datetime

    from pyspark.sql import Column, DataFrame, SparkSession

#: The header with the id of the original message.
ORIGIN = "x-replayed-id"


def replay(
    spark: SparkSession, alias: str, day: date, queue: str, *, speed: float = 0.0, key: str = ""
) -> Published:
    """Publish a day's messages into ``queue``, once per key; without a key, once per day and queue.

    With ``speed`` 1 they come at the pace of that day, with 10 ten times as fast, beginning now;
    with 0 all at once. Raises PipelineError, UnknownQueue.
    """
    if speed < 0:
        raise PipelineError(
            "The speed of a replay is 0 for all at once, 1 for the original pace, 10 for ten times that pace."
        )
    check_declared(queue, using=alias)
    rows = archived(spark, alias, since=day, until=day)
    check_readable(rows, day)
    key = key or f"replay {day} into {queue}"
    # The pace begins with the first attempt, so that another attempt makes the same messages.
    return publish_frame(messages(rows, queue, job(key, alias).started_at, speed), key, alias)


def check_readable(rows: DataFrame, day: date) -> None:
    """Raise PipelineError if a body is encrypted: the archive does not have what the message would need."""
    from pyspark.sql import functions as f

    marked = rows.where(f.substring("body", 1, len(MARK)) == f.lit(MARK)).select("body").first()
    if marked is not None:
        raise PipelineError(
            f"Messages of {day} are encrypted, for example with the key {key_of(bytes(marked[0]))!r}, and are not"
            " replayed; publish what you need of them with code that decrypts them."
        )


def messages(rows: DataFrame, queue: str, start: datetime, speed: float) -> DataFrame:
    """Return the messages to publish for rows of the archive."""
    from pyspark.sql import functions as f

    json = f.col("body").isNull() | f.try_parse_json(f.col("body").cast("string")).isNotNull()
    # As variants, numbers stay numbers: no selector matches a text as a number.
    known = f.coalesce(f.from_json("headers", "map<string,variant>"), f.create_map().cast("map<string,variant>"))
    # Without that day's trace context: a replay is no part of those traces.
    headers = f.map_filter(known, lambda name, _: ~f.lower(name).isin(*TRACE_CONTEXT))
    origin = f.create_map(f.lit(ORIGIN), f.col("message_id").cast("variant"))
    chosen: list[Column] = [
        f.lit(queue).alias("queue"),
        f.col("body"),
        f.when(json, "application/json").otherwise("application/octet-stream").alias("content_type"),
        f.col("priority"),
        f.to_json(f.map_concat(headers, origin)).alias("headers"),
        f.col("type"),
        f.col("correlation_id"),
    ]
    if speed:
        first = rows.agg(f.min("ready_at")).first()
        offset = (f.unix_micros("ready_at") - f.unix_micros(f.lit(first[0] if first else None))) / speed
        begun = int(start.timestamp() * 1_000_000)
        chosen.append(f.timestamp_micros((f.lit(begun) + offset).cast("bigint")).alias("deliver_at"))
    made: DataFrame = rows.select(*chosen)
    return made
