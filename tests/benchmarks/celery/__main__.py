"""Measure and report: ``python -m tests.benchmarks.celery``; see the package."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from tests.benchmarks.celery.figures import NAMES
from tests.benchmarks.peers import new_database
from tests.benchmarks.store.figures import heading, reported
from tests.services.environment import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.store.figures import Judged

#: Of REDIS_URL's server: hints in one of its databases, the broker that is compared with in another.
HINTS, BROKER = 14, 15


def main() -> None:
    """Parse, measure, print."""
    options = parse(sys.argv[1:], "tests.benchmarks.celery", __doc__, NAMES)
    report: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder, servers(), bench(Path(folder), options) as run:
        write(heading())
        for name in options.measures or NAMES:
            for measure in measurings()[name](run, name):
                report.append(measure)
                write(reported(measure))
    if options.json:
        document = {"machine": machine(), "measures": [measure.as_json() for measure in report]}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


def parse(
    arguments: list[str], package: str, description: str | None, names: Collection[str]
) -> argparse.Namespace:
    """Return the options of a package that has measures of these names."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"Some of: {', '.join(names)}.")
    parser.add_argument("--quick", action="store_true", help="Small amounts: a look, not a measurement.")
    parser.add_argument("--repeats", type=int, default=3, help="Rounds; the median counts.")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="Write the machine and every sample there as well."
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.measures) - set(names))
    if unknown:
        parser.error(f"There is no measure {', '.join(unknown)}; there are {', '.join(names)}.")
    return options


@contextmanager
def servers() -> Iterator[None]:
    """Have PostgreSQL, with a database of its own, and Redis; name them in the environment."""
    with Services() as services, new_database(services.url("postgresql"), "mq_bench_celery") as url:
        redis = services.url("redis").rpartition("/")[0]
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tests.benchmarks.celery.settings",
            "DATABASE_URL": url,
            "REDIS_URL": f"{redis}/{HINTS}",
            "BENCH_REDIS": f"{redis}/{BROKER}",
        }
        yield


@contextmanager
def bench(folder: Path, options: argparse.Namespace) -> Iterator[Bench]:
    """Make the tables, and both sides."""
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    import django_mq.integrations.celery.known  # noqa: F401 - Kombu learns the scheme
    from tests.benchmarks.celery.bench import Bench
    from tests.benchmarks.celery.sides import OnDjangoMQ, OnRedis

    call_command("migrate", verbosity=0)
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE bench_rows (n integer)")
    ours = OnDjangoMQ(os.environ["DATABASE_URL"], folder)
    run = Bench(ours, OnRedis(os.environ["BENCH_REDIS"], folder), options.quick, options.repeats)
    try:
        yield run
    finally:
        run.redis.app.control.purge()
        connections.close_all()


def measurings() -> dict[str, Callable[[Bench, str], Iterator[Judged]]]:
    """Return what measures each name."""
    from tests.benchmarks.celery import draining, picking_up, publishing, scheduling, starting

    return dict.fromkeys(draining.KINDS, draining.measure) | {
        "delay_in_atomic": publishing.measure,
        "delay_alone": publishing.measure,
        "pickup_p50": picking_up.measure,
        "eta_worker_memory": scheduling.measure_memory,
        "eta_claim": scheduling.measure_claim,
        "start_to_first_task": starting.measure,
    }


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    packages = {name: version(name) for name in ("django", "celery", "kombu", "redis", "psycopg")}
    load = round(os.getloadavg()[0], 2)
    return packages | {"python": platform.python_version(), "cores": os.cpu_count(), "load": load}


def write(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
