"""The pipeline beside raw limits of the same run: ``python -m tests.benchmarks.spark [MEASURE...] [--quick]``.

A new database on the server that DATABASE_URL names (or that the tests would start), Spark on two processors of
this machine. In full it takes some eight minutes and 4 GB of disk; ``--json FILE`` keeps every sample, and is
written after each measure. A measure that fails is told at the end; the others go on, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
from psycopg import sql

from tests.benchmarks.peers import new_database
from tests.services.environment import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
DATABASE = "mq_bench_spark"
MEBIBYTE = 1024 * 1024
#: The columns of the history that are read unless more are asked for, as SQL.
COLUMNS = (
    "id, queue_name, message_id, type, correlation_id, priority, attempts, published_at, claimed_at, outcome, "
    "ready_at, finished_at, session_id"
)
QUEUES, DAYS = 20, 7


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    history: int = 10_000_000
    read: int = 1_000_000
    publish: int = 1_000_000
    trace: int = 400_000
    rounds: int = 2


QUICK = Sizes(history=200_000, read=100_000, publish=60_000, trace=4000, rounds=1)


@dataclass
class Figure:
    """One line of the table: what was measured, and what it is compared with."""

    name: str
    unit: str
    value: float
    limit: float | None = None
    #: What the ratio has to reach, or, where there is no limit to compare with, what the value must not exceed.
    target: float | None = None
    runs: dict[str, list[float]] = field(default_factory=dict)
    #: Microseconds of processor time for each row, of all processes: ours, and the limit's. A busy machine takes
    #: time from both, but gives two processes no more than one.
    processor: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """The value in parts of the raw limit."""
        return self.value / self.limit if self.limit else None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached."""
        if self.target is None:
            return None
        return self.value <= self.target if self.ratio is None else self.ratio >= self.target

    def cells(self) -> list[str]:
        """Return the line's cells."""
        met = {True: "met", False: "missed", None: ""}[self.met]
        limit = "" if self.limit is None else f"{self.limit:,.2f}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        processor = "" if self.processor is None else "{:.1f} / {:.1f} µs".format(*self.processor)
        figure = f"{self.value:,.2f} {self.unit}"
        return [f"`{self.name}`", figure, limit, ratio, str(self.target or ""), met, processor]


class Environment:
    """The database, the session and the data that the measures share, each made when it is first needed."""

    def __init__(self, url: str, folder: Path, sizes: Sizes) -> None:
        self.url, self.folder, self.sizes = url, folder, sizes

    @cached_property
    def spark(self) -> SparkSession:
        """Spark on two processors, warm."""
        from django_mq.pipeline.session import open_session

        note("starting Spark")
        options = {"spark.driver.memory": "2g", "spark.local.dir": str(self.folder / "local")}
        session = open_session("benchmark", master="local[2]", options=options)
        session.range(10).mapInArrow(lambda batches: batches, "id bigint").count()
        return session

    def close(self) -> None:
        """Stop Spark, if it was started. If that fails, it ends with this process."""
        if "spark" in vars(self):
            with suppress(Exception):  # interrupted in the middle of a command, it hears of no other
                self.spark.stop()

    @cached_property
    def history(self) -> tuple[date, date]:
        """A history of so many days, filled; returns the first and the last of them."""
        return filled(self.url, self.sizes.history)


def filled(url: str, rows: int) -> tuple[date, date]:
    """Fill the history of a week with so many rows instead of what it has; return its first and its last day."""
    last = datetime.now(UTC).date() - timedelta(days=1)
    first = last - timedelta(days=DAYS - 1)
    note(f"filling a history of {rows:,} rows")
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE django_mq_history RESTART IDENTITY")
        indexes = connection.execute(INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
        start = datetime(first.year, first.month, first.day, tzinfo=UTC)
        gap = DAYS * 86_400 / rows
        connection.execute(FILL, {"start": start, "gap": gap, "rows": rows, "queues": QUEUES})
        for _, definition in indexes:
            connection.execute(definition)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE) django_mq_history")
    return first, last


