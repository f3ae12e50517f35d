"""From the command line to the first task."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from django_mq.benchmarks.measures import take_turns
from tests.benchmarks.celery.figures import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.celery.sides import Side
    from tests.benchmarks.store.figures import Judged

#: How much later than on Redis a worker may begin, in seconds.
LATER_SECONDS = 2.0


def measure(bench: Bench, name: str) -> Iterator[Judged]:
    """Yield the seconds until a task that waits for the worker has run."""
    times = take_turns(
        bench.repeats, redis=lambda: seconds_to_first(bench.redis), ours=lambda: seconds_to_first(bench.ours)
    )
    bench.say(f"{name}: Redis {median(times['redis']):.2f} s")
    limit = median(times["redis"]) + LATER_SECONDS
    yield judged(name, median(times["ours"]), "s", limit=limit, runs=tuple(times["ours"]))


def seconds_to_first(side: Side) -> float:
    """Start a worker with Celery's default pool of two, and return when it ran the task that waited."""
    side.forget_stamps()
    side.send_stamp()
    begin = time.time()
    with side.worker("-c", "2"):
        return side.wait_for_stamps(1)[0] - begin
