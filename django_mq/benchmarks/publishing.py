"""Publishing, one by one and in batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.benchmarks.measuring import QUEUE, Measure, measured, median, rate, take_turns
from django_mq.delivery.publishing import publish, publish_many
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.benchmarks.ground import Ground

BATCH = 1000
#: Single publishes take turns with the raw loop in so many small parts: they feel every disturbance.
ROUNDS = 5


def measure_one(ground: Ground) -> Iterator[Measure]:
    """Yield the rate of single publishes, one transaction each, beside INSERT and COMMIT."""
    part = ground.amount(2000, 200) // ROUNDS
    raw = None if ground.raw is None else partial(ground.raw.insert_and_commit, part)
    yield _compared(ground, "publish_one", part, partial(publish_singles, ground.alias, part), raw, ROUNDS)


def measure_many(ground: Ground) -> Iterator[Measure]:
    """Yield the rate of ``publish_many`` beside COPY, both in batches of 1,000."""
    amount = ground.amount(50_000, 5000)
    raw = None if ground.raw is None else partial(ground.raw.copy, amount)
    yield _compared(ground, "publish_many", amount, partial(fill, ground.alias, amount), raw, 1)


def _compared(  # noqa: PLR0917 - two loops and their size
    ground: Ground,
    name: str,
    amount: int,
    ours: Callable[[], None],
    raw: Callable[[], None] | None,
    rounds: int,
) -> Measure:
    measures = {"ours": partial(rate, amount, ours)}
    if raw is not None:
        measures["raw"] = partial(rate, amount, raw)
    samples = take_turns(ground.repeats * rounds, **measures)
    shared_store(ground.alias).purge(QUEUE)
    if ground.raw is not None:
        ground.raw.empty()
    limit = median(samples["raw"]) if raw is not None else None
    return measured(name, median(samples["ours"]), "messages/s", limit=limit, runs=samples["ours"])


def publish_singles(alias: str, amount: int) -> None:
    """Publish one by one, each in a transaction of its own."""
    for number in range(amount):
        publish(QUEUE, {"n": number}, using=alias)


def fill(alias: str, amount: int) -> None:
    """Publish in batches."""
    for start in range(0, amount, BATCH):
        publish_many([(QUEUE, {"n": number}) for number in range(start, min(start + BATCH, amount))], using=alias)