INDEXES = """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = 'django_mq_history'::regclass AND NOT indisprimary"""
#: Messages of all queues and priorities; one of ten has failed before, one of a hundred waits for minutes.
FILL = """INSERT INTO django_mq_history (message_id, queue_name, type, correlation_id, priority, outcome, attempts,
    published_at, ready_at, claimed_at, finished_at, session_id)
SELECT lpad(to_hex(n), 32, '0')::uuid, 'queue ' || n %% %(queues)s, '', NULL, n %% 10,
    CASE WHEN n %% 97 = 0 THEN 2 ELSE 1 END, CASE WHEN n %% 10 = 0 THEN 1 ELSE 0 END,
    at, at, at + waited, at + waited + interval '1 millisecond' * (n * 7919 %% 3000)::float8, n %% 8
FROM (SELECT n, %(start)s::timestamptz + n * %(gap)s * interval '1 second' AS at,
        interval '1 millisecond' * (n * 104729 %% 5000 + CASE WHEN n %% 100 = 0 THEN 400000 ELSE 0 END)::float8
            AS waited
    FROM generate_series(0::bigint, %(rows)s - 1) AS n) made"""


def note(text: str) -> None:
    """Say on the error stream what is going on."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")


@dataclass
class Rates:
    """Runs of some ways to do one thing with so many rows."""

    rows: int
    found: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    def run(self, name: str, work: Callable[[], Any]) -> None:
        """Do it, and keep its rate and its processor time."""
        begin, worked = time.perf_counter(), processor_seconds()
        work()
        self.processor.setdefault(name, []).append((processor_seconds() - worked) / self.rows * 1_000_000)
        self.found.setdefault(name, []).append(self.rows / (time.perf_counter() - begin))

    def figure(self, name: str, unit: str, limit: str, target: float | None = None) -> Figure:
        """Return what ``ours`` is beside the limit, by the medians."""
        value, raw = (statistics.median(self.found[each]) for each in ("ours", limit))
        processor = tuple(statistics.median(self.processor[each]) for each in ("ours", limit))
        return Figure(name, unit, value, raw, target, self.found, (processor[0], processor[1]))


def processor_seconds() -> float:
    """Return what this process and all below it, the database's server if it was started here, have worked."""
    found = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            found += sum(process.cpu_times()[:4])
    return found


# Reading


def read(environment: Environment) -> list[Figure]:
    """Read history into Spark, beside fetching the same columns with the driver, by one process and by two."""
    from django_mq.pipeline.source import read as read_frame

    _, spark, rows = environment.history, environment.spark, environment.sizes.read

    def ours() -> None:
        frame = read_frame(spark, last_id=rows)
        found = frame.selectExpr("count(*)", *(f"count({name})" for name in frame.columns)).first()
        assert found is not None
        assert found[0] == rows

    rates = Rates(rows)
    halves = (1, rows // 2 + 1), (rows // 2, rows)
    ours()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(raw_read, [environment.url] * 2, [1, 1], [1, 1]))
        for _ in range(environment.sizes.rounds):
            rates.run("one", lambda: pool.submit(raw_read, environment.url, 1, rows).result())
            rates.run("ours", ours)
            rates.run("two", lambda: list(pool.map(raw_read, [environment.url] * 2, *halves)))
    return [
        rates.figure("read", "rows/s", "one", 0.6),
        rates.figure("read, limit: two processes", "rows/s", "two"),
    ]


def raw_read(url: str, first: int, last: int) -> int:
    """Fetch rows with a cursor on the server, and let them go."""
    found = 0
    with psycopg.connect(url) as connection, connection.cursor("raw") as cursor:
        cursor.execute(f"SELECT {COLUMNS} FROM django_mq_history WHERE id BETWEEN %s AND %s", (first, last))
        while rows := cursor.fetchmany(20_000):
            found += len(rows)
    return found


# Publishing


