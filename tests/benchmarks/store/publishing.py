"""Publishing, one by one and in batches."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING

from django_mq.benchmarks.measures import QUEUE, ROUNDS, compared, fill, publish_singles, rate
from django_mq.delivery.publisher import publish
from django_mq.engine.decisions.unique import Unique
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.benchmarks.measures import Measure
    from tests.benchmarks.store.environment import Environment


def measure_one(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of single publishes, one transaction each, beside INSERT and COMMIT."""
    part = environment.amount(2000, 200) // ROUNDS
    raw = environment.raw.insert_and_commit
    yield _compared(
        environment, "publish_one", part, ROUNDS, lambda: publish_singles(environment.alias, part), raw
    )


def measure_unique(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of publishes with a unique key each, one transaction each, beside plain publishes."""
    part = environment.amount(2000, 200) // ROUNDS
    alias, numbers = environment.alias, count()

    def unique() -> None:
        for number in islice(numbers, part):
            publish(QUEUE, {"n": number}, unique=Unique(key=f"key {number}"), using=alias)

    yield _compared(
        environment, "publish_unique", part, ROUNDS, unique, lambda amount: publish_singles(alias, amount)
    )


def measure_many(environment: Environment) -> Iterator[Measure]:
    """Yield the rate of ``publish_many`` beside COPY, both in batches of 1,000."""
    amount = environment.amount(50_000, 5000)
    yield _compared(
        environment, "publish_many", amount, 1, lambda: fill(environment.alias, amount), environment.raw.load
    )


def _compared(  # noqa: PLR0917 - two loops and their size
    environment: Environment,
    name: str,
    amount: int,
    rounds: int,
    ours: Callable[[], None],
    raw: Callable[[int], None],
) -> Measure:
    measure = compared(
        name,
        environment.repeats * rounds,
        ours=lambda: rate(amount, ours),
        raw=lambda: rate(amount, lambda: raw(amount)),
    )
    shared_store(environment.alias).deletions.purge(QUEUE)
    environment.raw.empty()
    return measure
