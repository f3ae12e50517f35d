"""The Celery app that is measured: the same tasks on either broker."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery


def make(broker: str) -> Celery:
    """Return an app with the benchmark's tasks."""
    app = Celery("bench", broker=broker, set_as_current=False)
    app.conf.update(task_ignore_result=True, task_default_queue="bench", broker_connection_retry_on_startup=True)
    app.task(name="bench.nothing")(nothing)
    app.task(name="bench.nothing_late", acks_late=True)(nothing)
    app.task(name="bench.stamp")(stamp)
    app.task(name="bench.wait")(wait)
    app.task(name="bench.arrive")(arrive)
    return app


def nothing(number: int) -> None:
    """Do nothing."""


def stamp(file: str) -> None:
    """Say when this ran."""
    with Path(file).open("a", encoding="ascii") as stamps:
        stamps.write(f"{time.time()}\n")


def wait(file: str, sent_at: float) -> None:
    """Say how long this was on its way, in milliseconds."""
    arrived_at = time.time()
    with Path(file).open("a", encoding="ascii") as waits:
        waits.write(f"{(arrived_at - sent_at) * 1000}\n")


def arrive() -> None:
    """Say when this ran, to the process that has started the worker. Celery has redirected ``sys.stdout``."""
    os.write(1, f"{time.perf_counter()}\n".encode())


app: Any = make(os.environ.get("BENCH_BROKER", "django-mq://"))
