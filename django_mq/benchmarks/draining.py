"""The native worker: one process, a handler that does nothing, history kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.benchmarks.measuring import QUEUE, Result, median, rate, take_turns
from django_mq.delivery.handlers import Handler
from django_mq.delivery.publishing import publish_many
from django_mq.delivery.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.benchmarks.raw import RawTable
    from django_mq.delivery.message import ReceivedMessage

#: Messages per second that one process should drain.
MARK = 8000


def measure(alias: str, raw: RawTable | None, *, amount: int, repeats: int) -> Iterator[Result]:
    """Yield the drain with much credit, beside the raw loop, and with the credit handlers have by default."""
    measures = {"drain": partial(_drain, alias, amount, credit=1000, threads=1)}
    if raw is not None:
        measures["raw"] = partial(_drain_raw, raw, amount)
    samples = take_turns(repeats, **measures)
    value = median(samples["drain"])
    limit = median(samples["raw"]) if raw is not None else None
    yield Result(
        "native drain, one process, credit 1,000",
        value,
        "per second",
        limit,
        "raw claim(1,000) + delete" if raw is not None else "",
        f"at least {MARK}/s" if raw is not None else "",
        value >= MARK if raw is not None else None,
        samples,
    )
    samples = take_turns(repeats, drain=partial(_drain, alias, amount // 2, credit=20, threads=4))
    yield Result("native drain, credit 20, 4 threads", median(samples["drain"]), "per second", samples=samples)


def _drain(alias: str, amount: int, *, credit: int, threads: int) -> float:
    for start in range(0, amount, 1000):
        publish_many([(QUEUE, {"n": number}) for number in range(start, min(start + 1000, amount))], using=alias)
    handler = Handler(queue=QUEUE, function=_nothing, credit=credit, time_limit_seconds=None)
    worker = Worker([handler], threads=threads, using=alias)
    return rate(amount, partial(worker.run, until_empty=True))


def _nothing(_: ReceivedMessage) -> None:
    """The handler that costs nothing."""


def _drain_raw(raw: RawTable, amount: int) -> float:
    raw.insert_many(amount)
    return rate(amount, raw.drain)
