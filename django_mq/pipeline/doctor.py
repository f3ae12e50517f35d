"""Does it work from end to end? Versions, the session, and the database as the executors see it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from django_mq.pipeline import preflight
from django_mq.pipeline.session import explaining
from django_mq.pipeline.source import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def examine(spark: SparkSession, alias: str) -> Iterator[str]:
    """Yield a line for each thing that works. Raises PipelineError at the first that does not."""
    java = preflight.find_java()
    yield ", ".join(f"{name} {version(name)}" for name in preflight.PACKAGES)
    yield f"Java {preflight.java_version(java)} at {java}" if java else "no Java here: Spark runs elsewhere"
    yield f"Spark {spark.version}, master {spark.conf.get('spark.master', 'a Connect server')}"
    with explaining():
        rows = read(spark, using=alias, columns="id").count()
    yield f"the executors reach the database {alias!r}: {rows:,} rows of history"
