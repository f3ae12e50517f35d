"""whatif."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from django_mq.management.arguments import argument
from django_mq.management.spark.jobs import job
from django_mq.management.spark.values import day_of
from django_mq.management.tables import table

if TYPE_CHECKING:
    from datetime import date

    from django_mq.pipeline.whatif.job import WaitFigures

HEADINGS = ("CLASS", "RANK", "SCENARIO", "MESSAGES", "WAIT MEAN", "P50", "P95", "P99", "NOT DONE")


@job(
    "Send a recorded day through the queue again, with other settings.",
    argument("--queue", required=True),
    argument("--day", type=day_of, required=True, metavar="YYYY-MM-DD"),
    argument(
        "--scenario",
        dest="scenarios",
        action="append",
        default=[],
        metavar="NAME:KEY=VALUE,...",
        help=(
            "consumers, credit, service, arrivals, failures, and options of the queue, such as kind, max_messages "
            "or ttl_seconds; default: a few common scenarios."
        ),
    ),
    argument("--json", action="store_true"),
)
def whatif(command: Any, alias: str, *, queue: str, day: date, scenarios: list[str], **options: Any) -> None:
    from django_mq.engine.options import QueueOptions
    from django_mq.models import Queue
    from django_mq.pipeline.session import explaining
    from django_mq.pipeline.whatif.job import recorded_consumers, trace_of, what_if
    from django_mq.pipeline.whatif.scenario import Scenario, parse, simulated

    asked = [parse(text) for text in scenarios]
    known = Queue.objects.using(alias).filter(name=queue).first()
    own = simulated(known.options if known else QueueOptions())
    spark = command.session()
    with explaining():
        trace = trace_of(spark, alias, queue, day).cache()
        consumers = recorded_consumers(trace)
    recorded = Scenario(name="as recorded", queue=own, consumers=consumers)
    others = asked or [
        replace(recorded, name="one consumer more", consumers=consumers + 1),
        replace(recorded, name="half as fast", service=2.0),
        replace(recorded, name="no priorities", queue=replace(own, kind="fifo")),
    ]
    outcomes = what_if(trace, [recorded, *others], own.levels)
    if options["json"]:
        command.stdout.write(json.dumps([asdict(one) for one in outcomes]))
    else:
        command.stdout.write(f"{consumers} consumers at once, as recorded.")
        command.stdout.write(table(HEADINGS, [_cells(one) for one in outcomes], right=(0, 1, 3, 4, 5, 6, 7)))


def _cells(one: WaitFigures) -> tuple[str, ...]:
    times = ("" if value is None else f"{value:.3g} s" for value in (one.mean, one.p50, one.p95, one.p99))
    losses = ", ".join(f"{count:,} {why}" for why, count in sorted(one.losses.items()))
    level = "all" if one.level < 0 else str(one.level)
    return (level, str(one.rank), one.scenario, f"{one.messages:,}", *times, losses)
