"""publish, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.management.spark.values import day_of
from django_mq.management.tables import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.pipeline.publishing import Published


def add_publish_jobs(jobs: Any) -> None:
    """Add the jobs' options to the command line."""
    publish = jobs.add_parser("publish", help="Publish the rows of Parquet, CSV or JSON files, each once.")
    publish.add_argument("paths", nargs="+", metavar="PATH", help="Files or directories.")
    publish.add_argument("--format", choices=["parquet", "csv", "json"], default="parquet")
    publish.add_argument(
        "--job", dest="key", required=True, metavar="KEY", help="Of the load: it is published once."
    )
    publish.add_argument("--queue", help="Where all go; without it, the column queue says.")
    replay = jobs.add_parser("replay", help="Publish a day of the archive once more, into a queue for tests.")
    replay.add_argument("--day", type=day_of, required=True, metavar="YYYY-MM-DD")
    replay.add_argument("--queue", required=True)
    replay.add_argument(
        "--speed", type=float, default=0.0, help="1 is the pace it was; 0, all at once, without it."
    )
    replay.add_argument("--job", dest="key", default="", metavar="KEY", help="To replay a day another time.")


def publish(command: Any, alias: str, options: dict[str, Any]) -> None:
    from pyspark.sql import functions as f

    from django_mq.pipeline.publishing import publish_frame
    from django_mq.pipeline.session import explaining

    reader = command.session(options).read.format(options["format"])
    if options["format"] == "csv":
        reader = reader.option("header", "true").option("multiLine", "true").option("escape", '"')
    with explaining():
        frame = reader.load(options["paths"])
        if options["queue"] is not None:
            frame = frame.withColumn("queue", f.lit(options["queue"]))
        if "priority" in frame.columns:
            frame = frame.withColumn("priority", f.col("priority").cast("int"))
    _say(command, publish_frame(frame, options["key"], alias))


def replay(command: Any, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.replay import replay as run

    spark = command.session(options)
    done = run(spark, alias, options["day"], options["queue"], speed=options["speed"], key=options["key"])
    _say(command, done)


def _say(command: Any, done: Published) -> None:
    before = done.rows - done.now
    command.say(f"{plural(done.now, 'message')} published" + (f", {before:,} were before." if before else "."))


PUBLISH_JOBS: dict[str, Callable[[Any, str, dict[str, Any]], None]] = {"publish": publish, "replay": replay}
