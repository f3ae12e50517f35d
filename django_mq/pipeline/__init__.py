"""Spark jobs over the messages: read, archive, count, publish again, simulate.

The rest of django_mq imports nothing from here, and importing this package does not import
Spark. A job runs in a process of its own (``manage.py mq_spark``), never in a web or a
worker process. Jobs use DataFrames only, so that they run on a laptop, a standalone cluster
and a Connect server.

A job uses the files in this order: ``preflight`` (is everything installed?),
``session``, then one of ``archive``, ``insights``, ``publishing``, ``whatif``. They
read and write through ``source``, the data source ``django_mq``.
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
