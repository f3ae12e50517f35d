"""Pick-up by an idle native worker: from just before the publish to the handler's first line.

The worker runs in a thread of this process, and so does its raw counterpart: one that
waits for a Redis message and then claims a row. Hints go through Redis all the same.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measuring import QUEUE, Measure, measured, percentile
from django_mq.delivery.handlers import Handler
from django_mq.delivery.publishing import publish
from django_mq.delivery.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis

    from django_mq.benchmarks.ground import Ground, RawLimits

#: The worker has so long, in seconds, to become idle again between two samples: ten milliseconds
#: after a message it writes its settlement, and a publish at that moment would wait for that commit.
PAUSE_SECONDS = 0.03
#: A sample that takes longer, in seconds, ends the benchmark.
PATIENCE_SECONDS = 30.0
#: Samples thrown away at the beginning: they open connections.
WARM_UP = 10
CHANNEL = "mq_bench_raw"


class Clock:
    """Stamps the moment at which something arrived, for whoever waits for it."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._at = 0.0

    def stamp(self, *_: object) -> None:
        """Arrive."""
        self._at = time.perf_counter()
        self._arrived.set()

    def milliseconds(self, send: Callable[[], object]) -> float:
        """Send, wait for the arrival, and return the time between. Raises RuntimeError."""
        self._arrived.clear()
        begin = time.perf_counter()
        send()
        if not self._arrived.wait(PATIENCE_SECONDS):
            raise RuntimeError("A message of the benchmark did not arrive.")
        return (self._at - begin) * 1000


def measure(ground: Ground) -> Iterator[Measure]:
    """Yield p50 and p99, beside the raw chain where there are psycopg and Redis."""
    samples = ground.amount(200, 40)
    waits = _ours(ground.alias, samples)
    raw = _raw(ground.raw, ground.redis_url, samples) if ground.raw is not None and ground.redis_url else []
    for name, share in (("pickup_p50", 0.5), ("pickup_p99", 0.99)):
        limit = percentile(raw, share) if raw else None
        yield measured(name, percentile(waits, share), "ms", limit=limit, runs=waits)


def _ours(alias: str, samples: int) -> list[float]:
    clock = Clock()
    handler = Handler(queue=QUEUE, function=clock.stamp, credit=20, time_limit_seconds=None)
    worker = Worker([handler], threads=1, using=alias)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        return _sampled(clock, lambda: publish(QUEUE, {"n": 1}, using=alias), samples)
    finally:
        worker.stop()
        thread.join()


def _sampled(clock: Clock, send: Callable[[], object], samples: int) -> list[float]:
    waits = []
    for _ in range(samples + WARM_UP):
        waits.append(clock.milliseconds(send))
        time.sleep(PAUSE_SECONDS)
    return waits[WARM_UP:]


def _raw(raw: RawLimits, redis_url: str, samples: int) -> list[float]:
    from redis import Redis  # noqa: PLC0415 - measured only where Redis is configured

    clock = Clock()

    def send() -> None:
        raw.insert_one_by_one(1)
        client.publish(CHANNEL, b"1")

    with Redis.from_url(redis_url) as client, _claiming(raw, client, clock):
        return _sampled(clock, send, samples)


@contextmanager
def _claiming(raw: RawLimits, client: Redis, clock: Clock) -> Iterator[None]:
    """Claim in a thread whenever Redis says so."""
    stopping = threading.Event()
    ready = threading.Event()

    def run() -> None:
        listening: Any = client.pubsub
        with raw.connection() as driver, listening(ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(CHANNEL)
            pubsub.get_message(timeout=1.0)
            ready.set()
            while not stopping.is_set():
                if pubsub.get_message(timeout=0.2) is not None and raw.claim_one(driver):
                    clock.stamp()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not ready.wait(PATIENCE_SECONDS):
        raise RuntimeError("The raw loop that waits for Redis did not begin.")
    try:
        yield
    finally:
        stopping.set()
        thread.join()
