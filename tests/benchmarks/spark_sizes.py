"""From which size on Spark pays: ``python -m tests.benchmarks.spark_sizes [--rows 10000 100000]``.

The hourly figures of a week by SQL on the history table, by DuckDB (``pip install duckdb``; left out where it is
not) on Parquet files, and by the insight job on both, which also counts inversions, starvation and histograms.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.benchmarks.peers import new_database
from tests.benchmarks.spark import DATABASE, Environment, Rates, Sizes, filled, note, set_up
from tests.services.environment import Services

if TYPE_CHECKING:
    from datetime import date

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
#: By queue and hour, and by level too; the depth by what came and what went; Jain's index.
QUESTIONS = (
    """SELECT queue, priority, date_trunc('hour', finished_at) AS hour, count(*) AS ended, sum(attempts),
        count(*) FILTER (WHERE attempts = 0), count(*) FILTER (WHERE waited > 60), {spread}
    FROM (SELECT *, {waited} AS waited, {worked} AS worked FROM {history}) timed
    GROUP BY GROUPING SETS ((queue, date_trunc('hour', finished_at)),
                            (queue, priority, date_trunc('hour', finished_at)))""",
    """SELECT queue, date_trunc('hour', moment), max(depth) FROM (
        SELECT queue, moment, sum(step) OVER (PARTITION BY queue ORDER BY moment, step ROWS UNBOUNDED PRECEDING)
            AS depth
        FROM (SELECT queue, ready_at AS moment, 1 AS step FROM {history}
              UNION ALL SELECT queue, claimed_at, -1 FROM {history}) events) standing
    GROUP BY 1, 2""",
    """SELECT queue, hour, sum(done) * sum(done) / (count(*) * sum(done * done)) FROM (
        SELECT queue, date_trunc('hour', finished_at) AS hour, session_id, count(*) AS done
        FROM {history} GROUP BY 1, 2, 3) shares
    GROUP BY 1, 2""",
)
DIALECTS = {
    "postgresql": {
        "history": "(SELECT queue_name AS queue, * FROM django_mq_history) history",
        "waited": "extract(epoch FROM claimed_at - ready_at)::float8",
        "worked": "extract(epoch FROM finished_at - claimed_at)::float8",
        "spread": "percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY waited), "
        "percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY worked)",
    },
    "duckdb": {
        "waited": "(epoch_us(claimed_at) - epoch_us(ready_at)) / 1e6",
        "worked": "(epoch_us(finished_at) - epoch_us(claimed_at)) / 1e6",
        "spread": "quantile_cont(waited, [0.5, 0.95, 0.99]), quantile_cont(worked, [0.5, 0.95, 0.99])",
    },
}


def by_sql(connection: Any, dialect: str, **more: str) -> int:
    """Ask all questions, fetch all answers; return how many messages the first of them counted."""
    words = DIALECTS[dialect] | more
    answers = [connection.execute(question.format(**words)).fetchall() for question in QUESTIONS]
    return sum(row[3] for row in answers[0] if row[1] is None)


def by_job(frame: Any, first: date, last: date) -> int:
    """Let the insight job count the frame's hours; return how many messages it counted."""
    from django_mq.pipeline.insights.figures import WaitLimits
    from django_mq.pipeline.insights.job import hours

    rows = hours(frame, "default", first, last + timedelta(days=1), WaitLimits()).collect()
    ended = ("completions", "expired", "removed")
    return sum(row[name] for row in rows if row["level"] == -1 for name in ended)


def one_size(environment: Environment, rows: int) -> Rates:
    """Measure everything once at this size; what each counted has to be the same."""
    from django_mq.pipeline.insights.job import NEEDED, finished

    first, last = filled(environment.url, rows)
    history = finished(environment.spark, "default", first, NEEDED)
    path, rates, counted = str(environment.folder / str(rows)), Rates(rows), dict[str, int]()
    note("writing Parquet files")
    history.write.parquet(path)

    def run(name: str, work: Any) -> None:
        note(name)
        rates.run(name, lambda: counted.update({name: work()}))

    with psycopg.connect(environment.url) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        run("PostgreSQL", partial(by_sql, connection, "postgresql"))
    if (duckdb := duck()) is not None:
        duckdb.execute("SET threads = 2; SET TimeZone = 'UTC'")
        run("DuckDB", partial(by_sql, duckdb, "duckdb", history=f"read_parquet('{path}/*.parquet')"))
    run("Spark, history", partial(by_job, history, first, last))
    run("Spark, Parquet", partial(by_job, environment.spark.read.parquet(path), first, last))
    assert set(counted.values()) == {rows}, counted
    return rates


def duck() -> Any:
    """Return DuckDB, in memory, if it is there."""
    try:
        return import_module("duckdb").connect()
    except ImportError:
        return None


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    services, start = Services(), Rates(1)
    try:
        with new_database(services.url("postgresql"), DATABASE) as url, tempfile.TemporaryDirectory() as folder:
            set_up(url)
            environment = Environment(url, Path(folder), Sizes())
            start.run("Spark's start", lambda: environment.spark)
            try:
                found = [one_size(environment, rows) for rows in options.rows]
            finally:
                environment.close()
    finally:
        services.close()
    names = [*found[0].found]
    say("rows", *names)
    say(*["---"] * (1 + len(names)))
    for rates in [*found, start]:
        cells = [f"{rates.rows / rates.found[name][0]:.2f} s" for name in rates.found]
        worked = [f"{rates.processor[name][0] * rates.rows / 1_000_000:.2f} s" for name in rates.found]
        pairs = [f"{clock} ({busy})" for clock, busy in zip(cells, worked, strict=True)]
        say(f"{rates.rows:,}" if rates is not start else "Spark's start", *pairs)
    sys.stdout.write("By the clock; in brackets, of processor time.\n")


def say(*cells: str) -> None:
    """Print a line of the table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
