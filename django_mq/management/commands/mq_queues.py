"""Show how many messages the queues have."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django_mq.diagnosis.state.fleet import fleet, supplies
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.formats import COUNT_LIMIT, PLAIN
from django_mq.management.arguments import ONLY_QUEUES
from django_mq.management.command import MQCommand
from django_mq.management.tables import QUEUE_HEADINGS, queue_cells, queue_remarks, table
from django_mq.rollups.series import recent_rates


class Command(MQCommand):
    help = (
        f"Show the queues: messages in each state, counted up to {PLAIN.number(COUNT_LIMIT)}, "
        "and whether they deliver."
    )
    arguments: ClassVar = (ONLY_QUEUES,)
    json = "a JSON array"

    def run(self, alias: str, **options: Any) -> None:
        queues = overview(options["queues"], using=alias)
        if self.as_json:
            recent = recent_rates(using=alias)
            rates = [recent.of(queue.name) for queue in queues]
            pairs = zip(queues, rates, strict=True)
            self.answer([{**asdict(queue), "rates": rate and asdict(rate)} for queue, rate in pairs], "")
        elif queues:
            workers = fleet(using=alias)
            supply, left = supplies(workers), unwanted(workers, using=alias)
            rows = [
                (
                    *queue_cells(each),
                    PLAIN.number(each.consumers),
                    queue_remarks(each, supply[each.name].awake, left.get(each.name, 0)),
                )
                for each in queues
            ]
            self.stdout.write(table((*QUEUE_HEADINGS, "CONSUMERS", ""), rows, right=range(1, 8)))
        else:
            self.stdout.write("There are no queues yet; mq_queue create makes one.")
