"""Measure publishing, draining, pick-up and claims; print ratios to raw limits of the same run.

The database is that of DJANGO_SETTINGS_MODULE. Without one, it is a new one of ``--store``, on a server
that DATABASE_URL names (for MariaDB, MARIADB_URL) or that is started, with Redis.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from tests.benchmarks.peers import new_database
from tests.benchmarks.store.figures import NAMES, heading, reported
from tests.services.environment import Services

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.store.catalogue import Measuring
    from tests.benchmarks.store.figures import Judged

ALIAS = "default"
STORES = ("postgresql", "sqlite", "mariadb")


def main() -> None:
    """Parse, measure, print."""
    options = parse(sys.argv[1:])
    with project(options.store):
        django.setup()
        from tests.benchmarks.store.catalogue import chosen
        from tests.benchmarks.store.environment import has_schemas

        measurings = chosen(options.measures)
        facts = machine()
        write(", ".join(f"{name} {value}" for name, value in facts.items()))
        seconds = sum(item.seconds(quick=options.quick, large=has_schemas(ALIAS)) for item in measurings)
        write(
            f"This takes about {seconds} seconds."
            if seconds < 100
            else f"This takes about {seconds // 60} minutes."
        )
        write(heading(targets=options.targets))
        found = []
        for judged in run(measurings, options):
            if not options.measures or judged.measure.name in options.measures:
                found.append(judged.as_json())
                write(reported(judged, targets=options.targets))
    if options.json:
        options.json.write_text(json.dumps({"machine": facts, "measures": found}, indent=1), encoding="utf-8")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"Some of: {', '.join(NAMES)}.")
    parser.add_argument("--store", choices=STORES, default="postgresql", help="Where no settings are given.")
    parser.add_argument("--quick", action="store_true", help="Small amounts: a look, not a measurement.")
    parser.add_argument("--targets", action="store_true", help="Print what each measure should reach, too.")
    parser.add_argument("--repeats", type=int, default=3, help="Rounds; the median counts.")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="Write the machine and every sample there as well."
    )
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.measures) - set(NAMES)):
        parser.error(f"There is no measure {', '.join(unknown)}; there are {', '.join(NAMES)}.")
    return options


@contextmanager
def project(store: str) -> Iterator[None]:
    """Have settings in the environment, and tables in the database that they name."""
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        yield
        return
    with ExitStack() as stack:
        services = stack.enter_context(Services())
        if store == "sqlite":
            url = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/bench.sqlite3"
        else:
            url = services.url(store)
        if store == "postgresql":
            url = stack.enter_context(new_database(url, "mq_bench"))
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": f"tests.settings.{store}",
            "DATABASE_URL": url,
            "REDIS_URL": services.url("redis"),
        }
        django.setup()
        from django.core.management import call_command
        from django.db import connections

        call_command("migrate", verbosity=0)
        yield
        connections.close_all()


def run(measurings: list[Measuring], options: argparse.Namespace) -> Iterator[Judged]:
    """Measure, each in empty tables."""
    from django_mq import conf
    from tests.benchmarks.store.environment import Environment, tables_for

    for item in measurings:
        with tables_for(ALIAS) as (own, raw):
            redis = conf.load().REDIS_URL
            yield from item.run(Environment(own, ALIAS, options.quick, options.repeats, redis, raw, say))


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    from django.db import connections

    from django_mq import conf
    from tests.benchmarks.store.raw import KINDS

    connection = connections[ALIAS]
    with connection.cursor() as cursor:
        cursor.execute(KINDS[connection.vendor].durability)
        durability = cursor.fetchone()[0]
    version = ".".join(map(str, connection.get_database_version()))
    return {
        "python": platform.python_version(),
        "django": django.__version__,
        "database": f"{connection.display_name} {version}",
        "durability": durability,
        "redis": "yes" if conf.load().REDIS_URL else "no",
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def say(progress: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"  {progress}\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
