"""A queue with limits by key: its drain, and its claims beside parked messages."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measures import QUEUE, Measure, compared, draining_worker
from django_mq.delivery.consumer.garbage_collector import collect_less_often
from django_mq.delivery.queues import declare
from django_mq.limits import concurrency, throttle
from django_mq.limits.declared import forget
from django_mq.stores.registry import shared_store
from tests.benchmarks.store.child import side_by_side
from tests.benchmarks.store.claiming import SMALL, WARM_UP, Claimer
from tests.benchmarks.store.filling import Filler
from tests.benchmarks.store.schema import own_schema
from tests.benchmarks.store.sharing import HEADER, fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.store.environment import Environment

KEY = f"header:{HEADER}"
#: Of the worker that drains.
THREADS, CREDIT = 10, 500
#: How many messages a claim beside parked ones brings.
CLAIMED = 20


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


def measure_parked(environment: Environment) -> Iterator[Measure]:
    """Yield the claim of messages behind others that have just been parked, beside the same without these.

    They take turns in one queue each. No vacuum has run since the messages were parked.
    """
    if not environment.is_large:
        return
    concurrency(QUEUE, 1, key="group", name="slots")
    times: list[float] = []
    limits: list[float] = []
    amount = environment.amount(100_000, 20_000)
    with own_schema(environment.site_alias, "mq_bench_small") as small:
        declare(shared_store(small), QUEUE)
        beside, holder = Claimer(environment.alias, CLAIMED), Claimer(environment.alias, 1)
        sides = [(Claimer(small, CLAIMED), limits), (beside, times)]
        try:
            filler = Filler(environment.alias, environment.say)
            filler.fill(amount, group="'over'")
            holder.claim()
            while shared_store(environment.alias).queues.counts()[QUEUE].ready:
                beside.claim()
            filler.fill(SMALL, group="n::text")
            Filler(small, environment.say).fill(SMALL, group="n::text")
            for _ in range(environment.amount(300, 100) + WARM_UP):
                sides.reverse()
                for claimer, taken in sides:
                    taken.append(claimer.claim())
                    if not claimer.found:
                        raise RuntimeError("A queue of the benchmark is empty.")
        finally:
            for claimer in (holder, *(claimer for claimer, _ in sides)):
                claimer.close()
            forget(QUEUE)
    del times[:WARM_UP], limits[:WARM_UP]
    yield Measure("claim_beside_parked", median(times), "ms", median(limits), times)


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
