"""Watch the queues and the workers, as ``top`` watches processes."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder

from django_mq.diagnosis.state.fleet import supplies
from django_mq.diagnosis.state.flow import Flow
from django_mq.diagnosis.state.running import sentence_of, unusual
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import ONLY_QUEUES, UsageError, argument, at_least_one
from django_mq.management.command import MQCommand, until_told
from django_mq.management.tables import QUEUE_HEADINGS, queue_cells, queue_remarks, shortened, table
from django_mq.management.top.look import Look, Watch, attempted, glance

if TYPE_CHECKING:
    from django_mq.diagnosis.state.overview import QueueState

HEADINGS = (*QUEUE_HEADINGS, "DONE/s", "CONSUMERS", "")
#: The most lines about what runs unusually long.
MOST_UNUSUAL = 3
#: Home, and clear to the end of the screen: it does not flicker as a cleared screen does.
REDRAW = "\x1b[H\x1b[J"
#: The library of the program with keys and colours.
LIBRARY = "textual"
HINT = "With colours, curves, and keys to sort, filter and pause: pip install 'django-mq[top]'."


class Command(MQCommand):
    help = (
        "Watch messages, age, rates and workers until interrupted; at a terminal, with keys to sort, filter and "
        "pause (press ?). While the database is unavailable, say that, and go on."
    )
    exit_codes: ClassVar = {1: "refused, or the database was unavailable at the last of --count looks"}
    arguments: ClassVar = (
        ONLY_QUEUES,
        argument(
            "--interval", type=float, default=2.0, metavar="SECONDS", help="Time between refreshes; default: 2."
        ),
        argument("--count", type=at_least_one, metavar="N", help="Print so many looks, then end."),
        argument("--once", action="store_const", const=1, dest="count", help="Print once, then end."),
        argument("--plain", action="store_true", help="Print looks, without keys and colours."),
    )
    json = "a JSON object a line, one for each look"

    def run(self, alias: str, **options: Any) -> None:
        interval, left, names = options["interval"], options["count"], options["queues"]
        if not 0.2 <= interval <= 86_400:
            raise UsageError("--interval must be from 0.2, because each look costs statements, to a day.")
        watches = left is None and self.stdout.isatty() and not self.as_json
        if watches and not options["plain"] and _takes_keys():
            if find_spec(LIBRARY):
                if options.get("no_color"):
                    os.environ["NO_COLOR"] = "1"  # which the library reads
                return _program(alias, names, interval)
            hint = HINT
        else:
            hint = ""
        self._print(alias, names, interval, left)
        if hint:
            self.stderr.write(hint)
        return None

    def _print(self, alias: str, names: list[str], interval: float, left: int | None) -> None:
        stopping = until_told()
        flow, redraws = Flow(alias), self.stdout.isatty() and left != 1

        def look() -> Look:
            return replace(glance(alias, names, flow), running=unusual(using=alias)[:MOST_UNUSUAL])

        while not stopping.is_set() and left != 0:
            found = attempted(alias, look)
            self.stdout.write(_line(found) if self.as_json else _screen(found, redraws=redraws))
            self.stdout.flush()
            left = None if left is None else left - 1
            if left != 0:
                stopping.wait(interval)
            elif found.error:
                raise SystemExit(1)


def _takes_keys() -> bool:
    """Return whether a program can draw on the terminal, and is given keys."""
    return sys.stdin is not None and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _program(alias: str, names: list[str], interval: float) -> None:
    from django_mq.management.top.program import show

    show(Watch(alias, names), interval)


def _screen(look: Look, *, redraws: bool) -> str:
    """Return the look as text; if it ``redraws`` the screen, no longer than that."""
    now, home = PLAIN.time(datetime.now(UTC)), REDRAW if redraws else ""
    if look.error:
        return f"{home}{now}  {look.error}"
    supply = supplies(look.workers)
    rows = [_row(queue, look, supply[queue.name].awake) for queue in look.queues]
    stale, held = (PLAIN.number(look.counts[name]) for name in ("stale", "held"))
    head = f"{plural(len(look.workers), 'worker')}, {stale} stale, {held} held"
    long = [f"worker {one.worker}: {' '.join(sentence_of(one).split())}" for one in look.running or ()]
    lines = [f"{now}  {head}", *long, "", *table(HEADINGS, rows, right=range(1, 9)).splitlines()]
    size = shutil.get_terminal_size((200, 1000))
    fitting = lines[: size.lines - 1] if redraws else lines
    return home + "\n".join(shortened(line, size.columns) for line in fitting)


def _row(queue: QueueState, look: Look, awake: int) -> tuple[str, ...]:
    rate = PLAIN.rate(None if look.rates is None else look.rates.get(queue.name, 0.0))
    remarks = queue_remarks(queue, awake, look.unwanted.get(queue.name, 0))
    return (*queue_cells(queue), rate, PLAIN.number(queue.consumers), remarks)


def _line(look: Look) -> str:
    rates = look.rates
    queues = [
        {**asdict(queue), "done_per_second": None if rates is None else rates.get(queue.name, 0.0)}
        for queue in look.queues
    ]
    value = {"at": time.time(), "error": look.error, "workers": look.counts, "queues": queues}
    value["unusual"] = [one.as_object() for one in look.running or ()]
    return json.dumps(value, cls=DjangoJSONEncoder)
