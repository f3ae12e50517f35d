"""Measure this installation, each figure against a raw limit of the same run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks import measures
from django_mq.management.arguments import add_json
from django_mq.management.command import MQCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = "Measure publishing, draining and pick-up; prints ratios to raw limits of the same run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--quick", action="store_true", help="Small amounts: a look, not a measurement.")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        found = []
        for measure in measures.measure(alias, tenths=1 if options["quick"] else 10):
            found.append({"name": measure.name, "value": measure.value, "unit": measure.unit})
            found[-1] |= {"limit": measure.limit, "ratio": measure.ratio}
            if not options["json"]:
                line = f"{measure.name:14}{measure.value:12,.2f} {measure.unit:12}"
                self.stdout.write(f"{line}plain SQL {measure.limit:12,.2f}  ratio {measure.ratio:.2f}")
                self.stdout.flush()
        if options["json"]:
            self.stdout.write(json.dumps(found))
