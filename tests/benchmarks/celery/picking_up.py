"""Pick-up: from just before the publish to the first line of the task, the worker idle."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.celery.figures import judged
from tests.benchmarks.store.raw import raw_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.celery.sides import Side
    from tests.benchmarks.store.figures import Judged

#: The worker has so long, in seconds, to become idle again.
PAUSE_SECONDS = 0.03
#: Samples that do not count.
WARM_UP = 10
WORKER = ("-P", "prefork", "-c", "2")


def measure(bench: Bench, name: str) -> Iterator[Judged]:
    """Yield the median, beside Redis's with a raw commit and a raw claim."""
    raw = raw_table("default")
    driver = raw.connection()
    times: dict[str, list[float]] = {"ours": [], "redis": [], "commit": [], "claim": []}
    try:
        with bench.redis.worker(*WORKER), bench.ours.worker(*WORKER):
            for _ in range(bench.amount(300, 40) + WARM_UP):
                times["redis"].append(picked_up(bench.redis))
                times["ours"].append(picked_up(bench.ours))
                times["commit"].append(milliseconds(lambda: raw.insert_and_commit(1)))
                times["claim"].append(milliseconds(lambda: raw.claim_one(driver)))
    finally:
        driver.close()
        raw.close()
    middle = {part: median(values[WARM_UP:]) for part, values in times.items()}
    bench.say(", ".join(f"{part} {value:.2f} ms" for part, value in middle.items()))
    limit = middle["redis"] + middle["commit"] + middle["claim"]
    yield judged(name, middle["ours"], "ms", limit=limit, runs=tuple(times["ours"][WARM_UP:]))


def picked_up(side: Side) -> float:
    """Return the milliseconds until a task ran."""
    side.forget_stamps()
    time.sleep(PAUSE_SECONDS)
    begin = time.time()
    side.send_stamp()
    return (side.wait_for_stamps(1)[0] - begin) * 1000


def milliseconds(work: Any) -> float:
    """Return how long the work took."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000