def publish(environment: Environment) -> list[Figure]:
    """Publish a directory of Parquet files, beside one COPY of the same rows into a copy of the table."""
    from django_mq.models import BulkJob, Message, Queue
    from django_mq.pipeline.publisher import publish_frame

    amount, spark = environment.sizes.publish, environment.spark
    Queue.objects.get_or_create(name="bench")
    path = str(environment.folder / "letters")
    body = "to_json(struct(id number, concat('customer ', id % 1000) name, repeat('x', 40) text)) body"
    spark.range(amount, numPartitions=4).selectExpr("'bench' queue", body).write.parquet(path)
    frame = spark.read.parquet(path)
    few_blocks, blocks = raw_blocks(environment.url, frame.limit(1)), raw_blocks(environment.url, frame)
    rates, warming = Rates(amount), Rates(amount)
    for number in range(-1, environment.sizes.rounds):
        few = number < 0  # the first time, everything is cold
        note("publishing" if not few else "warming up")
        given = frame.limit(amount // 20) if few else frame
        into = warming if few else rates
        into.run("raw", partial(raw_copy, environment.url, few_blocks if few else blocks))
        into.run("ours", partial(publish_frame, given, f"benchmark {number}", "default"))
        assert few or Message.objects.count() == amount
        BulkJob.objects.all().delete()
        with psycopg.connect(environment.url, autocommit=True) as connection:
            connection.execute("TRUNCATE django_mq_message; DROP TABLE raw_message; CHECKPOINT")
    return [rates.figure("publish", "messages/s", "raw", 0.6)]


def raw_blocks(url: str, frame: DataFrame) -> list[bytes]:
    """Return what COPY is sent, ready before the clock starts: all raw COPY has to do is copy."""
    from uuid import UUID

    from django_mq.delivery.codecs import new_message_ids
    from django_mq.stores.postgresql import copying
    from django_mq.stores.records import NewMessage
    from django_mq.stores.sql.database import statement

    now = int((datetime.now(UTC) - datetime(2000, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    like = NewMessage(queue_name="bench", message_id=UUID(int=0), body=b"", content_type="application/json")
    bodies = [body.encode() for body in frame.toPandas()["body"]]
    rows = copying.rows_alike(like, new_message_ids(len(bodies)), bodies, copying.CopyTarget(1, now), None)
    text = statement("django_mq.stores.postgresql", "copy_alike", "").replace("django_mq_message", "made")
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE made (LIKE django_mq_message INCLUDING IDENTITY)")
        copying.write(cursor, text, rows, with_ids=False)
        with cursor.copy(text.replace("FROM STDIN", "TO STDOUT")) as copy:
            return [bytes(block) for block in copy]


def raw_copy(url: str, blocks: list[bytes]) -> None:
    """Copy into a table with the same columns and indexes, in one transaction."""
    from django_mq.stores.sql.database import statement

    text = statement("django_mq.stores.postgresql", "copy_alike", "").replace("django_mq_message", "raw_message")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE raw_message (LIKE django_mq_message INCLUDING ALL)")
        with connection.cursor() as cursor, cursor.copy(text) as copy:
            for block in blocks:
                copy.write(block)


# Insights


def insights(environment: Environment) -> list[Figure]:
    """Compute the figures of a week, and watch the memory of this process and all below it."""
    from django_mq.pipeline.insights.job import compute

    (first, last), spark = environment.history, environment.spark
    note("computing insights")
    rates = Rates(environment.sizes.history)
    with watched_memory() as most:
        rates.run("ours", lambda: compute(spark, "default", first, last))
    figure = Figure(
        "insights", "s", environment.sizes.history / rates.found["ours"][0], target=120, runs=rates.processor
    )
    return [figure, Figure("insights_memory", "GiB", max(most), target=6)]


@contextmanager
def watched_memory() -> Iterator[list[float]]:
    """Yield a list of the memory in use, in GiB, that grows while the block runs."""
    over, found = threading.Event(), [0.0]

    def watch() -> None:
        while not over.wait(0.5):
            found.append(resident() / 1024 / MEBIBYTE)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def resident() -> int:
    """Return the resident bytes of this process and all below it; pages that they share count more than once."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


# What-if


def what_if(environment: Environment) -> list[Figure]:
    """Simulate four scenarios on Spark, beside one after the other in this process."""
    from django_mq.pipeline.whatif.day import spreads
    from django_mq.pipeline.whatif.job import what_if as run
    from django_mq.pipeline.whatif.scenario import Scenario
    from django_mq.pipeline.whatif.simulation import Arrival, simulate

    spark, size = environment.spark, environment.sizes.trace
    path = str(environment.folder / "trace")
    at = "timestamp_micros(1700000000000000 + id * 100000)"
    spark.range(size, numPartitions=1).selectExpr(
        "id",
        "cast(id % 10 as int) priority",
        f"{at} ready_at",
        f"{at} + make_dt_interval(0, 0, 0, 1) claimed_at",
        f"{at} + make_dt_interval(0, 0, 0, 1 + (id * 7919 % 700) / 1000) finished_at",
    ).write.parquet(path)
    scenarios = [Scenario(name=f"{count} consumers", consumers=count) for count in (4, 5, 6, 7)]
    columns = "priority", "unix_micros(ready_at) / 1e6 at", "(id * 7919 % 700) / 1000 service"
    rows = spark.read.parquet(path).orderBy("id").selectExpr(*columns).collect()

    def alone() -> None:
        trace = [Arrival(row["at"], row["priority"], float(row["service"])) for row in rows]
        for scenario in scenarios:
            spreads(scenario.name, simulate(trace, scenario), [row["priority"] for row in rows])

    rates = Rates(4 * size)
    run(spark.read.parquet(path).limit(100), scenarios)
    for _ in range(environment.sizes.rounds):
        note("simulating")
        rates.run("one process", alone)
        rates.run("ours", lambda: run(spark.read.parquet(path), scenarios))
    return [rates.figure("what_if", "messages/s", "one process", 1.6)]


MEASURES: dict[str, Callable[[Environment], list[Figure]]] = {
    "publish": publish,
    "what_if": what_if,
    "read": read,
    "insights": insights,
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(MEASURES))
    parser.add_argument("--quick", action="store_true", help="Small amounts: a look, whose figures say little.")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if strange := set(options.measures) - set(MEASURES):
        parser.error(f"there is no measure {', '.join(sorted(strange))}; use {', '.join(MEASURES)}")
    # Ended from outside, it clears up as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    figures: list[Figure] = []
    services = Services()
    try:
        with new_database(services.url("postgresql"), DATABASE) as url, tempfile.TemporaryDirectory() as folder:
            environment = Environment(url, Path(folder), QUICK if options.quick else Sizes())
            failed = measured(environment, options.measures or [*MEASURES], figures, options.json)
    finally:
        services.close()
    lines = ["| measure | figure | limit | ratio | target | | processor |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(figure.cells())} |" for figure in figures]
    sys.stdout.write("\n".join(lines) + "\n")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}; why is said above.")


def measured(environment: Environment, names: list[str], figures: list[Figure], file: str | None) -> list[str]:
    """Set Django up on the database, measure, and return the names of the measures that failed."""
    set_up(environment.url)
    from django.db import connections

    failed = []
    try:
        for name in names:
            try:
                figures += MEASURES[name](environment)
            except Exception:  # noqa: BLE001 - the measures that follow do not depend on it
                traceback.print_exc()
                failed.append(name)
            keep(figures, file)
    finally:
        environment.close()
        connections.close_all()
    return failed


def set_up(url: str) -> None:
    """Make tables in the database, and let Django, here and in what is started here, use them."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings.postgresql", "DATABASE_URL": url}
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def keep(figures: list[Figure], file: str | None) -> None:
    """Write what is known by now."""
    if file:
        said = [{**asdict(figure), "ratio": figure.ratio, "met": figure.met} for figure in figures]
        Path(file).write_text(json.dumps({"measures": said}, indent=1) + "\n")


if __name__ == "__main__":
    main()
