"""The Celery app that is measured: the same tasks with either broker and each result backend."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from tests.benchmarks.celery.project import stamp


def make(broker: str, backend: str) -> Celery:
    """Return an app with the benchmark's tasks."""
    app = Celery("bench", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(task_default_queue="bench", broker_connection_retry_on_startup=True)
    app.task(name="bench.answer")(answer)
    app.task(name="bench.answer_nobody", ignore_result=True)(answer)
    app.task(name="bench.member")(member)
    app.task(name="bench.body")(body)
    app.task(name="bench.stamp", ignore_result=True)(stamp)
    return app


def answer(number: int) -> int:
    """Return what was given."""
    return number


def member() -> float:
    """Say when this ran."""
    return time.time()


def body(ends: list[float]) -> tuple[float, float, int]:
    """Say when the last member ran and when this began, and how many members there were."""
    return max(ends), time.time(), len(ends)


app: Any = make(os.environ.get("BENCH_BROKER", "django-mq://"), os.environ.get("BENCH_BACKEND", "django-mq://"))
