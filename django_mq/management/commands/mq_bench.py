"""Measure this installation, each figure against a raw limit of the same run."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.db import connections

from django_mq import conf
from django_mq.benchmarks.catalogue import chosen
from django_mq.benchmarks.ground import Ground, durability, tables_for
from django_mq.benchmarks.measuring import NAMES
from django_mq.benchmarks.reporting import heading, reported
from django_mq.management.arguments import UsageError, at_least_one
from django_mq.management.command import MQCommand
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator

    from django_mq.benchmarks.catalogue import Measuring
    from django_mq.benchmarks.measuring import Measure


class Command(MQCommand):
    help = "Measure publishing, draining, pick-up and claims; prints ratios to raw limits of the same run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"Some of: {', '.join(NAMES)}.")
        parser.add_argument("--json", metavar="FILE", help="Write the machine and every sample there as well.")
        parser.add_argument("--quick", action="store_true", help="Small amounts: a look, not a measurement.")
        parser.add_argument("--repeats", type=at_least_one, default=3, help="Rounds; the median counts.")

    def run(self, alias: str, **options: Any) -> None:
        try:
            measurings = chosen(options["measures"])
        except ValueError as error:
            raise UsageError(str(error)) from None
        large = shared_store(alias).features.has_schemas
        seconds = sum(item.seconds(quick=options["quick"], large=large) for item in measurings)
        machine = _machine(alias)
        self.stdout.write(", ".join(f"{name} {value}" for name, value in machine.items()))
        self.stdout.write(f"This takes about {_time(seconds)}.")
        self.stdout.write(heading())
        measures = []
        for measure in self._measured(measurings, alias, options):
            if not options["measures"] or measure.name in options["measures"]:
                measures.append(measure)
                self.stdout.write(reported(measure))
                self.stdout.flush()
        if options["json"]:
            document = {"machine": machine, "measures": [measure.as_json() for measure in measures]}
            Path(options["json"]).write_text(json.dumps(document, indent=1), encoding="utf-8")

    def _measured(self, measurings: Iterable[Measuring], alias: str, options: dict[str, Any]) -> Iterator[Measure]:
        for item in measurings:
            with tables_for(alias) as (own, raw):
                ground = Ground(
                    own, alias, options["quick"], options["repeats"], conf.load().REDIS_URL, raw, self._say
                )
                yield from item.run(ground)

    def _say(self, progress: str) -> None:
        self.stderr.write(f"  {progress}")
        self.stderr.flush()


def _machine(alias: str) -> dict[str, Any]:
    connection = connections[alias]
    connection.ensure_connection()
    version = ".".join(map(str, connection.get_database_version()))
    return {
        "python": platform.python_version(),
        "django": django.__version__,
        "database": f"{connection.display_name} {version}",
        "durability": durability(alias),
        "redis": "yes" if conf.load().REDIS_URL else "no",
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def _time(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{round(seconds / 60)} minutes"
