"""100,000 tasks due in an hour: what they cost a running worker, and its claims."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import psutil

from tests.benchmarks.celery.draining import fill
from tests.benchmarks.celery.figures import judged
from tests.benchmarks.store import claiming
from tests.benchmarks.store.environment import Environment, tables_for
from tests.benchmarks.store.filling import SCHEDULED, Filler

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.store.figures import Judged

#: Tasks after which a worker has become as large as it will.
WARM_UP = 2000
MIB = 1024 * 1024


def measure_memory(bench: Bench, name: str) -> Iterator[Judged]:
    """Yield by how much the worker grows, all its processes together."""
    amount = bench.amount(100_000, 2000)
    with bench.ours.worker("-P", "prefork", "-c", "2") as process:
        handle(bench)
        before = resident(process)
        bench.publish_later(amount)
        handle(bench)
        after = resident(process)
    bench.empty()
    yield judged(name, (after - before) / MIB, "MiB", runs=(before / MIB, after / MIB))


def handle(bench: Bench) -> None:
    """Have the worker do so many tasks."""
    bench.ours.forget_stamps()
    fill(bench.ours, "bench.nothing", WARM_UP)
    bench.ours.wait_for_stamps(2)


def resident(process: subprocess.Popen[bytes]) -> int:
    """Return the memory that a worker and its children have for themselves."""
    parent = psutil.Process(process.pid)
    return sum(one.memory_full_info().uss for one in (parent, *parent.children(recursive=True)))


def measure_claim(bench: Bench, name: str) -> Iterator[Judged]:
    """Yield the claim beside them, and the one without; they take turns."""
    with tables_for("default") as (alias, raw):
        environment = Environment(alias, "default", bench.quick, bench.repeats, None, raw, bench.say)
        filler = Filler(alias, bench.say)
        filler.fill(bench.amount(100_000, 20_000), SCHEDULED)
        filler.fill(claiming.SMALL)
        filler.settle_down()
        times, limits = take_turns_claiming(environment)
    yield judged(name, median(times), "ms", limit=median(limits), runs=tuple(times))


def take_turns_claiming(environment: Environment) -> tuple[list[float], list[float]]:
    """Return the times of claims beside the scheduled messages, and without them."""
    large = claiming.Claimer(environment.alias)
    times, limits = [], []
    try:
        with claiming.small_queue(environment) as small:
            for number in range(environment.amount(400, 100) + claiming.WARM_UP):
                limit, value = small.claim(), large.claim()
                if number >= claiming.WARM_UP:
                    limits.append(limit)
                    times.append(value)
    finally:
        large.close()
    return times, limits
