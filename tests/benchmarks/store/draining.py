"""The native worker: one process and two, a handler that does nothing, history kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measures import QUEUE, compared, draining_worker, fill
from django_mq.delivery.consumer.garbage_collector import collect_less_often
from django_mq.delivery.publisher import OutgoingMessage, publish_many
from django_mq.models import Queue
from tests.benchmarks.store.child import side_by_side
from tests.benchmarks.store.raw import raw_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet

    from django_mq.benchmarks.measures import Measure
    from tests.benchmarks.store.environment import Environment


#: The credit of a handler that names none, in a worker with four threads.
SMALL_CREDIT = 20


def measure_one(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of one process, beside one raw loop."""
    yield _measure(environment, "drain_one", 1)


def measure_two(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of two processes, beside two raw loops side by side."""
    yield _measure(environment, "drain_two", 2)


def measure_groups(environment: Environment) -> Iterator[Measure]:
    """Yield the rates of one process from queues of one group and of many, beside a plain queue."""
    queues = Queue.objects.using(environment.alias).filter(name=QUEUE)
    amount = environment.amount(20_000, 2_000)
    try:
        for name, groups in (("drain_one_group", 1), ("drain_many_groups", amount // 10)):
            yield compared(
                name,
                environment.repeats,
                ours=lambda groups=groups: _drained(environment, queues, amount, groups),  # type: ignore[misc]
                raw=lambda: _drained(environment, queues, amount, 0),
            )
    finally:
        queues.update(grouping="none")


def _drained(environment: Environment, queues: QuerySet[Queue], amount: int, groups: int) -> float:
    queues.update(grouping="shared" if groups else "none")
    keys = [f"group {number}" for number in range(groups)] or [None]
    publish_many(
        [
            OutgoingMessage(queue=QUEUE, body={"n": number}, group_key=keys[number % len(keys)])
            for number in range(amount)
        ],
        using=environment.alias,
    )
    [answer] = side_by_side("drain_small", environment.alias, 1)
    return amount / (float(answer["end"]) - float(answer["begin"]))


def _measure(environment: Environment, name: str, processes: int) -> Measure:
    amount = environment.amount(100_000, 10_000)

    def drained(role: str, load: Callable[[], object]) -> float:
        load()
        answers = side_by_side(role, environment.alias, processes)
        begin = min(float(answer["begin"]) for answer in answers)
        return amount / (max(float(answer["end"]) for answer in answers) - begin)

    return compared(
        name,
        environment.repeats,
        ours=lambda: drained("drain", lambda: fill(environment.alias, amount)),
        raw=lambda: drained("drain_raw", lambda: environment.raw.load(amount)),
    )


def prepare_drain(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the queue with a native worker."""
    worker = draining_worker(order["alias"])
    collect_less_often()  # as mq_worker does

    def work() -> dict[str, Any]:
        worker.run(until_empty=True)
        return {}

    return work


def prepare_small_drain(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the queue with the credit of four threads."""
    worker = draining_worker(order["alias"], credit=SMALL_CREDIT, threads=4)
    collect_less_often()

    def work() -> dict[str, Any]:
        worker.run(until_empty=True)
        return {}

    return work


def prepare_raw_drain(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the raw table."""
    raw = raw_table(order["alias"], make=False)

    def work() -> dict[str, Any]:
        raw.drain()
        return {}

    return work
