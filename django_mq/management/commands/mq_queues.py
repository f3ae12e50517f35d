"""Show how many messages the queues have."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.diagnosis.state.overview import COUNT_LIMIT, overview
from django_mq.diagnosis.state.series import recent_rates
from django_mq.management.arguments import ONLY_QUEUES
from django_mq.management.command import MQCommand
from django_mq.management.tables import QUEUE_HEADINGS, queue_cells, table

if TYPE_CHECKING:
    from django_mq.diagnosis.state.overview import QueueState


class Command(MQCommand):
    help = f"Show the queues: messages in each state, counted up to {COUNT_LIMIT:,}, and whether they deliver."
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
            rows = [(*queue_cells(queue), f"{queue.consumers:,}", _remark(queue)) for queue in queues]
            self.stdout.write(table((*QUEUE_HEADINGS, "CONSUMERS", ""), rows, right=range(1, 8)))
        else:
            self.stdout.write("There are no queues yet; mq_queue create makes one.")


def _remark(queue: QueueState) -> str:
    remarks = ["closed"] if queue.closed else []
    if queue.paused:
        remarks.append(f"paused: {queue.paused_reason}" if queue.paused_reason else "paused")
    return ", ".join(remarks)
