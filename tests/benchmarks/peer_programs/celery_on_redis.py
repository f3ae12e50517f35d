"""Celery on Redis: publish one by one over one connection, drain by a prefork worker of two processes."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from celery import Celery
from common import PATIENCE_SECONDS, PAUSE_SECONDS, SAMPLES, WARM_UP, Stopwatch, answer, given

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE, ARRIVALS = "peer_celery", "peer_arrivals"
URL = os.environ.get("PEER_REDIS_URL") or sys.argv[2]
app = Celery("celery_on_redis", broker=URL)
app.conf.update(task_ignore_result=True, task_default_queue=QUEUE, worker_prefetch_multiplier=64)
client = redis.Redis.from_url(URL)


@app.task(name="peer.nothing")
def nothing(number: int) -> None:
    """Do nothing."""


@app.task(name="peer.arrive")
def arrive() -> None:
    """Say when; all processes of a machine have the same clock."""
    client.rpush(ARRIVALS, time.perf_counter())


def waiting() -> int:
    return int(client.llen(QUEUE)) + int(client.hlen("unacked"))


@contextmanager
def worker() -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "celery", "-A", "celery_on_redis", "worker", "-c", "2", "-l", "ERROR"]
    environment = os.environ | {"PEER_REDIS_URL": URL, "PYTHONPATH": str(Path(__file__).parent)}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, **quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def drained(amount: int, process: subprocess.Popen) -> float:
    """Wait until all is done, counting from the moment at which the worker takes the first."""
    while client.llen(QUEUE) == amount and process.poll() is None:
        time.sleep(0.002)
    watch = Stopwatch()
    while waiting() and process.poll() is None:
        time.sleep(0.01)
    return watch.rate(amount)


def pick_ups() -> list[float]:
    waits = []
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(SAMPLES + WARM_UP):
            begin = time.perf_counter()
            arrive.apply_async(producer=producer)
            found = client.blpop(ARRIVALS, timeout=PATIENCE_SECONDS)
            waits.append((float(found[1]) - begin) * 1000)
            time.sleep(PAUSE_SECONDS)
    return waits[WARM_UP:]


def main() -> None:
    amount = given()[2]
    client.delete(QUEUE, ARRIVALS, "unacked", "unacked_index")
    watch = Stopwatch()
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(amount):
            nothing.apply_async((number,), producer=producer)
    published = watch.rate(amount)
    with worker() as process:
        rate = drained(amount, process)
        waits = pick_ups()
    answer(one=published, many=None, drain=rate, waits=waits)


if __name__ == "__main__":
    main()
