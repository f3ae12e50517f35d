"""whatif."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from django_mq.formats import PLAIN
from django_mq.management.arguments import argument
from django_mq.management.spark.jobs import job
from django_mq.management.spark.values import day_of
from django_mq.management.tables import printable, table

if TYPE_CHECKING:
    from datetime import date

    from django_mq.pipeline.whatif.job import WaitFigures
    from django_mq.pipeline.whatif.scenario import Scenario

HEADINGS = ("CLASS", "RANK", "SCENARIO", "MESSAGES", "WAIT MEAN", "P50", "P95", "P99", "NOT DONE")
KEY_HEADINGS = ("KEY", "RANK", "SCENARIO", "MESSAGES", "SHARE", "WAIT MEAN", "P50", "P95", "P99", "NOT DONE")


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
            "consumers, credit, service, arrivals, failures, options of the queue, such as kind, max_messages, "
            "ttl_seconds or fair_by, limits by key (throttle, rate_limit, concurrency), and unique; default: a "
            "few common scenarios."
        ),
    ),
    argument("--json", action="store_true"),
)
def whatif(command: Any, alias: str, *, queue: str, day: date, scenarios: list[str], **options: Any) -> None:
    from django_mq.engine.options import QueueOptions
    from django_mq.limits.declared import limits_of
    from django_mq.models import Queue
    from django_mq.pipeline.session import explaining
    from django_mq.pipeline.whatif.job import recorded_consumers, trace_of, what_if, without_unknown
    from django_mq.pipeline.whatif.scenario import Scenario, parse, simulated
    from django_mq.stores.registry import shared_store

    asked = [parse(text) for text in scenarios]
    known = Queue.objects.using(alias).filter(name=queue).first()
    limits = limits_of(queue)
    recorded = Scenario(
        name="as recorded",
        queue=simulated(known.options if known else QueueOptions()),
        limits=limits,
        allowed=shared_store(alias).rates.facts(queue).allowed if limits else {},
    )
    keys = {key for each in [recorded, *asked] for key in each.keys}
    spark = command.session()
    with explaining():
        trace = trace_of(spark, alias, queue, day, keys=keys, published=bool(limits)).cache()
        consumers = recorded_consumers(trace)
    recorded, left_out = without_unknown(trace, replace(recorded, consumers=consumers))
    outcomes = what_if(trace, [recorded, *(asked or _common(recorded))], recorded.queue.levels)
    if options["json"]:
        command.stdout.write(json.dumps([asdict(one) for one in outcomes]))
        return
    command.stdout.write(f"{consumers} consumers at once, as recorded.")
    for problem in left_out:
        command.stdout.write(f"Left out of 'as recorded': {problem}.")
    classes = [one for one in outcomes if one.key is None]
    command.stdout.write(table(HEADINGS, [_cells(one) for one in classes], right=(0, 1, 3, 4, 5, 6, 7)))
    if by_key := [one for one in outcomes if one.key is not None]:
        command.stdout.write("")
        cells = [_cells_of_key(one) for one in by_key]
        command.stdout.write(table(KEY_HEADINGS, cells, right=(1, 3, 4, 5, 6, 7, 8)))


def _common(recorded: Scenario) -> list[Scenario]:
    """Return what is simulated if nothing is asked."""
    queue = recorded.queue
    found = [
        replace(recorded, name="one consumer more", consumers=recorded.consumers + 1),
        replace(recorded, name="half as fast", service=2.0),
        replace(recorded, name="no priorities", queue=replace(queue, kind="fifo")),
    ]
    if recorded.limits:
        found.append(replace(recorded, name="no limits by key", limits=()))
    if queue.fair_by:
        found.append(replace(recorded, name="no fair places", queue=replace(queue, fair_by="", fair_weights="")))
    return found


def _cells(one: WaitFigures) -> tuple[str, ...]:
    level = "all" if one.level < 0 else str(one.level)
    return (level, str(one.rank), one.scenario, PLAIN.number(one.messages), *_times(one), _losses(one))


def _cells_of_key(one: WaitFigures) -> tuple[str, ...]:
    share = "" if one.share is None else PLAIN.percent(one.share)
    key = printable(one.key or "")
    return (key, str(one.rank), one.scenario, PLAIN.number(one.messages), share, *_times(one), _losses(one))


def _times(one: WaitFigures) -> list[str]:
    return ["" if value is None else PLAIN.precise(value) for value in (one.mean, one.p50, one.p95, one.p99)]


def _losses(one: WaitFigures) -> str:
    return ", ".join(f"{PLAIN.number(count)} {why}" for why, count in sorted(one.losses.items()))
