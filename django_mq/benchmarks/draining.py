"""The native worker: one process and two, a handler that does nothing, history kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.child import side_by_side
from django_mq.benchmarks.ground import raw_limits
from django_mq.benchmarks.measuring import QUEUE, Measure, measured, median, take_turns
from django_mq.benchmarks.publishing import fill
from django_mq.delivery.collecting import spare_the_collector
from django_mq.delivery.handlers import Handler
from django_mq.delivery.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.benchmarks.ground import Ground
    from django_mq.delivery.handlers import ReceivedMessage

#: What the raw loop claims at once, too.
CREDIT = 1000


def measure_one(ground: Ground) -> Iterator[Measure]:
    """Yield the rate of one process, beside one raw loop."""
    yield _measure(ground, "drain_one", 1)


def measure_two(ground: Ground) -> Iterator[Measure]:
    """Yield the rate of two processes, beside two raw loops side by side."""
    yield _measure(ground, "drain_two", 2)


def _measure(ground: Ground, name: str, processes: int) -> Measure:
    amount = ground.amount(100_000, 10_000)
    measures = {"ours": partial(_drain, ground, "drain", partial(fill, ground.alias, amount), processes, amount)}
    if ground.raw is not None:
        load = partial(ground.raw.copy, amount)
        measures["raw"] = partial(_drain, ground, "drain_raw", load, processes, amount)
    samples = take_turns(ground.repeats, **measures)
    limit = median(samples["raw"]) if ground.raw is not None else None
    return measured(name, median(samples["ours"]), "messages/s", limit=limit, runs=samples["ours"])


def _drain(ground: Ground, role: str, load: Callable[[], None], processes: int, amount: int) -> float:
    load()
    answers = side_by_side(role, ground.alias, processes)
    begin = min(float(answer["begin"]) for answer in answers)
    return amount / (max(float(answer["end"]) for answer in answers) - begin)


def prepare_drain(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the queue with a native worker."""
    handler = Handler(queue=QUEUE, function=_nothing, credit=CREDIT, time_limit_seconds=None)
    worker = Worker([handler], threads=1, using=order["alias"])
    spare_the_collector()  # as mq_worker does

    def work() -> dict[str, Any]:
        worker.run(until_empty=True)
        return {}

    return work


def _nothing(_: ReceivedMessage) -> None:
    """The handler that costs nothing."""


def prepare_raw_drain(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the raw table."""
    raw = raw_limits(order["alias"], make=False)

    def work() -> dict[str, Any]:
        if raw is not None:
            raw.drain()
        return {}

    return work
