"""Watch the queues and the workers, as ``top`` watches processes."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections

from django_mq.diagnosis.state.fleet import fleet, supplies
from django_mq.diagnosis.state.flow import Flow
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.running import sentence_of, unusual
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.diagnosis.wording import plural
from django_mq.errors import StoreUnavailable
from django_mq.management.arguments import ONLY_QUEUES, UsageError, argument, at_least_one
from django_mq.management.command import MQCommand, until_told
from django_mq.management.tables import QUEUE_HEADINGS, queue_cells, queue_remarks, shortened, table
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.flow import Rates
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.running import RunningMessage

HEADINGS = (*QUEUE_HEADINGS, "DONE/s", "CONSUMERS", "")
#: The most lines about what runs unusually long.
MOST_UNUSUAL = 3
#: Home, and clear to the end of the screen: it does not flicker as a cleared screen does.
REDRAW = "\x1b[H\x1b[J"


class Command(MQCommand):
    help = (
        "Watch messages, age, rates and workers until interrupted. While the database is unavailable, print "
        "that, and go on."
    )
    exit_codes: ClassVar = {1: "refused, or the database was unavailable at the last of --count looks"}
    arguments: ClassVar = (
        ONLY_QUEUES,
        argument(
            "--interval", type=float, default=2.0, metavar="SECONDS", help="Time between refreshes; default: 2."
        ),
        argument("--count", type=at_least_one, metavar="N", help="Refresh so many times, then end."),
        argument("--once", action="store_const", const=1, dest="count", help="Print once, then end."),
    )
    json = "a JSON object a line, one for each look"

    def run(self, alias: str, **options: Any) -> None:
        interval, left = options["interval"], options["count"]
        if not 0.2 <= interval <= 86_400:
            raise UsageError("--interval must be from 0.2, because each look costs statements, to a day.")
        stopping = until_told()
        flow, redraws = Flow(alias), self.stdout.isatty() and left != 1
        while not stopping.is_set() and left != 0:
            look = _look(alias, options["queues"], flow)
            self.stdout.write(_line(look) if self.as_json else _screen(look, redraws=redraws))
            self.stdout.flush()
            left = None if left is None else left - 1
            if left != 0:
                stopping.wait(interval)
            elif look.error:
                raise SystemExit(1)


@dataclass(frozen=True, slots=True)
class Screen:
    """The result of one look, or the error that prevented it."""

    queues: Sequence[QueueState] = ()
    workers: Sequence[WorkerStatus] = ()
    rates: Rates = None
    unwanted: Mapping[str, int] = field(default_factory=dict)
    #: What runs unusually long.
    unusual: Sequence[RunningMessage] = ()
    error: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of workers, and of the messages that they hold."""
        stale = sum(worker.stale for worker in self.workers)
        held = sum(worker.held for worker in self.workers)
        return {"alive": len(self.workers) - stale, "stale": stale, "held": held}


def _look(alias: str, names: list[str], flow: Flow) -> Screen:
    try:
        with translating(connections[alias]):
            rates = flow.look()
            queues = sorted(overview(names, using=alias), key=_urgency, reverse=True)
            workers = fleet(using=alias)
            left = unwanted(workers, using=alias)
            return Screen(queues, workers, rates, left, unusual(using=alias)[:MOST_UNUSUAL])
    except StoreUnavailable as error:
        connections[alias].close()  # the next look connects anew
        return Screen(error=str(error))


def _urgency(queue: QueueState) -> tuple[float, int, int]:
    """The queue whose messages have waited longest comes first."""
    return queue.waited_seconds, queue.dead_letters, queue.ready


def _screen(look: Screen, *, redraws: bool) -> str:
    """Return the look as text; if it ``redraws`` the screen, no longer than that."""
    now, home = time.strftime("%H:%M:%S"), REDRAW if redraws else ""
    if look.error:
        return f"{home}{now}  {look.error}"
    supply = supplies(look.workers)
    rows = [_row(queue, look, supply[queue.name].awake) for queue in look.queues]
    head = f"{plural(len(look.workers), 'worker')}, {look.counts['stale']} stale, {look.counts['held']:,} held"
    long = [f"worker {one.worker}: {' '.join(sentence_of(one).split())}" for one in look.unusual]
    lines = [f"{now}  {head}", *long, "", *table(HEADINGS, rows, right=range(1, 9)).splitlines()]
    size = shutil.get_terminal_size((200, 1000))
    fitting = lines[: size.lines - 1] if redraws else lines
    return home + "\n".join(shortened(line, size.columns) for line in fitting)


def _row(queue: QueueState, look: Screen, awake: int) -> tuple[str, ...]:
    rate = "-" if look.rates is None else f"{look.rates.get(queue.name, 0.0):,.1f}"
    remarks = queue_remarks(queue, awake, look.unwanted.get(queue.name, 0))
    return (*queue_cells(queue), rate, f"{queue.consumers:,}", remarks)


def _line(look: Screen) -> str:
    rates = look.rates
    queues = [
        {**asdict(queue), "done_per_second": None if rates is None else rates.get(queue.name, 0.0)}
        for queue in look.queues
    ]
    value = {"at": time.time(), "error": look.error, "workers": look.counts, "queues": queues}
    value["unusual"] = [one.as_object() for one in look.unusual]
    return json.dumps(value, cls=DjangoJSONEncoder)
