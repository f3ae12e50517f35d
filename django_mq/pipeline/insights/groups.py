"""One queue's day as Spark hands it over, to columns of numbers and back.

This runs on executors and needs no Django.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_mq.pipeline.insights.figures import NEVER, Limits, Messages, hours_of_day

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_COUNTS = (
    "arrivals",
    "completions",
    "expired",
    "removed",
    "retries",
    "first_successes",
    "depth_start",
    "depth_max",
    "slo_misses",
    "inversions",
    "starved",
    "consumers",
)
_NUMBERS = (
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "wait_sum",
    "run_p50",
    "run_p95",
    "run_p99",
    "run_sum",
    "depth_mean",
    "fairness",
)
_TEXTS = ("wait_histogram", "run_histogram")

#: What a group answers with; ``hour`` is in microseconds since 1970.
SCHEMA = ", ".join(
    [
        "queue string, level int, hour bigint",
        *(f"{name} bigint" for name in _COUNTS),
        *(f"{name} double" for name in _NUMBERS),
        *(f"{name} string" for name in _TEXTS),
    ]
)


def counter(levels: dict[str, list[int]], otherwise: list[int], limits: Limits) -> Callable[[pa.Table], pa.Table]:
    """Return the function that counts a group; ``levels`` has for each queue the level of every priority."""

    def count(table: pa.Table) -> pa.Table:
        queue, day = table.column("queue")[0].as_py(), table.column("day")[0].as_py()
        midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
        rows = hours_of_day(columns(table, levels.get(queue, otherwise)), midnight, limits)
        return answer([{"queue": queue, **row} for row in rows])

    return count


def columns(table: pa.Table, levels: list[int]) -> Messages:
    """Return the table's messages as arrays."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    def numbers(name: str, missing: int) -> Any:
        values = table.column(name)
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", tz="UTC"))
        return pc.fill_null(values.cast(pa.int64()), missing).to_numpy()

    outcome = table.column("outcome")
    return Messages(
        level=np.array(levels, np.int64)[np.clip(numbers("priority", 4), 0, 9)],
        published=numbers("published_at", NEVER),
        ready=numbers("ready_at", NEVER),
        claimed=numbers("claimed_at", NEVER),
        finished=numbers("finished_at", NEVER),
        accepted=pc.equal(outcome, "accepted").to_numpy(),
        expired=pc.equal(outcome, "expired").to_numpy(),
        attempts=numbers("attempts", 0),
        session=numbers("session_id", -1),
    )


def answer(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as the table that ``SCHEMA`` promises: Spark takes no other type, however close."""
    import pyarrow as pa

    types = {"queue": pa.string(), "level": pa.int32(), "hour": pa.int64()}
    types |= {name: pa.int64() for name in _COUNTS}
    types |= {name: pa.float64() for name in _NUMBERS}
    types |= {name: pa.string() for name in _TEXTS}
    # A level has no consumers: they are the queue's.
    filled = [{"consumers": 0, **row} for row in rows]
    return pa.table({name: pa.array([row.get(name) for row in filled], kind) for name, kind in types.items()})
