"""The Celery project that measured workers run: a task that does nothing, one that tells the time."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

from billiard.process import current_process
from celery import Celery

from django_mq.benchmarks.counter import Counter
from django_mq.integrations.celery.alias import register

register()

app = Celery("mq_bench", broker=os.environ.get("MQ_BENCH_BROKER", "django-mq://"))
app.conf.update(
    task_ignore_result=True,
    task_default_queue=os.environ.get("MQ_BENCH_QUEUE", "mq_bench_celery"),
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=True,
)


@cache
def _counter() -> Counter | None:
    path = os.environ.get("MQ_BENCH_COUNTER")
    return Counter(Path(path), getattr(current_process(), "index", 0)) if path else None


@app.task(name="mq_bench.nothing")
def nothing() -> None:
    """Cost next to nothing: a number in shared memory says that it ran."""
    counter = _counter()
    if counter is not None:
        counter.add()


@app.task(name="mq_bench.stamp")
def stamp(sent_at: float, path: str) -> None:
    """Append how many seconds ago it was sent."""
    waited = time.time() - sent_at
    with open(path, "a", encoding="ascii") as file:  # noqa: PTH123 - opened in the hot path of a measurement
        file.write(f"{waited}\n")
