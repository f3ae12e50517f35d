"""Measure this installation, each figure against a raw limit of the same run."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.benchmarks import measures
from django_mq.management.arguments import argument
from django_mq.management.command import MQCommand


class Command(MQCommand):
    help = "Measure publishing, draining and pick-up; prints ratios to raw limits of the same run."
    arguments: ClassVar = (
        argument("--quick", action="store_true", help="A tenth of the amounts: a rough idea, not a measurement."),
    )

    def run(self, alias: str, **options: Any) -> None:
        found = []
        for measure in measures.measure(alias, tenths=1 if options["quick"] else 10):
            found.append({key: getattr(measure, key) for key in ("name", "value", "unit", "limit", "ratio")})
            if not self.as_json:
                line = f"{measure.name:14}{measure.value:12,.2f} {measure.unit:12}"
                self.stdout.write(f"{line}plain SQL {measure.limit:12,.2f}  ratio {measure.ratio:.2f}")
                self.stdout.flush()
        if self.as_json:
            self.answer(found, "")
