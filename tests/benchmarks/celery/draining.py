"""Draining: one worker, tasks that do nothing, published before it started."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from django.db import transaction

from django_mq.benchmarks.measures import take_turns
from tests.benchmarks.celery.figures import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.celery.sides import Side
    from tests.benchmarks.store.figures import Judged

#: Measure to the task and the worker's options.
KINDS = {
    "drain_solo": ("bench.nothing", ("-P", "solo")),
    "drain_prefork": ("bench.nothing", ("-P", "prefork", "-c", "2")),
    "drain_solo_late": ("bench.nothing_late", ("-P", "solo")),
    "drain_prefork_late": ("bench.nothing_late", ("-P", "prefork", "-c", "2")),
}


def measure(bench: Bench, name: str) -> Iterator[Judged]:
    """Yield how many tasks a second each side's worker does."""
    task, options = KINDS[name]
    amount = bench.amount(10_000, 1000)
    rates = take_turns(
        bench.repeats,
        redis=lambda: drain(bench.redis, task, options, amount),
        ours=lambda: drain(bench.ours, task, options, amount),
    )
    bench.say(f"{name}: ours {rounded(rates['ours'])}, Redis {rounded(rates['redis'])}")
    value, limit = median(rates["ours"]), median(rates["redis"])
    yield judged(name, value, "tasks/s", limit=limit, runs=tuple(rates["ours"]))


def drain(side: Side, task: str, options: tuple[str, ...], amount: int) -> float:
    """Return tasks a second, from the first one to an empty broker: the worker's start does not count."""
    side.forget_stamps()
    fill(side, task, amount)
    with side.worker(*options):
        began = side.wait_for_stamps(1)[0]
        side.wait_for_stamps(2)
        return amount / (side.wait_until_empty() - began)


def fill(side: Side, task: str, amount: int) -> None:
    """Publish so many tasks between two that say when they ran."""
    with side.app.producer_pool.acquire(block=True) as producer, transaction.atomic():
        side.send_stamp(producer=producer)
        for number in range(amount):
            side.app.tasks[task].apply_async((number,), producer=producer)
        side.send_stamp(producer=producer)


def rounded(values: list[float]) -> str:
    """Return figures as one reads them."""
    return ", ".join(f"{value:,.0f}" for value in values)
