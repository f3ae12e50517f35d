"""A handler of many with one SQL effect for each message, beside a loop of the same statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections, transaction

from django_mq.benchmarks.measures import QUEUE, compared, fill
from django_mq.benchmarks.plain_sql import BATCH
from django_mq.bulk.pool import pool_for
from django_mq.delivery.consumer.garbage_collector import collect_less_often
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.worker import Worker
from tests.benchmarks.store.child import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.benchmarks.measures import Measure
    from tests.benchmarks.store.environment import Environment

EFFECTS = "mq_bench_effects"
EFFECT = f"INSERT INTO {EFFECTS} (n) VALUES (%s)"


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of a transactional handler of 1,000, beside the statements of its effects alone."""
    alias, amount = environment.alias, environment.amount(100_000, 10_000)
    with connections[alias].cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {EFFECTS}")
        cursor.execute(f"CREATE TABLE {EFFECTS} (n integer NOT NULL PRIMARY KEY)")
    try:
        yield compared(
            "drain_bulk",
            environment.repeats,
            ours=lambda: _drained(environment, amount),
            raw=lambda: _rate("write_effects", alias, amount),
        )
    finally:
        with connections[alias].cursor() as cursor:
            cursor.execute(f"DROP TABLE {EFFECTS}")


def _drained(environment: Environment, amount: int) -> float:
    fill(environment.alias, amount)
    return _rate("drain_bulk", environment.alias, amount)


def _rate(role: str, alias: str, amount: int) -> float:
    [answer] = side_by_side(role, alias, 1, amount=amount)
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {EFFECTS}")
        assert cursor.fetchone() == (amount,), "the effects are not those of all messages"
        cursor.execute(f"DELETE FROM {EFFECTS}")
    return amount / (float(answer["end"]) - float(answer["begin"]))


def prepare_worker(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that drains the queue with a handler of many."""
    alias = order["alias"]

    def write(messages: list[Any]) -> None:
        with connections[alias].cursor() as cursor:
            for message in messages:
                cursor.execute(EFFECT, (message.body["n"],))

    handler = Handler(
        queue=QUEUE,
        function=write,
        credit=0,
        time_limit_seconds=None,
        transactional=True,
        bulk=BATCH,
        bulk_seconds=0,
    )
    worker = Worker([handler], threads=BATCH, pool=pool_for(handler), using=alias)
    collect_less_often()

    def work() -> dict[str, Any]:
        worker.run(until_empty=True)
        return {}

    return work


def prepare_loop(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that runs the same statements, with one COMMIT for 1,000."""
    alias = order["alias"]
    connections[alias].ensure_connection()

    def work() -> dict[str, Any]:
        for start in range(0, order["amount"], BATCH):
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                for number in range(start, min(start + BATCH, order["amount"])):
                    cursor.execute(EFFECT, (number,))
        return {}

    return work
