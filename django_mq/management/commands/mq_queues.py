"""Show how many messages the queues have."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.diagnosis.state.fleet import fleet, supplies
from django_mq.diagnosis.state.limit_words import limit_sentence
from django_mq.diagnosis.state.limiting import LimitNow, fills_of, limit_now
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.diagnosis.state.waiting_keys import waiting_keys
from django_mq.formats import COUNT_LIMIT, PLAIN
from django_mq.management.arguments import ONLY_QUEUES
from django_mq.management.command import MQCommand
from django_mq.management.tables import QUEUE_HEADINGS, printable, queue_cells, queue_remarks, table
from django_mq.rollups.series import recent_rates

if TYPE_CHECKING:
    from django_mq.diagnosis.state.fleet import Supply
    from django_mq.diagnosis.state.overview import QueueState


class Command(MQCommand):
    help = (
        f"Show the queues: messages in each state, counted up to {PLAIN.number(COUNT_LIMIT)}, and whether they "
        "deliver. Of queues that you name, also say what limits them now."
    )
    arguments: ClassVar = (ONLY_QUEUES,)
    json = "a JSON array"

    def run(self, alias: str, **options: Any) -> None:
        queues = overview(options["queues"], using=alias)
        if self.as_json:
            recent = recent_rates(using=alias)
            rates = [recent.of(queue.name) for queue in queues]
            workers = fleet(using=alias)
            supply, left = supplies(workers), unwanted(workers, using=alias)
            factors = [limit_now(each, supply[each.name], left.get(each.name, 0)).factor for each in queues]
            self.answer(
                [
                    {**asdict(queue), "rates": rate and asdict(rate), "limited_by": factor.value}
                    for queue, rate, factor in zip(queues, rates, factors, strict=True)
                ],
                "",
            )
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
            for each in queues if options["queues"] else ():
                limit = _limit(each, supply[each.name], left.get(each.name, 0), alias)
                self.stdout.write(printable(f"{each.name}: {limit_sentence(limit)}"))
        else:
            self.stdout.write("There are no queues yet; mq_queue create makes one.")


def _limit(queue: QueueState, supply: Supply, left: int, alias: str) -> LimitNow:
    waiting = waiting_keys(queue.name, using=alias) if queue.parked else []
    fills = fills_of(queue.name, waiting, using=alias) if queue.parked else []
    return limit_now(queue, supply, left, waiting, fills)
