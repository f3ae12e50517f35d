"""Results: a program that waits for them, chords, and what it costs to write them.

    python -m tests.benchmarks.results [MEASURE ...] [--quick] [--repeats N] [--json FILE]

All sides take turns in one run: django_mq on PostgreSQL, with hints through PostgreSQL; Celery with Redis as
broker and as result backend; django-celery-results; and plain psycopg with the same commits and notifications. The
servers are those of DATABASE_URL and REDIS_URL, or are started. What is measured, and what the figures were:
docs/benchmarks.md.
"""
