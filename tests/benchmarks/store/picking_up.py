"""Pick-up by an idle native worker, beside a thread that waits for a Redis message and then claims a row.

The worker runs in a thread of this process. Hints go through Redis all the same.
"""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from redis import Redis

from django_mq.benchmarks.measures import PATIENCE_SECONDS, Measure, Stopwatch, pick_ups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.store.environment import Environment
    from tests.benchmarks.store.raw import RawTable

CHANNEL = "mq_bench_raw"


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield p50 and p99, beside the raw chain where there is Redis."""
    samples = environment.amount(200, 40)
    waits = pick_ups(environment.alias, samples)
    raw = _raw(environment.raw, environment.redis_url, samples) if environment.redis_url else []
    ours, limits = quantiles(waits, n=100), quantiles(raw, n=100) if raw else None
    for percent in (50, 99):
        limit = limits[percent - 1] if limits else None
        yield Measure(f"pickup_p{percent}", ours[percent - 1], "ms", limit, waits)


def _raw(raw: RawTable, redis_url: str, samples: int) -> list[float]:
    clock = Stopwatch()

    def send() -> None:
        raw.insert_one()
        client.publish(CHANNEL, b"1")

    with Redis.from_url(redis_url) as client, _claiming(raw, client, clock):
        return clock.waits(send, samples)


@contextmanager
def _claiming(raw: RawTable, client: Redis, clock: Stopwatch) -> Iterator[None]:
    """Claim in a thread whenever Redis says so."""
    stopping, ready = threading.Event(), threading.Event()

    def run() -> None:
        listening: Any = client.pubsub
        with closing(raw.connection()) as driver, listening(ignore_subscribe_messages=True) as pubsub:
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
