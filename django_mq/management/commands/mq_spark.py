"""Jobs of the data pipeline, each in the process that this command is."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.management.command import MQCommand
from django_mq.management.spark.archive import ARCHIVE_JOBS, add_archive_jobs
from django_mq.management.spark.insights import INSIGHT_JOBS, add_insight_jobs
from django_mq.management.spark.publish import PUBLISH_JOBS, add_publish_jobs
from django_mq.management.spark.whatif import WHATIF_JOBS, add_whatif_jobs
from django_mq.pipeline import preflight
from django_mq.pipeline.progress import line, watched

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

    from pyspark.sql import SparkSession


#: To a terminal: the line's beginning, and nothing in it.
CLEAR = "\r\x1b[K"


class Command(MQCommand):
    help = (
        "The data pipeline on Spark. Needs django-mq[spark] and Java 17; 'mq_spark doctor' says what is missing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--master", metavar="URL", help="Spark's master; this process and all its processors.")
        where.add_argument("--remote", metavar="URL", help="A Spark Connect server, sc://HOST[:PORT].")
        parser.add_argument(
            "--conf", metavar="KEY=VALUE", action="append", default=[], help="A setting of Spark's."
        )
        parser.add_argument(
            "--py-files",
            metavar="FILE",
            action="append",
            default=[],
            help="A .zip or .py that executors import and that is not installed there.",
        )
        jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
        jobs.add_parser("doctor", help="Say whether Spark, the executors and the database work together.")
        add_archive_jobs(jobs)
        add_publish_jobs(jobs)
        add_insight_jobs(jobs)
        add_whatif_jobs(jobs)

    def run(self, alias: str, **options: Any) -> None:
        if options["remote"]:
            os.environ["SPARK_REMOTE"] = options["remote"]
        if options["job"] != "export":
            preflight.check_packages()
        self._told: tuple[int, int] | None = None
        with ExitStack() as self._watching:
            JOBS[options["job"]](self, alias, options)

    def session(self, options: dict[str, Any]) -> SparkSession:
        from django_mq.pipeline.session import open_session, send_along

        settings = dict(_setting(text) for text in options["conf"])
        spark = open_session(f"mq_spark {options['job']}", master=options["master"], options=settings)
        send_along(spark, *options["py_files"])
        self._watching.enter_context(watched(spark, options["job"], self.tell))
        return spark

    def tell(self, name: str, done: int, tasks: int) -> None:
        """Draw a bar on a terminal; elsewhere write a line when a task is done."""
        if (done, tasks) != self._told:
            self._told = (done, tasks)
            start, end = (CLEAR, "\r") if self.stderr.isatty() else ("", "\n")
            self.stderr.write(start + line(name, done, tasks), ending=end)

    def say(self, text: str) -> None:
        """Print a line that tells what was done, in the place of the bar."""
        if self._told and self.stderr.isatty():
            self.stderr.write(CLEAR, ending="")
        self.stdout.write(text)


def doctor(command: Command, alias: str, options: dict[str, Any]) -> None:
    from django_mq.pipeline.preflight import examine

    preflight.check()
    for found in examine(command.session(options), alias):
        command.say(found)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"--conf {text!r} is not of the form KEY=VALUE.")
    return name, value


#: Jobs by name.
JOBS: dict[str, Callable[[Any, str, dict[str, Any]], None]] = {
    "doctor": doctor,
    **ARCHIVE_JOBS,
    **PUBLISH_JOBS,
    **INSIGHT_JOBS,
    **WHATIF_JOBS,
}
