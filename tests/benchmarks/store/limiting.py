"""A queue with limits by key: its drain, and its claims beside parked messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measures import QUEUE, Measure, compared, draining_worker
from django_mq.delivery.consumer.garbage_collector import collect_less_often
from django_mq.limits import concurrency, throttle
from django_mq.stores.registry import shared_store
from tests.benchmarks.store.child import side_by_side
from tests.benchmarks.store.sharing import HEADER, fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.store.environment import Environment

KEY = f"header:{HEADER}"
#: Of the worker that drains.
THREADS, CREDIT = 10, 500


def measure_drain(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of one process from a queue with limits that hold nothing up, beside one without limits."""
    alias, amount = environment.alias, environment.amount(50_000, 5000)

    def drained(*, limited: bool) -> float:
        shared_store(alias).deletions.purge(QUEUE)
        fill(alias, amount)
        [answer] = side_by_side("drain_limited", alias, 1, limited=limited)
        return amount / (float(answer["end"]) - float(answer["begin"]))

    yield compared(
        "drain_limited",
        environment.repeats,
        ours=lambda: drained(limited=True),
        raw=lambda: drained(limited=False),
    )


def limit_keys() -> None:
    """Limit how many of a key run at once, and how many begin in a time, to more than ever come."""
    concurrency(QUEUE, 1_000, key=KEY, name="slots")
    throttle(QUEUE, amount=1_000_000, seconds=1, burst=1_000_000, key=KEY, name="rate")


def prepare_drain(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the queue with ten threads."""
    if order["limited"]:
        limit_keys()
    worker = draining_worker(order["alias"], credit=CREDIT, threads=THREADS)
    collect_less_often()

    def work() -> dict[str, Any]:
        worker.run(until_empty=True)
        return {}

    return work
