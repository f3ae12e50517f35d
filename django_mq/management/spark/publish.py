"""publish, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.delivery.queues import check_declared
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import argument
from django_mq.management.spark.jobs import job
from django_mq.management.spark.values import day_of

if TYPE_CHECKING:
    from datetime import date

    from django_mq.pipeline.publisher import Published


@job(
    "Publish the rows of Parquet, CSV or JSON files, each once.",
    argument("paths", nargs="+", metavar="PATH", help="Files or directories."),
    argument("--format", choices=["parquet", "csv", "json"], default="parquet"),
    argument("--job", dest="key", required=True, metavar="KEY", help="The load's key: it is published once."),
    argument("--queue", help="The queue of all messages; default: the column queue names it."),
)
def publish(command: Any, alias: str, *, paths: list[str], key: str, queue: str | None, **options: Any) -> None:
    from pyspark.sql import functions as f

    from django_mq.pipeline.publisher import publish_frame
    from django_mq.pipeline.session import explaining

    if queue is not None:  # without Spark's stack of Java
        check_declared(queue, using=alias)
    reader = command.session().read.format(options["format"])
    if options["format"] == "csv":
        reader = reader.option("header", "true").option("multiLine", "true").option("escape", '"')
    with explaining():
        frame = reader.load(paths)
        if queue is not None:
            frame = frame.withColumn("queue", f.lit(queue))
        if "priority" in frame.columns:
            frame = frame.withColumn("priority", f.col("priority").cast("int"))
    _say(command, publish_frame(frame, key, alias))


@job(
    "Publish a day of the archive again, into a queue for tests.",
    argument("--day", type=day_of, required=True, metavar="YYYY-MM-DD"),
    argument("--queue", required=True),
    argument("--speed", type=float, default=0.0, help="1 is the recorded pace; 0, the default, all at once."),
    argument("--job", dest="key", default="", metavar="KEY", help="A new key replays the day once more."),
)
def replay(command: Any, alias: str, *, day: date, queue: str, speed: float, key: str, **_: Any) -> None:
    from django_mq.pipeline.replay import replay as run

    check_declared(queue, using=alias)
    _say(command, run(command.session(), alias, day, queue, speed=speed, key=key))


def _say(command: Any, done: Published) -> None:
    before = done.rows - done.now
    more = f", {PLAIN.number(before)} were published before." if before else "."
    command.stdout.write(f"{plural(done.now, 'message')} published{more}")
