"""Show how deep the queues are."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.serializers.json import DjangoJSONEncoder

from django_mq.diagnosis.state.overview import COUNT_LIMIT, overview
from django_mq.diagnosis.state.series import recent_rates
from django_mq.management.arguments import add_json
from django_mq.management.command import MQCommand
from django_mq.management.tables import bounded, span, table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from django_mq.diagnosis.state.overview import QueueState

HEADINGS = ("QUEUE", "READY", "SCHEDULED", "CLAIMED", "DEAD", "OLDEST READY", "CONSUMERS", "")


class Command(MQCommand):
    help = f"Show the queues: messages in each state, counted up to {COUNT_LIMIT:,}, and what holds them up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="*", help="Only these.")
        add_json(parser, what="a JSON array")

    def run(self, alias: str, **options: Any) -> None:
        queues = overview(options["queues"], using=alias)
        if options["json"]:
            self.stdout.write(json.dumps(_objects(queues, alias), indent=2, cls=DjangoJSONEncoder))
        elif queues:
            self.stdout.write(table(HEADINGS, map(_row, queues), right=range(1, 7)))
        else:
            self.stdout.write("There are no queues yet; mq_queue create makes one.")


def _objects(queues: Sequence[QueueState], alias: str) -> list[dict[str, Any]]:
    recent = recent_rates(using=alias)
    rates = [recent.of(queue.name) for queue in queues]
    return [{**asdict(queue), "rates": rate and asdict(rate)} for queue, rate in zip(queues, rates, strict=True)]


def _row(queue: QueueState) -> tuple[str, ...]:
    counts = (queue.ready, queue.scheduled, queue.claimed, queue.dead)
    return (
        queue.name,
        *(bounded(count, COUNT_LIMIT) for count in counts),
        span(queue.oldest_ready_seconds),
        f"{queue.consumers:,}",
        _remark(queue),
    )


def _remark(queue: QueueState) -> str:
    remarks = ["closed"] if queue.closed else []
    if queue.paused:
        remarks.append(f"paused: {queue.paused_reason}" if queue.paused_reason else "paused")
    return ", ".join(remarks)
