"""What a project that limits a queue declares beside its tasks; ``celery worker --include`` imports it."""

from __future__ import annotations

from django_mq.limits import concurrency

concurrency("celery", 1, key="argument:name", place=0)
