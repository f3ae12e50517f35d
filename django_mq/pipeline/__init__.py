"""What went through the queues, on Spark: read, archived, counted, published again, simulated.

Nothing here is imported by the rest of django_mq, and importing this package imports no
Spark. A job runs in a process of its own (``manage.py mq_spark``), never in a web or a
worker process. Everything is said in DataFrames, so that a laptop, a standalone cluster
and a Connect server all run it.

A job goes through the files in this order: ``preflight`` (is everything there?),
``session``, then one of ``archive``, ``insights``, ``publishing``, ``whatif``. What they
read and write goes through ``source``, the data source ``django_mq``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> SparkSession:
    """Teach a session the format ``django_mq``, and set what it needs; return the session.

    For sessions made by somebody else: a notebook's, a cluster's, a Connect client's.
    Executors need Django, this package and ``DJANGO_SETTINGS_MODULE``.
    """
    from django_mq.pipeline.session import prepare

    return prepare(spark)
