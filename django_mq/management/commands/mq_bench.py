"""Measure this installation, each figure beside the limit of the database in the same run."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.benchmarks import measures
from django_mq.formats import PLAIN
from django_mq.management.arguments import argument
from django_mq.management.command import MQCommand

LABELS = {
    "publish_one": "publish one by one",
    "publish_many": "publish in batches",
    "drain": "drain with a worker",
    "pickup_p50": "pick up when idle, median",
    "pickup_p99": "pick up when idle, 99th percentile",
}


class Command(MQCommand):
    help = "Measure publishing, draining and pick-up, each beside what the database does in plain SQL."
    arguments: ClassVar = (
        argument("--quick", action="store_true", help="A tenth of the amounts: a rough idea, not a measurement."),
    )

    def run(self, alias: str, **options: Any) -> None:
        found = []
        for measure in measures.measure(alias, tenths=1 if options["quick"] else 10):
            if options["quick"] and measure.name == "pickup_p99":
                continue  # so few samples say nothing of it
            found.append({key: getattr(measure, key) for key in ("name", "value", "unit", "limit", "ratio")})
            if not self.as_json:
                self.stdout.write(
                    f"{LABELS[measure.name]:36}{PLAIN.digits(measure.value):>10} {measure.unit:12}"
                    f"  the database alone {PLAIN.digits(measure.limit):>10} {measure.unit}"
                )
                self.stdout.flush()
        if self.as_json:
            self.answer(found, "")
