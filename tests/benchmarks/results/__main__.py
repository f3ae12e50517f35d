"""Measure and report: ``python -m tests.benchmarks.results``; see the package."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import django
from redis import Redis

from tests.benchmarks.celery.__main__ import BROKER, machine, parse, write
from tests.benchmarks.peers import new_database
from tests.benchmarks.results.figures import NAMES
from tests.benchmarks.store.figures import heading, reported
from tests.services.environment import Services

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from tests.benchmarks.results.bench import ResultBench
    from tests.benchmarks.store.figures import Judged


def main() -> None:
    """Parse, measure, print."""
    options = parse(sys.argv[1:], "tests.benchmarks.results", __doc__, NAMES)
    report: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder, servers() as redis, bench(Path(folder), redis, options) as run:
        write(heading(targets=True))
        for name in options.measures or NAMES:
            for measure in measurings()[name](run, name):
                report.append(measure)
                write(reported(measure, targets=True))
    if options.json:
        document = {"machine": machine(), "measures": [measure.as_json() for measure in report]}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


@contextmanager
def servers() -> Iterator[str]:
    """Have PostgreSQL, with a database of its own, and yield the URL of an empty database of Redis."""
    with Services() as services, new_database(services.url("postgresql"), "mq_bench_results") as url:
        redis = f"{services.url('redis').rpartition('/')[0]}/{BROKER}"
        os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.results.settings", "DATABASE_URL": url}
        with Redis.from_url(redis) as client:
            client.flushdb()
            yield redis
            client.flushdb()


@contextmanager
def bench(folder: Path, redis: str, options: argparse.Namespace) -> Iterator[ResultBench]:
    """Make the tables, and the sides."""
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    import django_mq.integrations.celery.known  # noqa: F401 - Kombu learns the scheme
    from django_mq.notifications.waiters import WAITERS
    from tests.benchmarks.results.bench import ResultBench
    from tests.benchmarks.results.sides import ResultSide

    call_command("migrate", verbosity=0)
    ours, stored, keeping = "django-mq://", "django-db", {"BENCH_CONN_MAX_AGE": "60"}
    run = ResultBench(
        ResultSide("ours", ours, ours, folder),
        ResultSide("redis", redis, redis, folder),
        ResultSide("stored", ours, stored, folder),
        (
            ResultSide("ours_kept", ours, ours, folder, **keeping),
            ResultSide("stored_kept", ours, stored, folder, **keeping),
        ),
        options.quick,
        options.repeats,
    )
    try:
        yield run
    finally:
        WAITERS.close()
        connections.close_all()


def measurings() -> dict[str, Callable[[ResultBench, str], Iterator[Judged]]]:
    """Return what measures each name."""
    from tests.benchmarks.results import chording, getting, storing

    return (
        dict.fromkeys(getting.POOLS, getting.measure_get)
        | {"call": getting.measure_call}
        | dict.fromkeys(chording.SIZES, chording.measure)
        | dict.fromkeys(("result_cost", "result_cost_kept"), storing.measure)
    )


if __name__ == "__main__":
    main()
