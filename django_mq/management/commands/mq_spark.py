"""Run a job of the data pipeline in this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.management.arguments import argument, one_of
from django_mq.management.command import MQCommand
from django_mq.management.spark import archive, insights, progress, publish, whatif  # noqa: F401 - they register jobs
from django_mq.management.spark.jobs import JOBS, add_jobs, job
from django_mq.pipeline import preflight
from django_mq.pipeline.session import examine, explaining

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Command(MQCommand):
    help = (
        "The data pipeline on Spark. Needs django-mq[spark] and Java 17; 'mq_spark doctor' says what is missing."
    )
    arguments: ClassVar = (
        one_of(
            argument("--master", metavar="URL", help="Spark's master; default: this machine's processors."),
            argument("--remote", metavar="URL", help="A Spark Connect server, sc://HOST[:PORT]."),
        ),
        argument("--conf", metavar="KEY=VALUE", action="append", default=[], help="A setting of Spark."),
        argument(
            "--py-files",
            metavar="FILE",
            action="append",
            default=[],
            help="A .zip or .py that executors import and that is not installed there.",
        ),
        add_jobs,
    )
    json = ""

    def run(self, alias: str, **options: Any) -> None:
        self._options = options
        if options["remote"]:
            os.environ["SPARK_REMOTE"] = options["remote"]
        if options["job"] != "export":
            preflight.check_packages()
        with explaining(), progress.told(self.stderr, options["job"]) as self._session_opened:
            JOBS[options["job"]].run(self, alias, **options)

    def session(self) -> SparkSession:
        """Return the Spark session for the options of the command line."""
        from django_mq.pipeline.session import open_session, send_along

        settings = dict(map(_setting, self._options["conf"]))
        name = f"mq_spark {self._options['job']}"
        spark = open_session(name, master=self._options["master"], options=settings)
        send_along(spark, *self._options["py_files"])
        self._session_opened(spark)
        return spark


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"--conf {text!r} is not of the form KEY=VALUE.")
    return name, value


@job("Check that Spark, the executors and the database work together.")
def doctor(command: Command, alias: str, **_: Any) -> None:
    preflight.check()
    for found in examine(command.session(), alias):
        command.stdout.write(found)
