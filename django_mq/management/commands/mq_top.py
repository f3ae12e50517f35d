"""Watch the queues and the workers, as ``top`` watches processes."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections

from django_mq.diagnosis.state.fleet import fleet
from django_mq.diagnosis.state.flow import Flow
from django_mq.diagnosis.state.overview import COUNT_LIMIT, overview
from django_mq.errors import StoreUnavailable
from django_mq.management.arguments import UsageError, add_json, at_least_one
from django_mq.management.command import MQCommand, until_told
from django_mq.management.tables import bounded, plural, shortened, span, table
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from django_mq.diagnosis.state.fleet import Worker
    from django_mq.diagnosis.state.flow import Rates
    from django_mq.diagnosis.state.overview import QueueState

HEADINGS = ("QUEUE", "READY", "SCHEDULED", "CLAIMED", "DEAD", "OLDEST READY", "DONE/s", "CONSUMERS", "")
#: Home, and clear to the end of the screen: it does not flicker as a cleared screen does.
REDRAW = "\x1b[H\x1b[J"


class Command(MQCommand):
    help = (
        "Watch depth, age, rates and workers until interrupted. A few statements each time. While the database is "
        "away, it says so, and goes on."
    )
    exit_codes: ClassVar = {1: "refused, or the last of --count looks found the database away"}

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queues", metavar="QUEUE", nargs="*", help="Only these.")
        parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="Between looks; 2.")
        parser.add_argument("--count", type=at_least_one, metavar="N", help="Look so often, then end.")
        add_json(parser, what="a JSON object a line, one for each look")

    def run(self, alias: str, **options: Any) -> None:
        interval, left = options["interval"], options["count"]
        if not 0.2 <= interval <= 86_400:
            raise UsageError("--interval must be 0.2 or more, for looking costs statements, and a day at most.")
        stopping = until_told()
        flow, home = Flow(alias), REDRAW if self.stdout.isatty() else ""
        while not stopping.is_set() and left != 0:
            look = _look(alias, options["queues"], flow)
            self.stdout.write(_as_json(look) if options["json"] else home + _screen(look))
            self.stdout.flush()
            left = None if left is None else left - 1
            if left != 0:
                stopping.wait(interval)
            elif look.error:
                raise SystemExit(1)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has seen, or why it has seen nothing."""

    queues: Sequence[QueueState] = ()
    workers: Sequence[Worker] = ()
    rates: Rates = None
    error: str = ""

    @property
    def head(self) -> str:
        stale = sum(worker.stale for worker in self.workers)
        held = sum(worker.held for worker in self.workers)
        return f"{plural(len(self.workers), 'worker')}, {stale} stale, {held:,} held"


def _look(alias: str, names: list[str], flow: Flow) -> Look:
    try:
        with translating(connections[alias]):
            rates = flow.look()
            queues = sorted(overview(names, using=alias), key=_urgency, reverse=True)
            return Look(queues, fleet(using=alias), rates)
    except StoreUnavailable as error:
        connections[alias].close()  # the next look connects anew
        return Look(error=str(error))


def _screen(look: Look) -> str:
    now = time.strftime("%H:%M:%S")
    if look.error:
        return f"{now}  {look.error}"
    rows = [_row(queue, look.rates) for queue in look.queues]
    lines = [f"{now}  {look.head}", "", *table(HEADINGS, rows, right=range(1, 8)).splitlines()]
    size = shutil.get_terminal_size((200, 1000))
    return "\n".join(shortened(line, size.columns) for line in lines[: size.lines - 1])


def _as_json(look: Look) -> str:
    return json.dumps(_object(look), cls=DjangoJSONEncoder)


def _object(look: Look) -> dict[str, Any]:
    rates = look.rates
    queues = [
        {**asdict(queue), "done_per_second": None if rates is None else rates.get(queue.name, 0.0)}
        for queue in look.queues
    ]
    workers = {
        "alive": sum(not worker.stale for worker in look.workers),
        "stale": sum(worker.stale for worker in look.workers),
        "held": sum(worker.held for worker in look.workers),
    }
    return {"at": time.time(), "error": look.error, "workers": workers, "queues": queues}


def _urgency(queue: QueueState) -> tuple[float, int, int]:
    """What waits longest stands first: it is what the operator came for."""
    return queue.waited_seconds, queue.dead_letters, queue.ready


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
