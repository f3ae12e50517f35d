"""Celery on Redis: publish one by one over one connection, drain by a prefork worker of two processes."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import redis
from celery import Celery

QUEUE = "peer_celery"
app = Celery("celery_on_redis", broker=os.environ.get("PEER_REDIS_URL") or sys.argv[2])
app.conf.update(task_ignore_result=True, task_default_queue=QUEUE, worker_prefetch_multiplier=64)


@app.task(name="peer.nothing")
def nothing(number: int) -> None:
    """Do nothing."""


def waiting(client: redis.Redis) -> int:
    return int(client.llen(QUEUE)) + int(client.hlen("unacked"))


def main() -> None:
    url, amount = sys.argv[2], int(sys.argv[3])
    client = redis.Redis.from_url(url)
    client.delete(QUEUE, "unacked", "unacked_index")
    begin = time.perf_counter()
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(amount):
            nothing.apply_async((number,), producer=producer)
    published = amount / (time.perf_counter() - begin)
    command = [sys.executable, "-m", "celery", "-A", "celery_on_redis", "worker", "-c", "2", "-l", "ERROR"]
    environment = os.environ | {"PEER_REDIS_URL": url, "PYTHONPATH": str(Path(__file__).parent)}
    worker = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while client.llen(QUEUE) == amount and worker.poll() is None:
            time.sleep(0.002)
        begin = time.perf_counter()
        while waiting(client) and worker.poll() is None:
            time.sleep(0.01)
        drained = amount / (time.perf_counter() - begin)
    finally:
        worker.terminate()
        worker.wait()
    sys.stdout.write(json.dumps({"publish": published, "drain": drained}) + "\n")


if __name__ == "__main__":
    main()
