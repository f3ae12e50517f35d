"""Run many scenarios at once, one per task, and rank them."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.places import level_of
from django_mq.errors import PipelineError
from django_mq.pipeline.session import explaining
from django_mq.pipeline.whatif.simulation import Arrival, Simulated, most_at_once, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from django_mq.pipeline.whatif.scenario import Scenario

#: The name of the recorded day in the report.
REALITY = "what happened"
#: The columns of a trace.
TRACED = ("id", "priority", "ready_at", "claimed_at", "finished_at")
SCHEMA = (
    "scenario string, class int, messages bigint, mean double, p50 double, p95 double, p99 double,"
    " losses map<string, bigint>"
)
ALL = -1


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """How long the messages of one class waited in one scenario, in seconds.

    Class -1 is all; rank 1 is the shortest p95. ``messages`` are those that were handled; without any, the times
    are None. ``losses`` are the numbers of messages that were not done, by reason.
    """

    scenario: str
    level: int
    messages: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    losses: dict[str, int]
    rank: int = 0


def what_if(trace: DataFrame, scenarios: Sequence[Scenario], levels: int = 10) -> list[WaitFigures]:
    """Return the outcome of every scenario and class, and of the recorded day, ranked within each class.

    ``trace`` has the columns of the history, of one queue's accepted messages. A class is a
    level of the recorded queue. Raises PipelineError.
    """
    if not scenarios:
        raise PipelineError("There is nothing to simulate: name at least one scenario.")
    if len({one.name for one in scenarios} | {REALITY}) != len(scenarios) + 1:
        raise PipelineError("Two scenarios have the same name.")
    from pyspark.sql import DataFrame

    rows = trace.selectExpr(
        "id",
        "priority",
        "unix_micros(ready_at) / 1e6 at",
        "greatest(unix_micros(finished_at) - unix_micros(claimed_at), 0) / 1e6 service",
        "greatest(unix_micros(claimed_at) - unix_micros(ready_at), 0) / 1e6 waited",
    )
    # Each scenario is a task with the whole trace, which is read once. The first task also returns the recorded
    # day, which would only read in a task of its own.
    whole = rows.repartition(1).persist()
    lanes: list[list[Scenario | None]] = [[one] for one in scenarios]
    lanes[0].insert(0, None)
    with explaining(), _tasks_apart(trace.sparkSession):
        try:
            tasks = [whole.mapInArrow(_runner(lane, levels), SCHEMA) for lane in lanes]
            found = reduce(DataFrame.union, tasks).collect()
        finally:
            whole.unpersist()
    if not found:
        raise PipelineError("There is nothing to simulate: no message of that queue was done on that day.")
    return ranked([WaitFigures(*row) for row in found])


@contextmanager
def _tasks_apart(spark: SparkSession) -> Iterator[None]:
    """Give each part of a union its own task: Spark 4.1 and later would make one task of them all."""
    name = "spark.sql.unionOutputPartitioning"
    before = spark.conf.get(name, None)
    spark.conf.set(name, "false")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def ranked(outcomes: list[WaitFigures]) -> list[WaitFigures]:
    """Return the outcomes by class, the shortest p95 first, the recorded day included."""

    def order(one: WaitFigures) -> tuple[int, float, float, str]:
        p95, mean = (inf if time is None else time for time in (one.p95, one.mean))
        return one.level, p95, mean, one.scenario

    ordered = groupby(sorted(outcomes, key=order), key=lambda one: one.level)
    return [replace(one, rank=rank) for _, ones in ordered for rank, one in enumerate(ones, 1)]


def _runner(lane: Sequence[Scenario | None], levels: int) -> Callable[..., Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        table = pa.Table.from_batches(given).sort_by([("at", "ascending"), ("id", "ascending")])
        priorities = _numbers(table, "priority")
        level = {priority: level_of(priority, levels) for priority in set(priorities)}
        classes = [level[priority] for priority in priorities]
        rows = [row for scenario in lane for row in spreads(*_simulated(table, priorities, scenario), classes)]
        types = [pa.string(), pa.int32(), pa.int64(), *[pa.float64()] * 4, pa.map_(pa.string(), pa.int64())]
        columns = zip(*[(*row, list(losses.items())) for *row, losses in rows], strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        names = ["scenario", "class", "messages", "mean", "p50", "p95", "p99", "losses"]
        yield pa.RecordBatch.from_arrays(arrays, names=names)

    return run


def _simulated(table: pa.Table, priorities: Sequence[int], scenario: Scenario | None) -> tuple[str, Simulated]:
    if scenario is None:
        waited = _numbers(table, "waited")
        return REALITY, Simulated(waited, [None] * len(waited))
    arrivals = map(Arrival, _numbers(table, "at"), priorities, _numbers(table, "service"))
    return scenario.name, simulate(list(arrivals), scenario)


def _numbers(table: pa.Table, name: str) -> list[Any]:
    """Return a column's numbers, through numpy: Arrow makes a scalar object of each first."""
    found: list[Any] = table.column(name).to_numpy().tolist()
    return found


def spreads(name: str, found: Simulated, classes: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return a row for all messages and one for each class.

    It has the number of waits, their mean and percentiles, and the losses by reason.
    """
    import numpy as np

    # None, for messages that were never handled, becomes NaN.
    waits, levels = np.array(found.waits, dtype=float), np.array(classes)
    worked_on = ~np.isnan(waits)
    losses: dict[int, Counter[str]] = {level: Counter() for level in [ALL, *sorted(set(classes))]}
    for level, loss in zip(classes, found.losses, strict=True):
        if loss is not None:
            losses[ALL][loss] += 1
            losses[level][loss] += 1
    rows = []
    for level, lost in losses.items():
        values = waits[worked_on if level == ALL else worked_on & (levels == level)]
        spread: list[float | None] = [None] * 4
        if len(values):
            spread = [float(values.mean()), *np.percentile(values, [50, 95, 99]).tolist()]
        rows.append((name, level, len(values), *spread, dict(lost)))
    return rows


def trace_of(spark: SparkSession, alias: str, queue: str, day: date) -> DataFrame:
    """Return the messages of a queue that became ready on that day (UTC) and were accepted."""
    from pyspark.sql import functions as f

    from django_mq.pipeline.insights.job import finished

    rows = finished(spark, alias, day, (*TRACED, "queue", "outcome"))
    done = rows.where((f.col("queue") == queue) & (f.col("outcome") == "accepted"))
    return done.where(f.to_date("ready_at") == f.lit(day)).select(*TRACED)


def recorded_consumers(trace: DataFrame) -> int:
    """Return how many messages of the trace were handled at once."""
    spans = trace.selectExpr("unix_micros(claimed_at) a", "unix_micros(finished_at) b").collect()
    return max(1, most_at_once((row["a"], row["b"]) for row in spans))
