"""``delay()``: inside a transaction, and alone."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction

from django_mq.benchmarks.measures import take_turns
from tests.benchmarks.celery.figures import judged
from tests.benchmarks.store.raw import raw_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.store.figures import Judged

#: Publishes between two changes of sides, and those of one transaction.
TURN, IN_ONE = 50, 10


def measure(bench: Bench, name: str) -> Iterator[Judged]:
    """Yield the time of one publish."""
    repeats = bench.amount(40, 6)
    yield measure_in_atomic(bench, repeats) if name == "delay_in_atomic" else measure_alone(bench, repeats)
    bench.empty()


def measure_in_atomic(bench: Bench, repeats: int) -> Judged:
    """Return the time of a publish in a transaction of ten, with its share of BEGIN, COMMIT and hint."""
    times = take_turns(
        repeats,
        redis=lambda: microseconds(in_atomic(bench.redis.app)),
        ours=lambda: microseconds(in_atomic(bench.ours.app)),
    )
    value, limit = median(times["ours"]), median(times["redis"])
    return judged("delay_in_atomic", value, "µs", limit=limit, runs=tuple(times["ours"]))


def measure_alone(bench: Bench, repeats: int) -> Judged:
    """Return the time of a publish that commits by itself."""
    raw = raw_table("default")
    delays = {side.name: side.app.tasks["bench.nothing"].delay for side in (bench.redis, bench.ours)}
    try:
        times = take_turns(
            repeats,
            redis=lambda: microseconds(lambda: again(delays["redis"])),
            commit=lambda: microseconds(lambda: raw.insert_and_commit(TURN)),
            ours=lambda: microseconds(lambda: again(delays["django_mq"])),
        )
    finally:
        raw.close()
    redis, commit = median(times["redis"]), median(times["commit"])
    bench.say(f"delay_alone: Redis {redis:,.0f} µs, a raw commit {commit:,.0f} µs")
    return judged("delay_alone", median(times["ours"]), "µs", limit=redis + commit, runs=tuple(times["ours"]))


def microseconds(work: Callable[[], object]) -> float:
    """Return how long one of the work's publishes took."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) / TURN * 1e6


def again(delay: Callable[[int], object]) -> None:
    """Publish one by one."""
    for number in range(TURN):
        delay(number)


def in_atomic(app: Any) -> Callable[[], None]:
    """Return what publishes ten tasks in each of several transactions, which all write a row as well."""
    delay = app.tasks["bench.nothing"].delay

    def work() -> None:
        for _ in range(TURN // IN_ONE):
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO bench_rows (n) VALUES (1)")
                for number in range(IN_ONE):
                    delay(number)

    return work
