"""Publishing, one by one and in batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.benchmarks.measuring import QUEUE, Result, median, rate, take_turns
from django_mq.delivery.publishing import publish, publish_many
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.benchmarks.raw import RawTable

BATCH = 1000
#: Single publishes take turns with the raw loops in so many small parts: they feel every disturbance.
ROUNDS = 5


def measure(alias: str, raw: RawTable | None, *, singles: int, bulk: int, repeats: int) -> Iterator[Result]:
    """Yield the publishing results; on a database without raw limits, plain rates."""
    yield from _one_by_one(alias, raw, singles, repeats)
    _empty(alias, raw)
    yield from _in_batches(alias, raw, bulk, repeats)
    _empty(alias, raw)


def _one_by_one(alias: str, raw: RawTable | None, amount: int, repeats: int) -> Iterator[Result]:
    part = amount // ROUNDS
    measures = {"publish": partial(rate, part, partial(_publish, alias, part))}
    if raw is not None:
        measures["commit"] = partial(rate, part, partial(raw.insert_and_commit, part))
        measures["alone"] = partial(rate, part, partial(raw.insert_one_by_one, part))
        measures["plain"] = partial(rate, part, partial(raw.insert_into_plain, part))
    samples = take_turns(repeats * ROUNDS, **measures)
    name = "publish, one transaction each"
    if raw is None:
        yield _result(name, samples, "publish", None, "")
        return
    yield _result(name, samples, "publish", median(samples["commit"]), "raw INSERT, commit", mark=0.5)
    yield _result(name, samples, "publish", median(samples["alone"]), "raw INSERT, autocommit, prepared")
    yield _result(name, samples, "publish", median(samples["plain"]), "raw INSERT, commit, no indexes")


def _in_batches(alias: str, raw: RawTable | None, amount: int, repeats: int) -> Iterator[Result]:
    measures = {"publish": partial(rate, amount, partial(_publish_many, alias, amount))}
    if raw is not None:
        measures["copy"] = partial(rate, amount, partial(raw.copy, amount))
        measures["insert"] = partial(rate, amount, partial(raw.insert_many, amount))
    samples = take_turns(repeats, **measures)
    name = "publish_many, batches of 1,000"
    if raw is None:
        yield _result(name, samples, "publish", None, "")
        return
    yield _result(name, samples, "publish", median(samples["copy"]), "raw COPY", mark=0.5)
    yield _result(name, samples, "publish", median(samples["insert"]), "raw INSERT of 1,000 rows")


def _publish(alias: str, amount: int) -> None:
    for number in range(amount):
        publish(QUEUE, {"n": number}, using=alias)


def _publish_many(alias: str, amount: int) -> None:
    for start in range(0, amount, BATCH):
        publish_many([(QUEUE, {"n": number}) for number in range(start, min(start + BATCH, amount))], using=alias)


def _empty(alias: str, raw: RawTable | None) -> None:
    shared_store(alias).purge(QUEUE)
    if raw is not None:
        raw.empty()


def _result(  # noqa: PLR0917 - a row of the report
    name: str,
    samples: dict[str, list[float]],
    key: str,
    limit: float | None,
    limit_name: str,
    mark: float | None = None,
) -> Result:
    value = median(samples[key])
    result = Result(name, value, "per second", limit, limit_name if limit else "", samples=samples)
    if mark is not None and result.ratio is not None:
        result.mark, result.reached = f"at least {mark} of the limit", result.ratio >= mark
    return result
