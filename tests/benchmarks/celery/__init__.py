"""Celery's workers and publishers on django_mq, beside the same ones on Kombu's Redis transport.

    python -m tests.benchmarks.celery [MEASURE ...] [--quick] [--repeats N] [--json FILE]

Both sides take turns in one run, with the same tasks, Celery's default settings, and a Django project around
them. PostgreSQL and Redis are those of DATABASE_URL and REDIS_URL, or are started. What is measured, and what the
figures were: docs/benchmarks.md.
"""
