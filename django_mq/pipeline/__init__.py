"""Spark jobs over the messages: read, archive, count, publish again, simulate.

The rest of django_mq imports nothing from here, and importing this package does not import
Spark. A job runs in a process of its own (``manage.py mq_spark``), never in a web or a
worker process. Jobs use DataFrames only, so that they run on a laptop, a standalone cluster
and a Connect server.

preflight.py  check that Spark, Java and the packages are installed
session.py    open a Spark session
source.py     the data source ``django_mq``; datasets.py has its columns, pages.py reads them
stream.py     the history as a stream
archive/      move history to the archive, and restore it
publisher.py  publish a DataFrame once; outgoing.py converts its rows to messages
sink.py       the data source as a target
replay.py     publish a day of the archive again
insights/     figures of every hour
whatif/       simulate a day with other settings
executors.py  Django in the processes that Spark starts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> SparkSession:
    """Register the format ``django_mq`` in a Spark session, and set its options; return the session.

    For sessions that you have not opened with this package: a notebook's, a cluster's, a Connect client's.
    Executors need Django, this package and ``DJANGO_SETTINGS_MODULE``.
    """
    from django_mq.pipeline.session import prepare

    return prepare(spark)
