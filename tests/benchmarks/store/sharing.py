"""A queue that twenty keys share, beside the same queue without fairness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.benchmarks.measures import QUEUE, ROUNDS, compared, rate
from django_mq.benchmarks.plain_sql import BATCH
from django_mq.delivery.publisher import OutgoingMessage, publish, publish_many
from django_mq.models import Queue
from django_mq.stores import queue_records
from django_mq.stores.registry import shared_store
from tests.benchmarks.store.child import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.benchmarks.measures import Measure
    from tests.benchmarks.store.environment import Environment

KEYS = 20
HEADER = "tenant"


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield the rates of single publishes, of batches, and of one process that drains."""
    alias = environment.alias
    part = environment.amount(2000, 200) // ROUNDS
    yield _compared(alias, "publish_fair", environment.repeats * ROUNDS, lambda: _publish(alias, part))
    amount = environment.amount(20_000, 5000)
    yield _compared(
        alias, "publish_fair_many", environment.repeats, lambda: rate(amount, lambda: fill(alias, amount))
    )
    amount = environment.amount(100_000, 10_000)
    yield _compared(alias, "drain_fair", environment.repeats, lambda: _drain(alias, amount))


def _compared(alias: str, name: str, repeats: int, side: Callable[[], float]) -> Measure:
    try:
        return compared(name, repeats, ours=lambda: _with(alias, HEADER, side), raw=lambda: _with(alias, "", side))
    finally:
        _with(alias, "", lambda: 0.0, due_order="due_first")
        shared_store(alias).deletions.purge(QUEUE)


def _with(alias: str, fair_by: str, side: Callable[[], float], *, due_order: str = "keep_place") -> float:
    Queue.objects.using(alias).filter(name=QUEUE).update(fair_by=fair_by, due_order=due_order)
    queue_records.forget(alias, QUEUE)
    return side()


def _publish(alias: str, amount: int) -> float:
    def work() -> None:
        for number in range(amount):
            publish(QUEUE, {"n": number}, headers={HEADER: number % KEYS}, using=alias)

    return rate(amount, work)


def fill(alias: str, amount: int) -> None:
    """Publish messages of all keys in turn."""
    for start in range(0, amount, BATCH):
        batch = range(start, min(start + BATCH, amount))
        publish_many(
            [OutgoingMessage(queue=QUEUE, body={"n": each}, headers={HEADER: each % KEYS}) for each in batch],
            using=alias,
        )


def _drain(alias: str, amount: int) -> float:
    shared_store(alias).deletions.purge(QUEUE)
    fill(alias, amount)
    [answer] = side_by_side("drain", alias, 1)
    return amount / (float(answer["end"]) - float(answer["begin"]))
