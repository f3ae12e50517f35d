"""Watch the queues and the workers, as ``top`` watches processes."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_mq.diagnosis.fleet import fleet
from django_mq.diagnosis.flow import Flow
from django_mq.diagnosis.overview import COUNT_LIMIT, overview
from django_mq.errors import StoreUnavailable
from django_mq.management.command import MQCommand, until_told
from django_mq.management.tables import bounded, plural, shortened, span, table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django_mq.diagnosis.flow import Rates
    from django_mq.diagnosis.overview import QueueState

HEADINGS = ("QUEUE", "READY", "SCHEDULED", "CLAIMED", "DEAD", "OLDEST READY", "DONE/s", "CONSUMERS", "")
#: Home, and clear to the end of the screen: it does not flicker as a cleared screen does.
REDRAW = "\x1b[H\x1b[J"


class Command(MQCommand):
    help = "Watch depth, age, rates and workers until interrupted. A few statements each time."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="*", help="Only these.")
        parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="Between looks; 2.")
        parser.add_argument("--count", type=int, metavar="N", help="Look so often, then end.")

    def run(self, alias: str, **options: Any) -> None:
        interval, left = options["interval"], options["count"]
        if interval < 0.2:
            raise CommandError("--interval must be 0.2 or more: looking costs statements.")
        stopping = until_told()
        flow, home = Flow(alias), REDRAW if self.stdout.isatty() else ""
        while not stopping.is_set() and left != 0:
            self.stdout.write(home + self._screen(alias, options["queues"], flow))
            self.stdout.flush()
            left = None if left is None else left - 1
            if left != 0:
                stopping.wait(interval)

    @staticmethod
    def _screen(alias: str, names: list[str], flow: Flow) -> str:
        try:
            rates = flow.look()
            queues = overview(names, using=alias)
            workers = fleet(using=alias)
        except StoreUnavailable as error:
            return f"{time.strftime('%H:%M:%S')}  {error}"
        stale = sum(worker.stale for worker in workers)
        held = sum(worker.held for worker in workers)
        head = f"{time.strftime('%H:%M:%S')}  {plural(len(workers), 'worker')}, {stale} stale, {held:,} held"
        rows = [_row(queue, rates) for queue in sorted(queues, key=_urgency, reverse=True)]
        lines = [head, "", *table(HEADINGS, rows, right=range(1, 8)).splitlines()]
        size = shutil.get_terminal_size((200, 1000))
        return "\n".join(shortened(line, size.columns) for line in lines[: size.lines - 1])


def _urgency(queue: QueueState) -> tuple[float, int, int]:
    """What waits longest stands first: it is what the operator came for."""
    return queue.oldest_ready_seconds or 0.0, queue.dead, queue.ready


def _row(queue: QueueState, rates: Rates) -> tuple[str, ...]:
    counts = (queue.ready, queue.scheduled, queue.claimed, queue.dead)
    remarks = [word for word, is_so in (("closed", queue.closed), ("paused", queue.paused)) if is_so]
    return (
        queue.name,
        *(bounded(count, COUNT_LIMIT) for count in counts),
        span(queue.oldest_ready_seconds),
        "-" if rates is None else f"{rates.get(queue.name, 0.0):,.1f}",
        f"{queue.consumers:,}",
        ", ".join(remarks),
    )
