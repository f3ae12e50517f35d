"""Run many scenarios at once, one per task, and rank them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING

from django_mq.engine.options import QueueOptions
from django_mq.errors import PipelineError
from django_mq.pipeline.session import explaining
from django_mq.pipeline.whatif import keys as known
from django_mq.pipeline.whatif.day import REALITY, SCHEMA, RecordedDay
from django_mq.pipeline.whatif.simulation import most_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from django_mq.pipeline.whatif.scenario import Scenario

#: The columns of a trace.
TRACED = ("id", "priority", "ready_at", "claimed_at", "finished_at")


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """How long the messages of one class, or of one key, waited in one scenario, in seconds.

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
    #: The key whose messages these are; None for all. Keys are of class -1.
    key: str | None = None
    #: The key's share of the attempts that began while messages of several keys waited; None if none did.
    share: float | None = None
    rank: int = 0


def what_if(trace: DataFrame, scenarios: Sequence[Scenario], levels: int = 10) -> list[WaitFigures]:
    """Return the outcome of every scenario and class, and of the recorded day, ranked within each class.

    ``trace`` has the columns of the history, of one queue's accepted messages. A class is a
    level of the recorded queue. If a scenario has keys, the first one also has an outcome for each of its values.
    Raises PipelineError, also if the history cannot say a key.
    """
    if not scenarios:
        raise PipelineError("There is nothing to simulate: name at least one scenario.")
    if len({one.name for one in scenarios} | {REALITY}) != len(scenarios) + 1:
        raise PipelineError("Two scenarios have the same name.")
    from pyspark.sql import DataFrame

    by = next((key for one in scenarios for key in one.keys), None)
    check_keys(trace, scenarios)
    rows = trace.selectExpr(
        "id",
        "priority",
        *(name for name in known.COLUMNS if name in trace.columns),
        "unix_micros(ready_at) / 1e6 at",
        f"{_seconds('claimed_at', 'finished_at')} service",
        f"{_seconds('ready_at', 'claimed_at')} waited",
    )
    # Each scenario is a task with the whole trace, which is read once. The first task also returns the recorded
    # day, which would only read in a task of its own.
    whole = rows.repartition(1).persist()
    lanes: list[list[Scenario | None]] = [[one] for one in scenarios]
    lanes[0].insert(0, None)
    with explaining(), _tasks_apart(trace.sparkSession):
        try:
            tasks = [whole.mapInArrow(_runner(lane, levels, by), SCHEMA) for lane in lanes]
            found = reduce(DataFrame.union, tasks).collect()
        finally:
            whole.unpersist()
    if not found:
        raise PipelineError("There is nothing to simulate: no message of that queue was done on that day.")
    return ranked([WaitFigures(*row) for row in found])


def _seconds(start: str, end: str) -> str:
    """Return Spark's words for the time between two columns; null for a message that was never handled."""
    return f"if(claimed_at is null, null, greatest(unix_micros({end}) - unix_micros({start}), 0)) / 1e6"


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


def check_keys(trace: DataFrame, scenarios: Sequence[Scenario]) -> None:
    """Raise PipelineError if the history cannot say a key that a scenario reads."""
    problems = _unknown(trace, scenarios)
    for one in scenarios:
        for key in one.keys:
            if key in problems:
                what = repr(key.removeprefix(known.FAIR))
                raise PipelineError(
                    f"Scenario {one.name!r} reads the key {what} of messages, but {problems[key]}."
                )


def without_unknown(trace: DataFrame, scenario: Scenario) -> tuple[Scenario, list[str]]:
    """Return the scenario without what needs keys that the history cannot say, and a text for each of these."""
    problems, said = _unknown(trace, [scenario]), []
    queue, limits = scenario.queue, []
    if (why := problems.get(f"{known.FAIR}{queue.fair_by}")) is not None:
        said.append(f"fair_by {queue.fair_by!r}: {why}")
        queue = replace(queue, fair_by="", fair_weights="")
    for limit in scenario.limits:
        reads = replace(scenario, queue=QueueOptions(), limits=(limit,)).keys
        if (why := next((problems[key] for key in reads if key in problems), None)) is None:
            limits.append(limit)
        else:
            said.append(f"the limit {limit.name!r} with the key {limit.key!r}: {why}")
    return replace(scenario, queue=queue, limits=tuple(limits)), said


def _unknown(trace: DataFrame, scenarios: Sequence[Scenario]) -> dict[str, str]:
    """Return why the history cannot say keys that scenarios read."""
    asked = {key for one in scenarios for key in one.keys}
    if not asked:
        return {}
    with explaining():
        found = known.known_keys(trace, asked)
    return {key: why for key in asked if (why := found.problem_of(key)) is not None}


def ranked(outcomes: list[WaitFigures]) -> list[WaitFigures]:
    """Return the outcomes by class and key, the shortest p95 first, the recorded day included."""

    def place(one: WaitFigures) -> tuple[bool, int, str]:
        return one.key is not None, one.level, one.key or ""

    def order(one: WaitFigures) -> tuple[tuple[bool, int, str], float, float, str]:
        p95, mean = (inf if time is None else time for time in (one.p95, one.mean))
        return place(one), p95, mean, one.scenario

    ordered = groupby(sorted(outcomes, key=order), key=place)
    return [replace(one, rank=rank) for _, ones in ordered for rank, one in enumerate(ones, 1)]


def _runner(
    lane: Sequence[Scenario | None], levels: int, by: str | None
) -> Callable[..., Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        table = pa.Table.from_batches(given).sort_by([("at", "ascending"), ("id", "ascending")])
        day = RecordedDay.of(table, levels, by)
        rows = [row for scenario in lane for row in day.spreads(scenario)]
        types = [pa.string(), pa.int32(), pa.int64(), *[pa.float64()] * 4, pa.map_(pa.string(), pa.int64())]
        types += [pa.string(), pa.float64()]
        columns = zip(*[(*row[:7], list(row[7].items()), *row[8:]) for row in rows], strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        names = ["scenario", "class", "messages", "mean", "p50", "p95", "p99", "losses", "key", "share"]
        yield pa.RecordBatch.from_arrays(arrays, names=names)

    return run


def trace_of(
    spark: SparkSession,
    alias: str,
    queue: str,
    day: date,
    *,
    keys: Collection[str] = (),
    published: bool = False,
) -> DataFrame:
    """Return the messages of a queue that became ready on that day (UTC), and were accepted or over a limit.

    With ``keys``, there are the columns from which they are read. With ``published``, a message became ready when
    it was published: that is right for a queue with limits, where the history has when a limit let the message go
    on, and wrong for messages with a delay.
    """
    from pyspark.sql import functions as f

    from django_mq.pipeline.insights.job import finished

    reads = known.columns_of(keys)
    rows = finished(spark, alias, day, (*TRACED, "published_at", "queue", "outcome", *reads))
    done = rows.where((f.col("queue") == queue) & f.col("outcome").isin("accepted", "limited"))
    if published:
        done = done.withColumn("ready_at", f.col("published_at"))
    return done.where(f.to_date("ready_at") == f.lit(day)).select(*TRACED, *reads)


def recorded_consumers(trace: DataFrame) -> int:
    """Return how many messages of the trace were handled at once."""
    handled = trace.where("claimed_at is not null")
    spans = handled.selectExpr("unix_micros(claimed_at) a", "unix_micros(finished_at) b").collect()
    return max(1, most_at_once((row["a"], row["b"]) for row in spans))
